package catalog

import (
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Replay returns what the prompt of e's decision showed, as far as the log has it, which does not have the agents that could be given no work at that
// moment, nor how many were not shown. c has begun e and not finished it, see [conversation.Conversation.Begin]. listed is false when the log does not
// have which agents were shown either: there were too many to list, or the decision failed. It returns nil for an entry of no turn.
func Replay(c *conversation.Conversation, e *conversation.Entry) (in *prompt.Input, listed bool) {
	turn := c.Turn(e.Turn)
	if turn == nil {
		return nil, false
	}
	t := c.View(turn, e.Time)
	t.Last, t.MaxParallel = turn.Decisions+1 >= conversation.MaxSteps, conversation.MaxParallel
	if s := e.Summary; s != nil {
		t.History = t.History[min(s.Turns, len(t.History)):]
		t.Omitted += e.Omitted
		if s.Text != "" {
			t.Summary = s.Text
		}
	}
	if r := e.Roster; r != nil && r.All {
		t.Listed, t.Choice = r.Joined, r.Choice
	} else {
		t.Listed, t.Choice = c.Listed, c.Choice
		tellChanges(c, t, turn)
		if r != nil {
			put(&t.Update, t.Steps, conversation.Change{Turn: turn.ID, Step: len(turn.Steps), Update: prompt.Update{Joined: r.Joined, Left: r.Left}})
		}
	}
	t.Agents = agentsOf(t)
	return &t.Input, t.Listed != nil && (e.Decision != nil || len(t.Listed) > 0)
}

// agentsOf returns the agents that t's prompt says can be given work, sorted by id.
func agentsOf(t *llm.Turn) []prompt.Agent {
	var all []prompt.Agent
	for _, a := range shown(&t.Input) {
		all = append(all, *a)
	}
	slices.SortFunc(all, func(a, b prompt.Agent) int { return strings.Compare(a.ID, b.ID) })
	return all
}
