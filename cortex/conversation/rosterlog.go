package conversation

import (
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Roster is what an entry's decision was shown of the agents for the first time. The prompts of a conversation begin with
// the list of agents that its first decision saw, and tell of changes where they were seen, so that providers' prompt
// caches hit; being in the log, both are the same after a restart. Only what a prompt can show of an agent is kept, and
// counts as a change (see [prompt.Trim]).
//
// With more agents than prompts show all of (catalog.MaxAgents), or more than 128 KiB of their cards, the list and its changes are a choice, of which excerpts
// are kept. Where nothing can choose, and with more than 64 agents, nothing is recorded: such a decision is shown the agents that
// are there.
type Roster struct {
	// All says that the list begins anew with Joined: at the first decision, when the beginning of the prompts changes
	// anyhow since turns were summarised or left out, and when there were too many changes.
	All bool `json:"all,omitempty"`
	// Choice says, with All, that from now on the list is a choice out of more agents, and that the model may search.
	Choice bool           `json:"choice,omitempty"`
	Size   int            `json:"size,omitempty"`   // bytes of it in a prompt, where there is a choice
	Joined []prompt.Agent `json:"joined,omitempty"` // came, or are not what they were
	Left   []string       `json:"left,omitempty"`   // ids
}

// Change is an update of the agents, and the decision that was the first to be shown it.
type Change struct {
	Turn string // its id
	Step int    // how many steps the turn had: 0 is its first decision
	prompt.Update
}

// Size is the number of agents that changed.
func (u Change) Size() int { return len(u.Joined) + len(u.Left) }

// ShareList takes for the list one that says the same, which all conversations share.
func (c *Conversation) ShareList(agents []prompt.Agent) { c.Listed, c.listed = agents, 0 }

// applyRoster keeps what the entry's decision was shown.
func (c *Conversation) applyRoster(e *Entry) {
	r, turn := e.Roster, c.Turn(e.Turn)
	switch {
	case r == nil || turn == nil:
		return
	case r.All:
		c.Listed, c.Changes, c.Relist, c.Choice, c.ListedSize = r.Joined, nil, false, r.Choice, r.Size
		if c.Listed == nil {
			c.Listed = []prompt.Agent{} // nobody was there
		}
	default:
		c.Changes = append(c.Changes, Change{Turn: e.Turn, Step: len(turn.Steps), Update: prompt.Update{Joined: r.Joined, Left: r.Left}})
		c.ListedSize += r.Size
	}
	c.weighRoster()
}

// weighRoster notes what the list and its changes weigh.
func (c *Conversation) weighRoster() {
	c.listed = 0
	weigh := func(agents []prompt.Agent) {
		for i := range agents {
			c.listed += 512 + AgentWeight(&agents[i])
		}
	}
	weigh(c.Listed)
	for i := range c.Changes {
		weigh(c.Changes[i].Joined)
	}
}

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
