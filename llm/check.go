package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/internal/nesting"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Limits of a decision.
const (
	DefaultMaxParallel = 8       // delegations of one decision if the Turn has no limit
	MaxTask            = 1 << 20 // a delegation's task, in bytes
	MaxDecision        = 1 << 20 // a model's reply with one decision, in bytes

	maxDelegationID = 256
	maxDelegations  = 1000 // of one reply, for any MaxParallel
	maxInputDepth   = 100  // of a delegation's input; the JSON around it has to be readable, too
	maxFiles        = 64   // of one delegation
	maxNearest      = 8    // agents, or files, that an error names when one is not found
	maxWhy          = 200  // characters of why an agent is unavailable
)

// Check returns nil when d can be carried out in turn t, otherwise an error that wraps [ErrInvalidDecision] and explains the mistake to the model. It
// checks the meaning: the kind, that there is text for the user, that agents and skills exist, and that delegations do not depend on each other in a
// cycle.
func Check(t *Turn, d *Decision) error {
	if err := check(t, d); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidDecision, err)
	}
	return nil
}

func check(t *Turn, d *Decision) error {
	var names []string
	for _, k := range kinds {
		switch {
		case k.check == nil:
		case k.Kind == d.Kind:
			return k.check(t, d)
		default:
			names = append(names, string(k.Kind))
		}
	}
	return fmt.Errorf("unknown kind %s; it is one of %s", excerpt(string(d.Kind)), strings.Join(names, ", "))
}

func checkAnswer(_ *Turn, d *Decision) error {
	if strings.TrimSpace(d.Say) == "" {
		return fmt.Errorf(`"say" is empty; with kind %q it is what the user reads`, d.Kind)
	}
	if n := len(d.Delegations); n > 0 {
		return fmt.Errorf("kind %q with %d delegations; either delegate or answer", d.Kind, n)
	}
	return nil
}

func checkDelegations(t *Turn, d *Decision) error {
	ds, most := d.Delegations, t.MaxParallel
	most = cmp.Or(max(most, 0), DefaultMaxParallel)
	switch {
	case t.Last:
		return fmt.Errorf("kind %q, but no step is left in this turn; answer the user", KindDelegate)
	case len(ds) == 0:
		return fmt.Errorf("kind %q without delegations", KindDelegate)
	case len(ds) > most:
		return fmt.Errorf("%d delegations, at most %d are allowed", len(ds), most)
	}
	place := make(map[string]int, len(ds))
	for i := range ds {
		switch id := ds[i].ID; {
		case id == "":
			return fmt.Errorf("delegation %d has no id", i+1)
		case len(id) > maxDelegationID:
			return fmt.Errorf("delegation %d has an id of %d bytes, at most %d are allowed", i+1, len(id), maxDelegationID)
		default:
			if _, twice := place[id]; twice {
				return fmt.Errorf("two delegations have the id %s", excerpt(id))
			}
			place[id] = i
		}
	}
	for i := range ds {
		if err := checkDelegation(t, &ds[i], place); err != nil {
			return fmt.Errorf("delegation %s: %w", excerpt(ds[i].ID), err)
		}
	}
	return checkOrder(ds, place)
}

// CheckDelegation is Check for a single delegation. The error has only the explanation.
func CheckDelegation(t *Turn, d *Delegation) error { return checkDelegation(t, d, nil) }

func checkDelegation(t *Turn, d *Delegation, place map[string]int) error {
	if why := whyNot(t, d.Agent); why != "" {
		return fmt.Errorf("agent %s cannot be given work at the moment: %s", excerpt(d.Agent), why)
	}
	a := knownAgent(t, d.Agent)
	if a == nil {
		switch {
		case d.Agent == "":
			return fmt.Errorf("agent is empty; %s", namesOf(t, ""))
		case wasListed(&t.Input, d.Agent):
			return fmt.Errorf("agent %s cannot be given work any more; %s", excerpt(d.Agent), namesOf(t, d.Agent))
		}
		return fmt.Errorf("no agent %s; %s", excerpt(d.Agent), namesOf(t, d.Agent))
	}
	if w := slices.IndexFunc(t.Waiting, func(w prompt.Task) bool { return string(w.ID) == d.ID }); w >= 0 && t.Waiting[w].Agent != d.Agent {
		return fmt.Errorf("agent %s, but the waiting task of that id is with agent %s", excerpt(d.Agent), excerpt(t.Waiting[w].Agent))
	}
	if d.Skill != "" && !hasSkill(a.Card, d.Skill) {
		return fmt.Errorf("agent %s has no skill %s; %s", excerpt(d.Agent), excerpt(d.Skill), skillsOf(a.Card))
	}
	if t.Veto != nil {
		if why := t.Veto(d.Agent, d.Skill); why != "" {
			return fmt.Errorf("agent %s %s", excerpt(d.Agent), why)
		}
	}
	switch {
	case strings.TrimSpace(d.Task) == "":
		return fmt.Errorf("task is empty; it tells the agent what to do")
	case len(d.Task) > MaxTask:
		return fmt.Errorf("task is %d bytes, at most %d are allowed", len(d.Task), MaxTask)
	case len(d.Input) > MaxTask:
		return fmt.Errorf("input is %d bytes, at most %d are allowed", len(d.Input), MaxTask)
	case len(d.Input) > 0 && !json.Valid(d.Input):
		return fmt.Errorf("input %s is not JSON", excerpt(string(d.Input)))
	case nesting.Depth(d.Input) > maxInputDepth:
		return fmt.Errorf("input %s is nested deeper than %d levels", excerpt(string(d.Input)), maxInputDepth)
	}
	if err := checkInput(t, a, d); err != nil {
		return err
	}
	if err := checkFiles(t, d.Files); err != nil {
		return err
	}
	for _, need := range d.DependsOn {
		if need == d.ID {
			return fmt.Errorf("depends on itself")
		}
		if _, ok := place[need]; !ok {
			return fmt.Errorf("depends on %s, which is no delegation of this decision", excerpt(need))
		}
	}
	return nil
}

// checkFiles returns an error for the first file that cannot go with a delegation.
func checkFiles(t *Turn, keys []string) error {
	if len(keys) > maxFiles {
		return fmt.Errorf("%d files, at most %d are allowed", len(keys), maxFiles)
	}
	for i, key := range keys {
		switch {
		case slices.Contains(keys[:i], key):
			return fmt.Errorf("file %s is named twice", excerpt(key))
		case slices.Contains(t.Available, key), t.Result(key) != nil:
		case len(t.Available) == 0:
			return fmt.Errorf("no file %s; there are none that can be sent along, so files is null", excerpt(key))
		default:
			newest := t.Available[max(0, len(t.Available)-maxNearest):]
			return fmt.Errorf("no file %s; the newest that can be sent along are %q", excerpt(key), newest)
		}
	}
	return nil
}

// checkOrder repeatedly removes delegations that depend on nothing; what remains is in a cycle.
func checkOrder(ds []Delegation, place map[string]int) error {
	done := make([]bool, len(ds))
	for range ds {
		for i := range ds {
			done[i] = done[i] || !slices.ContainsFunc(ds[i].DependsOn, func(id string) bool { return !done[place[id]] })
		}
	}
	if i := slices.Index(done, false); i >= 0 {
		return fmt.Errorf("delegation %s: depends_on goes round in a circle", excerpt(ds[i].ID))
	}
	return nil
}

// whyNot returns why the agent with an id is unavailable, or "".
func whyNot(t *Turn, id string) string {
	for i := range t.Unavailable {
		if t.Unavailable[i].ID == id {
			return cmp.Or(prompt.Clean(t.Unavailable[i].Why, maxWhy), "it does not say why")
		}
	}
	return ""
}

// knownAgent returns the agent with an id if it may be given work, or nil.
func knownAgent(t *Turn, id string) *prompt.Agent {
	a := findAgent(t.Agents, id)
	if a == nil && t.Lookup != nil {
		if found, ok := t.Lookup(id); ok {
			return &found
		}
	}
	return a
}

func findAgent(all []prompt.Agent, id string) *prompt.Agent {
	for i := range all {
		if all[i].ID == id {
			return &all[i]
		}
	}
	return nil
}

// wasListed reports whether the conversation's prompts have had an agent with an id, whether or not it is present.
func wasListed(in *prompt.Input, id string) bool {
	joined := func(u *prompt.Update) bool { return findAgent(u.Joined, id) != nil }
	step := func(s prompt.Step) bool { return joined(&s.Update) }
	return findAgent(in.Listed, id) != nil || joined(&in.Update) || slices.ContainsFunc(in.Steps, step) ||
		slices.ContainsFunc(in.History, func(h prompt.Turn) bool {
			return joined(&h.Update) || slices.ContainsFunc(h.Steps, step)
		})
}

func hasSkill(c *a2a.AgentCard, id string) bool {
	return c != nil && agentcard.HasSkill(c, id)
}

func skillsOf(c *a2a.AgentCard) string {
	if c == nil || len(c.Skills) == 0 {
		return "it lists none, leave skill empty"
	}
	var b strings.Builder
	b.WriteString("it has ")
	for i := range c.Skills {
		if i == 2*maxNearest {
			fmt.Fprintf(&b, ", and %d more", len(c.Skills)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(excerpt(agentcard.SkillID(&c.Skills[i])))
	}
	return b.String()
}

// excerpt quotes an external text, cut to 200 bytes.
func excerpt(s string) string {
	const most = 200
	if len(s) > most {
		return fmt.Sprintf("%q…", shorten.To(s, most))
	}
	return fmt.Sprintf("%q", s)
}
