package catalog

import (
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Preview returns what a prompt would show if the user said text now and these agents, which are in the order of their ids, could
// be given work; and, where they are too many to show all, those that would be chosen, the best first. index knows the agents;
// nil shows them all.
func Preview(c *conversation.Conversation, text string, agents []prompt.Agent, index *router.Index, now time.Time) (*prompt.Input, []conversation.Shortlisted) {
	turn := &conversation.Turn{User: text}
	t := c.View(turn, now)
	t.MaxParallel, t.Agents = conversation.MaxParallel, agents
	var from *Candidates
	known := new(Catalog)
	if index != nil {
		from = known.Candidates(index, agents, nil, 0)
	}
	_, chosen := Offer(c, t, turn, from, known.Trim(agents), false)
	return &t.Input, chosen
}
