package repl

import (
	"context"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/transport"
)

// addressee returns the agent that a message names, as in "@agent do this" or "@agent/skill do this". It returns nil when the message names no known
// agent, or several; then the model decides. list returns the agents.
func addressee(ctx context.Context, list func(context.Context) ([]AgentInfo, error), text string) *transport.Direct {
	words := strings.Fields(text)
	if list == nil || len(words) == 0 || !strings.HasPrefix(words[0], "@") {
		return nil
	}
	all, err := list(ctx)
	if err != nil {
		return nil
	}
	var to *transport.Direct
	for i, word := range words {
		name, ok := strings.CutPrefix(strings.TrimRight(word, ",:"), "@")
		if !ok {
			continue
		}
		name, skill, _ := strings.Cut(name, "/")
		at := slices.IndexFunc(all, func(a AgentInfo) bool { return called(a.ID, name) })
		switch {
		case i == 0 && at < 0, i > 0 && at >= 0 && all[at].ID != to.Agent:
			return nil
		case i == 0:
			to = &transport.Direct{Agent: all[at].ID, Skill: skill}
		}
	}
	return to
}

// called reports whether name is the agent id, ignoring case and the prefix "agent_".
func called(id, name string) bool {
	return strings.EqualFold(id, name) || strings.EqualFold(id, "agent_"+name)
}
