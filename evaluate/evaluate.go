package evaluate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// Action is what is done with a result that does not pass.
type Action string

// The actions.
const (
	Redact Action = "redact" // what a rule matches is replaced
	Fail   Action = "fail"   // the task fails
	Ask    Action = "ask"    // the user is asked whether it may be passed on
)

// Bounds of a configuration.
const (
	maxEvaluators = 32
	maxRules      = 64
	maxRule       = 1000 // bytes
	maxRounds     = 5
	maxCriteria   = 16
)

// Evaluator judges a result.
type Evaluator struct {
	Name      string
	Rules     []*regexp.Regexp // a match does not pass; none: a model judges
	Criterion string           // what the model judges
	Threshold float64          // the score from which a result passes, from 0 to 1
	Action    Action
}

// Judged reports whether the evaluator needs a model.
func (e *Evaluator) Judged() bool { return len(e.Rules) == 0 }

// Unnamed reports whether nothing but the name says what is judged.
func (e *Evaluator) Unnamed() bool { return e.Criterion == strings.ReplaceAll(e.Name, "_", " ") }

// Verdict is the outcome of an evaluation.
type Verdict struct {
	Evaluator string  `json:"evaluator"`
	Pass      bool    `json:"pass"`
	Score     float64 `json:"score"`            // of a model, from 0 to 1; of rules, 0 or 1
	Advice    string  `json:"advice,omitempty"` // what is wrong
	Action    Action  `json:"action,omitempty"` // what was done, if it does not pass
	Round     int     `json:"round,omitempty"`  // of a reflection, from 1
}

// Reflection has a model judge a draft, and the agent revise it.
type Reflection struct {
	Enabled   *bool    `json:"enabled"`    // default true
	MaxRounds int      `json:"max_rounds"` // judged drafts, 1 to 5, default 2
	Criteria  []string `json:"criteria"`   // default completeness and accuracy
	Model     string   `json:"model"`      // not used: the agent's own model judges
}

// Check returns what is wrong, and fills in the defaults.
func (r *Reflection) Check() error {
	r.MaxRounds = cmp.Or(r.MaxRounds, 2)
	if r.MaxRounds < 1 || r.MaxRounds > maxRounds {
		return fmt.Errorf("max_rounds: want a number from 1 to %d", maxRounds)
	}
	if len(r.Criteria) == 0 {
		r.Criteria = []string{"completeness", "accuracy"}
	}
	if len(r.Criteria) > maxCriteria {
		return fmt.Errorf("at most %d criteria are allowed", maxCriteria)
	}
	return nil
}

// On reports whether drafts are judged.
func (r *Reflection) On() bool { return r != nil && (r.Enabled == nil || *r.Enabled) }

// personal matches personal data: addresses of e-mail, numbers of telephones, credit cards, bank accounts and social security.
var personal = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\b[a-z0-9._%+-]+@[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,24}\b`),
	regexp.MustCompile(`\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b`),
	regexp.MustCompile(`\b(?:\d[ -]?){13,18}\d\b`),
	regexp.MustCompile(`\b\d{3}-\d{2}-\d{4}\b`),
	regexp.MustCompile(`\+\d{1,3}[ -]?(?:\(\d+\)[ -]?)?\d(?:[ -]?\d){5,12}\b`),
}

// criteria describes evaluators that have a name only.
var criteria = map[string]string{
	"relevance":    "it answers what was asked, and nothing else",
	"factuality":   "it claims nothing that its sources do not say",
	"completeness": "it does all that was asked",
	"accuracy":     "what it says is right, and agrees with its sources",
}

// Known reports whether a name says by itself what is judged.
func Known(name string) bool { return name == noPersonalData || criteria[name] != "" }

// noPersonalData is the evaluator with rules of its own.
const noPersonalData = "no_pii"

// Parse reads evaluators: a list of names, or a map of names to settings (rules, judge, threshold, action). no_pii has rules of its own and redacts; any
// other name without rules is judged by a model, and fails. Nothing, or null, are none.
func Parse(raw json.RawMessage) ([]Evaluator, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	type settings struct {
		Rules     []string        `json:"rules"`
		Judge     json.RawMessage `json:"judge"`
		Threshold *float64        `json:"threshold"`
		Action    Action          `json:"action"`
	}
	byName := map[string]json.RawMessage{}
	var order []string
	if json.Unmarshal(raw, &order) != nil {
		if json.Unmarshal(raw, &byName) != nil {
			return nil, errors.New("want a list of names, or settings under names")
		}
		order = slices.Sorted(maps.Keys(byName))
	}
	if len(order) > maxEvaluators {
		return nil, fmt.Errorf("at most %d are allowed", maxEvaluators)
	}
	var all []Evaluator
	for _, name := range order {
		s := &settings{}
		if raw := byName[name]; len(raw) > 0 {
			d := json.NewDecoder(bytes.NewReader(raw))
			d.DisallowUnknownFields() // a misspelt key would let results through
			if err := d.Decode(s); err != nil {
				return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "json: "))
			}
		}
		e := Evaluator{Name: shorten.To(name, 64), Threshold: 0.7, Criterion: criteria[name], Action: s.Action}
		var judge string
		if json.Unmarshal(s.Judge, &judge) == nil && judge != "" && judge != "llm" {
			e.Criterion = judge
		}
		e.Criterion = cmp.Or(e.Criterion, strings.ReplaceAll(name, "_", " "))
		if s.Threshold != nil {
			e.Threshold = *s.Threshold
		}
		if name == noPersonalData && len(s.Rules) == 0 && len(s.Judge) == 0 {
			e.Rules, e.Action = personal, cmp.Or(e.Action, Redact)
		}
		if len(s.Rules) > maxRules {
			return nil, fmt.Errorf("%s: at most %d rules are allowed", name, maxRules)
		}
		for _, rule := range s.Rules {
			re, err := regexp.Compile(rule)
			if err != nil || len(rule) > maxRule {
				return nil, fmt.Errorf("%s: the rule %q is no regular expression: %w", name, shorten.Line(rule, 80), err)
			}
			e.Rules = append(e.Rules, re)
		}
		e.Action = cmp.Or(e.Action, Fail)
		switch {
		case e.Action != Redact && e.Action != Fail && e.Action != Ask:
			return nil, fmt.Errorf("%s: action %q: it is redact, fail or ask", name, shorten.Line(string(e.Action), 40))
		case e.Action == Redact && e.Judged():
			return nil, fmt.Errorf("%s: a model cannot redact: give rules, or another action", name)
		case !e.Judged() && len(s.Judge) > 0:
			return nil, fmt.Errorf("%s: it has rules and a judge: give each a name of its own", name)
		case e.Threshold < 0 || e.Threshold > 1:
			return nil, fmt.Errorf("%s: threshold: want a number from 0 to 1", name)
		}
		all = append(all, e)
	}
	return all, nil
}

// Judge asks a model whether an output meets criteria, for a task.
type Judge func(ctx context.Context, task, output string, criteria []string) (score float64, advice string, err error)

// Check applies evaluators to the texts of an output in their order, up to the first whose action is to fail or to ask, whose verdict is the last one. It
// changes texts to what may be passed on. An error is that of the judge, or ctx's.
func Check(ctx context.Context, all []Evaluator, judge Judge, task string, texts []string) ([]Verdict, error) {
	var verdicts []Verdict
	for i := range all {
		e := &all[i]
		v := Verdict{Evaluator: e.Name, Pass: true, Score: 1}
		switch {
		case e.Judged():
			var err error
			if v.Score, v.Advice, err = judge(ctx, task, strings.Join(texts, "\n"), []string{e.Criterion}); err != nil {
				return verdicts, fmt.Errorf("the evaluator %s cannot judge: %w", e.Name, err)
			}
			if v.Pass = v.Score >= e.Threshold; v.Pass {
				v.Advice = ""
			}
		default:
			if err := e.apply(ctx, texts, &v); err != nil {
				return verdicts, err
			}
		}
		if !v.Pass {
			v.Action = e.Action
		}
		verdicts = append(verdicts, v)
		if Ended(verdicts) {
			break
		}
	}
	return verdicts, nil
}

// Ended reports whether the last of the verdicts of [Check] ends what is checked: no evaluator comes behind it.
func Ended(all []Verdict) bool {
	if len(all) == 0 {
		return false
	}
	last := all[len(all)-1]
	return last.Action == Fail || last.Action == Ask
}

// apply applies rules, and redacts what they match if that is their action. It returns an error when ctx ends.
func (e *Evaluator) apply(ctx context.Context, texts []string, v *Verdict) error {
	n := 0
	for i := range texts {
		for _, rule := range e.Rules {
			if ctx.Err() != nil { // a long text takes seconds for each rule
				return context.Cause(ctx)
			}
			if e.Action != Redact {
				n += len(rule.FindAllStringIndex(texts[i], -1))
				continue
			}
			texts[i] = rule.ReplaceAllStringFunc(texts[i], func(string) string {
				n++
				return "[" + e.Name + "]"
			})
		}
	}
	switch {
	case n == 1:
		v.Pass, v.Score, v.Advice = false, 0, "a rule matches it"
	case n > 1:
		v.Pass, v.Score, v.Advice = false, 0, fmt.Sprintf("its rules match it %d times", n)
	}
	return nil
}

// Redacts reports whether a rule of those that redact matches a text.
func Redacts(all []Evaluator, text string) bool {
	for i := range all {
		match := func(rule *regexp.Regexp) bool { return rule.MatchString(text) }
		if all[i].Action == Redact && slices.ContainsFunc(all[i].Rules, match) {
			return true
		}
	}
	return false
}

// Slot is a string in a value.
type Slot struct {
	Text string
	Set  func(text string) // replaces it
}

// Strings returns the strings in a value of JSON, to be set in this order: those in an object come before its keys. put replaces the value itself. They
// are checked beside the JSON, in which a new line is written as a letter.
func Strings(value any, put func(text string)) []Slot {
	var all []Slot
	addStrings(&all, value, put)
	return all
}

// addStrings adds the strings in a value to all: copies of what each level has would take the square of the depth.
func addStrings(all *[]Slot, value any, put func(text string)) {
	add := func(text string, set func(string)) {
		if text != "" {
			*all = append(*all, Slot{text, set})
		}
	}
	switch value := value.(type) {
	case string:
		add(value, put)
	case []any:
		for i := range value {
			addStrings(all, value[i], func(text string) { value[i] = text })
		}
	case map[string]any:
		keys := slices.Sorted(maps.Keys(value))
		for _, k := range keys {
			addStrings(all, value[k], func(text string) { value[k] = text })
		}
		for _, k := range keys {
			add(k, func(text string) {
				held := value[k]
				delete(value, k)
				value[text] = held
			})
		}
	}
}

// Words says what a verdict that stops a result means.
func (v *Verdict) Words() string {
	if v.Advice == "" {
		return fmt.Sprintf("the evaluator %s does not pass the result (%.2g of 1)", v.Evaluator, v.Score)
	}
	return fmt.Sprintf("the evaluator %s does not pass the result: %s", v.Evaluator, shorten.Line(v.Advice, 500))
}
