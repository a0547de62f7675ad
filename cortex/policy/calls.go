package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Calls limits how often a skill is called: how many tasks are given to an agent within any span of time.
type Calls struct {
	Most int
	Per  time.Duration
	// By is for whom it counts: [ByAsker], [ByPerson] or [ByAll].
	By string
	// Skill is whether each skill counts for itself: the rule is about skills.
	Skill bool
}

// The values of By in Calls.
const (
	ByAsker  = "asker"  // the person or agent that asks
	ByPerson = "person" // the person, or else the agent, for whom agents ask as well
	ByAll    = "all"
)

// Repeat says what becomes of a call that repeats an earlier one: of the same skill of the same agent, for the same person, with the same text and input.
type Repeat struct {
	Within time.Duration
	// First has the answer be the result of the first call, if that is done and in the same conversation. Otherwise the call is refused.
	First bool
}

// Bounds of Calls and Repeat.
const (
	maxCalls  = 1000
	minWindow = time.Second
	maxWindow = 7 * 24 * time.Hour
)

// Calls returns the limits for from's calls of a skill of an agent; all apply. Without a skill it ignores rules about skills.
func (p *Policy) Calls(from, agent, skill string) (all []Calls) {
	for _, r := range p.about(agent) {
		if r.calls != nil && r.forSkill(skill) && r.isFrom(from) {
			c := *r.calls
			c.Skill = len(r.skills) > 0
			all = append(all, c)
		}
	}
	return all
}

// Repeat returns what becomes of repeated calls of from; nil if no rule is about them. Of several rules the longest time applies, and a refusal takes
// precedence. Without a skill it ignores rules about skills.
func (p *Policy) Repeat(from, agent, skill string) *Repeat {
	var s *Repeat
	for _, r := range p.about(agent) {
		if r.repeat == nil || !r.forSkill(skill) || !r.isFrom(from) {
			continue
		}
		if s == nil {
			its := *r.repeat
			s = &its
			continue
		}
		s.Within, s.First = max(s.Within, r.repeat.Within), s.First && r.repeat.First
	}
	return s
}

// Counted reports whether any rule is about how often something is called.
func (p *Policy) Counted() bool {
	return p != nil && slices.ContainsFunc(p.rules, func(r *rule) bool { return r.calls != nil || r.repeat != nil })
}

func (r *rule) readCalls(raw json.RawMessage) error {
	o, err := object(raw, "most", "per", "by")
	if err != nil {
		return err
	}
	r.calls = &Calls{By: ByAsker}
	f := fields{of: o}
	f.number("most", &r.calls.Most, 1, maxCalls, "calls")
	f.span("per", &r.calls.Per)
	f.read("by", &r.calls.By, "asker, person or all")
	switch by := r.calls.By; {
	case f.err != nil:
		return f.err
	case r.calls.Most == 0 || r.calls.Per == 0:
		return errors.New("it needs most and per, as in {most: 10, per: 1h}")
	case by != ByAsker && by != ByPerson && by != ByAll:
		return fmt.Errorf("by: it is asker, person or all, and not %.40q", by)
	}
	return nil
}

func (r *rule) readRepeat(raw json.RawMessage) error {
	o, err := object(raw, "within", "gives")
	if err != nil {
		return err
	}
	r.repeat = &Repeat{}
	f, gives := fields{of: o}, "refusal"
	f.span("within", &r.repeat.Within)
	f.read("gives", &gives, "refusal or result")
	switch {
	case f.err != nil:
		return f.err
	case r.repeat.Within == 0:
		return errors.New("it needs within, as in {within: 10m}")
	case gives != "refusal" && gives != "result":
		return fmt.Errorf("gives: it is refusal or result, and not %.40q", gives)
	}
	r.repeat.First = gives == "result"
	return nil
}

func (f *fields) span(key string, v *time.Duration) {
	is := fmt.Sprintf("a span of time from %v to %v, such as 10m", minWindow, maxWindow)
	var text string
	if !f.read(key, &text, is) {
		return
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < minWindow || d > maxWindow {
		f.err = fmt.Errorf("%s: it is %s", key, is)
		return
	}
	*v = d
}
