package decide

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// maxSearch bounds the words of a search in the log, in characters.
const maxSearch = 200

// asLogged returns d as it will be read from the log, so that the fold is the same before and after a restart. With an
// error it returns only what d cost.
func asLogged(d *llm.Decision) (*llm.Decision, error) {
	plain := *d
	plain.Usage = conversation.Credible(d.Usage)
	cost := &llm.Decision{Usage: plain.Usage}
	logged := sameWhenLogged(&plain)
	if logged == nil {
		b, err := json.Marshal(&plain)
		if err != nil {
			return cost, fmt.Errorf("%w: %w", llm.ErrInvalidDecision, err)
		}
		logged = new(llm.Decision)
		if err := json.Unmarshal(b, logged); err != nil {
			return cost, fmt.Errorf("%w: %w", llm.ErrInvalidDecision, err)
		}
	}
	logged.Searches = logged.Searches[:min(prompt.MaxSearches, len(logged.Searches))]
	for i := range logged.Searches {
		logged.Searches[i] = prompt.Clean(logged.Searches[i], maxSearch)
	}
	for _, del := range logged.Delegations {
		var input any
		if err := json.Unmarshal(del.Input, &input); len(del.Input) > 0 && err != nil { // the agent could not read it either
			return cost, fmt.Errorf("%w: input for %s: %w", llm.ErrInvalidDecision, del.Agent, err)
		}
	}
	return logged, nil
}

// sameWhenLogged returns a copy of d as JSON would give it back, or nil when only JSON itself knows: most decisions are words and
// names, which come back as they are.
func sameWhenLogged(d *llm.Decision) *llm.Decision {
	ok := valid(string(d.Kind), d.Say, d.Reason, d.Model) && valid(d.Searches...)
	for i := range d.Delegations {
		w := &d.Delegations[i]
		ok = ok && len(w.Input) == 0 && valid(w.ID, w.Agent, w.Skill, w.Task) && valid(w.DependsOn...)
	}
	if !ok {
		return nil
	}
	same := *d
	same.Searches, same.Delegations = filled(d.Searches), filled(d.Delegations)
	for i := range same.Delegations {
		w := &same.Delegations[i]
		w.Input, w.DependsOn = nil, filled(w.DependsOn)
	}
	return &same
}

// valid reports whether all of these are UTF-8.
func valid(all ...string) bool {
	return !slices.ContainsFunc(all, func(s string) bool { return !utf8.ValidString(s) })
}

// filled returns a copy of s, or nil when it is empty.
func filled[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return slices.Clone(s)
}
