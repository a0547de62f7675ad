package conversation

import (
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Roster is what an entry's decision was the first to see of the agents. The prompts of a conversation begin with the list of agents that
// its first decision saw, and mention each change where it was first seen, so that the prompt caches of providers hit. The log holds both,
// so they are the same after a restart. A Roster keeps, and compares, only what a prompt can show of an agent (see [prompt.Trim]).
//
// With more agents than a prompt shows (catalog.MaxAgents), or more than 128 KiB of cards, the list and its changes are a choice, of which
// excerpts are kept. When no router can choose and there are more than 64 agents, nothing is recorded: the decision is shown the agents
// that are present.
type Roster struct {
	// All means that the list begins anew with Joined: at the first decision, when turns were summarised or left out and the beginning of
	// the prompts changes anyhow, and when there were too many changes.
	All bool `json:"all,omitempty"`
	// Choice, set only with All, means that from now on the list is a choice out of more agents, and that the model may search.
	Choice bool           `json:"choice,omitempty"`
	Size   int            `json:"size,omitempty"`   // bytes in a prompt, when there is a choice
	Joined []prompt.Agent `json:"joined,omitempty"` // new or changed agents
	Left   []string       `json:"left,omitempty"`   // ids of agents that are gone
}

// Change is an update of the agents, and the decision that was the first to see it.
type Change struct {
	Turn string // its id
	Step int    // the number of steps that the turn had: 0 for its first decision
	prompt.Update
}

// Size is the number of agents that changed.
func (u Change) Size() int { return len(u.Joined) + len(u.Left) }

// ShareList replaces Listed by an equal list that all conversations share.
func (c *Conversation) ShareList(agents []prompt.Agent) { c.Listed, c.rosterWeight = agents, 0 }

// applyRoster records what the entry's decision saw of the agents.
func (c *Conversation) applyRoster(e *Entry) {
	r, turn := e.Roster, c.Turn(e.Turn)
	switch {
	case r == nil || turn == nil:
		return
	case r.All:
		c.Listed, c.Changes, c.Relist, c.Choice, c.ListedSize = r.Joined, nil, false, r.Choice, r.Size
		if c.Listed == nil {
			c.Listed = []prompt.Agent{} // no agent was present
		}
	default:
		c.Changes = append(c.Changes, Change{Turn: e.Turn, Step: len(turn.Steps), Update: prompt.Update{Joined: r.Joined, Left: r.Left}})
		c.ListedSize += r.Size
	}
	c.weighRoster()
}

// weighRoster sums up the memory of the list and its changes.
func (c *Conversation) weighRoster() {
	c.rosterWeight = 0
	weigh := func(agents []prompt.Agent) {
		for i := range agents {
			c.rosterWeight += 512 + AgentWeight(&agents[i])
		}
	}
	weigh(c.Listed)
	for i := range c.Changes {
		weigh(c.Changes[i].Joined)
	}
}

// AgentWeight estimates the memory that a takes, in bytes.
func AgentWeight(a *prompt.Agent) int {
	if a.Card == nil {
		return len(a.ID)
	}
	n := len(a.ID) + len(a.Card.Name) + len(a.Card.Description)
	for _, schema := range a.Inputs {
		n += len(schema)
	}
	for i := range a.Card.Skills {
		s := &a.Card.Skills[i]
		n += 64 + len(s.ID) + len(s.Name) + len(s.Description)
		for _, text := range s.Tags {
			n += len(text)
		}
		for _, text := range s.Examples {
			n += len(text)
		}
	}
	return n
}
