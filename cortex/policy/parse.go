package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/cortex-orchestrator/cortex/evaluate"
	"github.com/cortex-orchestrator/cortex/internal/document"
)

// Bounds of a file.
const (
	MaxBytes = 1 << 20 // of the file
	MaxRules = 1000
	maxGlobs = 1000    // of one list
	maxCap   = 1000000 // of at_once, per_turn and requests_per_minute

	// MaxAttempts is the maximum number of attempts at a task, by all agents together.
	MaxAttempts = 5
)

// Parse reads a policy in YAML or JSON. name is the name of the file in errors, which are one line with the number of the rule, from 1, the key and
// the line. An empty file is an error, since it may be in the middle of being written: `rules: []` has no rules.
func Parse(name string, b []byte) (*Policy, error) {
	p, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

func parse(b []byte) (*Policy, error) {
	if len(b) > MaxBytes {
		return nil, fmt.Errorf("%d bytes; at most %d are allowed", len(b), MaxBytes)
	}
	d, err := document.Parse(b)
	if err != nil {
		return nil, err
	}
	p, err := read(d.JSON)
	return p, d.Explain(err)
}

func read(plain json.RawMessage) (*Policy, error) {
	if string(plain) == "null" {
		return nil, errors.New("there is nothing in it: write `rules: []` to have no rules")
	}
	p := &Policy{}
	file, err := object(plain, "tenants", "rules", "evaluators")
	if err != nil {
		return nil, err
	}
	if raw, ok := file["tenants"]; ok {
		tenants, err := object(raw, "deny")
		if err != nil {
			return nil, fmt.Errorf("tenants: %w", err)
		}
		f := fields{of: tenants}
		if f.globs("deny", &p.denied); f.err != nil {
			return nil, fmt.Errorf("tenants: %w", f.err)
		}
	}
	var rules []json.RawMessage
	if raw, ok := file["rules"]; ok {
		if err := json.Unmarshal(raw, &rules); err != nil {
			return nil, errors.New("rules: it is a list")
		}
	}
	if len(rules) > MaxRules {
		return nil, fmt.Errorf("%d rules; at most %d are allowed", len(rules), MaxRules)
	}
	if p.evaluators, err = readEvaluators(file["evaluators"]); err != nil {
		return nil, fmt.Errorf("evaluators: %w", err)
	}
	for i, raw := range rules {
		r, err := readRule(raw)
		if err == nil {
			err = p.knows(r.evaluators)
		}
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
		p.rules = append(p.rules, r)
	}
	return p, nil
}

// readEvaluators reads what checks results. no_pii is there in any case: it costs nothing.
func readEvaluators(raw json.RawMessage) ([]evaluate.Evaluator, error) {
	all, err := evaluate.Parse(raw)
	if err != nil {
		return nil, err
	}
	for i := range all {
		switch e := &all[i]; {
		case e.Action == evaluate.Ask:
			return nil, fmt.Errorf("%s: action ask is only for an agent's own evaluators: write redact or fail", e.Name)
		case !evaluate.Known(e.Name) && e.Judged() && e.Unnamed():
			return nil, fmt.Errorf("%s: what is it to judge? Write judge: \"what a result has to be\", or rules", e.Name)
		}
	}
	const own = "no_pii"
	if !slices.ContainsFunc(all, func(e evaluate.Evaluator) bool { return e.Name == own }) {
		builtin, err := evaluate.Parse(json.RawMessage(`["` + own + `"]`))
		if err != nil {
			return nil, err
		}
		all = append(builtin, all...)
	}
	return all, nil
}

// knows returns an error for a name for which there is no evaluator.
func (p *Policy) knows(names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(p.evaluators, func(e evaluate.Evaluator) bool { return e.Name == name }) {
			return fmt.Errorf("evaluators: there is no %.40q: write what it checks below evaluators, beside rules", name)
		}
	}
	return nil
}

func readRule(raw json.RawMessage) (*rule, error) {
	o, err := object(raw, "agents", "skills", "from", "only_from", "allow", "confirm", "at_once", "per_turn", "requests_per_minute", "retry", "evaluators", "bids", "board", "swarm", "calls", "repeat")
	if err != nil {
		return nil, err
	}
	r, f := &rule{}, fields{of: o}
	f.globs("agents", &r.agents)
	f.globs("skills", &r.skills)
	f.globs("from", &r.from)
	f.globs("only_from", &r.only)
	allow := true
	f.bool("allow", &allow)
	confirm := true
	f.bool("confirm", &confirm)
	_, said := o["confirm"]
	r.confirm, r.waive = said && confirm, !confirm
	bids := true
	f.bool("bids", &bids)
	board := true
	f.bool("board", &board)
	r.closed, r.boardless = !bids, !board
	f.count("at_once", &r.atOnce)
	f.count("per_turn", &r.perTurn)
	f.number("requests_per_minute", &r.requests, 1, maxCap, "requests")
	if f.read("evaluators", &r.evaluators, "a list of names, such as [no_pii]") && len(r.evaluators) == 0 {
		f.err = errors.New("evaluators: it is a list of names, such as [no_pii]")
	}
	if f.err != nil {
		return nil, f.err
	}
	if raw, ok := o["retry"]; ok {
		if err := r.readRetry(raw); err != nil {
			return nil, fmt.Errorf("retry: %w", err)
		}
	}
	if raw, ok := o["calls"]; ok {
		if err := r.readCalls(raw); err != nil {
			return nil, fmt.Errorf("calls: %w", err)
		}
	}
	if raw, ok := o["repeat"]; ok {
		if err := r.readRepeat(raw); err != nil {
			return nil, fmt.Errorf("repeat: %w", err)
		}
	}
	if raw, ok := o["swarm"]; ok {
		if err := r.readSwarm(raw); err != nil {
			return nil, fmt.Errorf("swarm: %w", err)
		}
	}
	r.deny = !allow
	return r, r.check()
}

func (r *rule) readRetry(raw json.RawMessage) error {
	o, err := object(raw, "others", "attempts")
	if err != nil {
		return err
	}
	f, others := fields{of: o}, true
	f.bool("others", &others)
	f.number("attempts", &r.attempts, 1, MaxAttempts, "attempts")
	r.alone = !others
	if f.err == nil && !r.alone && r.attempts == 0 {
		return errors.New("it changes nothing, since others are tried anyway: write others: false, or attempts")
	}
	return f.err
}

// check refuses rules that could be mistaken for more than they do.
func (r *rule) check() error {
	only, retry := len(r.only) > 0, r.alone || r.attempts > 0
	switch {
	case len(r.agents) == 0:
		return errors.New(`agents: it is missing: globs of the agents' ids, such as ["bank-*"]`)
	case only && len(r.from) > 0:
		return errors.New("only_from: the rule has from too: make two rules of it")
	case r.deny && (only || r.confirm || r.waive || r.atOnce > 0 || r.perTurn > 0 || r.requests > 0 || retry || r.closed || r.boardless || r.swarm != nil || r.calls != nil || r.repeat != nil || len(r.evaluators) > 0):
		return errors.New("allow: with false nothing else counts: leave out only_from, confirm, at_once, per_turn, requests_per_minute, retry, bids, board, swarm, calls, repeat and evaluators")
	case r.requests > 0 && (len(r.skills) > 0 || len(r.from) > 0):
		return errors.New("requests_per_minute: it is about what its agents ask for: put it into a rule without skills and from")
	case (r.atOnce > 0 || r.perTurn > 0) && (len(r.skills) > 0 || len(r.from) > 0):
		return errors.New("at_once and per_turn: they count all tasks of an agent: put them into a rule without skills and from")
	case (r.closed || r.boardless) && (len(r.skills) > 0 || len(r.from) > 0):
		return errors.New("bids and board: they are about all that its agents are asked for: put them into a rule without skills and from")
	case !r.deny && !r.closed && !r.boardless && r.swarm == nil && r.calls == nil && r.repeat == nil && !only && !r.confirm && !r.waive && r.atOnce == 0 && r.perTurn == 0 && r.requests == 0 && !retry && len(r.evaluators) == 0:
		return errors.New("it changes nothing, since what no rule forbids is allowed: for \"these and nobody else\" write only_from")
	}
	return nil
}

// object decodes an object that may have only these keys. It treats a key with null as missing.
func object(raw json.RawMessage, keys ...string) (map[string]json.RawMessage, error) {
	var o map[string]json.RawMessage
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, fmt.Errorf("it has to have keys, of %s", strings.Join(keys, ", "))
	}
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(keys, key) {
			return nil, fmt.Errorf("unknown key %.100q%s", key, meant(key, keys))
		}
		if string(o[key]) == "null" {
			return nil, fmt.Errorf("%s: there is nothing behind it: leave the key out", key)
		}
	}
	return o, nil
}

// fields decodes the values of an object. err is the first error.
type fields struct {
	of  map[string]json.RawMessage
	err error
}

// read decodes the value of a key, if present. It reports whether it did.
func (f *fields) read(key string, v any, is string) bool {
	raw, ok := f.of[key]
	if !ok || f.err != nil {
		return false
	}
	if err := json.Unmarshal(raw, v); err != nil {
		f.err = fmt.Errorf("%s: it is %s", key, is)
	}
	return f.err == nil
}

func (f *fields) globs(key string, all *globs) {
	const is = `a list of globs, such as ["bank-*"]`
	var list []string
	if !f.read(key, &list, is) {
		return
	}
	switch {
	case len(list) == 0:
		f.err = fmt.Errorf("%s: it is %s", key, is)
	case len(list) > maxGlobs:
		f.err = fmt.Errorf("%s: %d globs; at most %d are allowed", key, len(list), maxGlobs)
	}
	for _, s := range list {
		g, err := newGlob(s)
		if err != nil && f.err == nil {
			f.err = fmt.Errorf("%s: %w", key, err)
		}
		*all = append(*all, g)
	}
}

func (f *fields) bool(key string, v *bool) { f.read(key, v, "true or false") }

func (f *fields) count(key string, v *int) { f.number(key, v, 1, maxCap, "tasks") }

func (f *fields) number(key string, v *int, least, most int, of string) {
	is := fmt.Sprintf("a number of %s from %d to %d", of, least, most)
	if f.read(key, v, is) && (*v < least || *v > most) {
		f.err = fmt.Errorf("%s: it is %s", key, is)
	}
}

// meant returns a hint: the key that was probably meant, or the known keys.
func meant(key string, keys []string) string {
	best, least := "", 3
	for _, k := range keys {
		if d := levenshtein.ComputeDistance(strings.ToLower(key), k); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ": there are " + strings.Join(keys, ", ")
	}
	return fmt.Sprintf(": did you mean %s?", best)
}
