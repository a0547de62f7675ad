package catalog

import (
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Preview returns what a prompt would show if the user said text now and these agents, sorted by id, could be given work; and the shortlist, the best
// first, if the prompt has one. index has the agents; with nil the prompt shows all of them.
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
