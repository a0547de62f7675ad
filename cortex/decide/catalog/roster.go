package catalog

import (
	"bytes"
	"maps"
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Bounds of the list of agents at the beginning of a conversation's prompts.
const (
	// MaxListed is the maximum length of a full list.
	MaxListed      = 64
	maxListedBytes = 128 << 10 // of the text of their cards in prompts
	maxChanged     = 64        // agents in changes to the list; with more, the list starts over
)

// listAgents adds a full list of agents to t, which shows the whole history of turn: the list that earlier prompts had, and the changes since then.
// It returns what is new; nil when nothing is. agents is a result of [Catalog.Trim]; with nil, t lists the present agents. With anew the list starts
// over.
//
// A change that only the prompt of another open turn has shown is new to t, too.
func listAgents(c *conversation.Conversation, t *llm.Turn, turn *conversation.Turn, agents []prompt.Agent, anew bool) *conversation.Roster {
	if agents == nil {
		return nil
	}
	if anew {
		t.Listed = agents
		return &conversation.Roster{All: true, Joined: agents}
	}
	if len(c.Changes) == 0 && Same(c.Listed, agents) {
		c.ShareList(agents)
		t.Listed = agents
		return nil
	}
	t.Listed = c.Listed
	tellChanges(c, t, turn)
	now := conversation.Change{Turn: turn.ID, Step: len(turn.Steps), Update: difference(shown(&t.Input), agents)}
	changed := now.Size()
	if changed == 0 {
		return nil
	}
	for i := range c.Changes {
		changed += c.Changes[i].Size()
	}
	if changed > maxChanged {
		untell(t)
		t.Listed = agents
		return &conversation.Roster{All: true, Joined: agents}
	}
	put(&t.Update, t.Steps, now)
	return &conversation.Roster{Joined: now.Joined, Left: now.Left}
}

// tellChanges adds the changes to t where earlier prompts had them.
func tellChanges(c *conversation.Conversation, t *llm.Turn, turn *conversation.Turn) {
	past := c.History()
	if len(c.Changes) > 0 {
		t.History = slices.Clone(t.History) // the original is the conversation's
	}
	for _, change := range c.Changes {
		if change.Turn == turn.ID {
			put(&t.Update, t.Steps, change)
			continue
		}
		// A turn that is not found is open, and not in t's prompt.
		if i := slices.IndexFunc(past, func(p *conversation.Turn) bool { return p.ID == change.Turn }); i >= 0 {
			h := &t.History[i]
			if change.Step > 0 {
				h.Steps = slices.Clone(h.Steps) // the original is the fold's
			}
			put(&h.Update, h.Steps, change)
		}
	}
}

// put sets the update of a turn's message (step 0), or of a step's results.
func put(message *prompt.Update, steps []prompt.Step, change conversation.Change) {
	switch {
	case change.Step == 0:
		*message = change.Update
	case change.Step <= len(steps):
		steps[change.Step-1].Update = change.Update
	}
}

// untell removes all updates from t.
func untell(t *llm.Turn) {
	none := func(message *prompt.Update, steps []prompt.Step) []prompt.Step {
		*message, steps = prompt.Update{}, slices.Clone(steps)
		for i := range steps {
			steps[i].Update = prompt.Update{}
		}
		return steps
	}
	t.History = slices.Clone(t.History) // the original is the conversation's
	for i := range t.History {
		t.History[i].Steps = none(&t.History[i].Update, t.History[i].Steps)
	}
	t.Steps = none(&t.Update, t.Steps)
}

// shown returns the agents that can be given work, according to the prompt of in.
func shown(in *prompt.Input) map[string]*prompt.Agent {
	known := make(map[string]*prompt.Agent, len(in.Listed))
	for i := range in.Listed {
		known[in.Listed[i].ID] = &in.Listed[i]
	}
	read := func(u *prompt.Update) {
		for i := range u.Joined {
			known[u.Joined[i].ID] = &u.Joined[i]
		}
		for _, id := range u.Left {
			delete(known, id)
		}
	}
	turn := func(message *prompt.Update, steps []prompt.Step) {
		read(message)
		for i := range steps {
			read(&steps[i].Update)
		}
	}
	for i := range in.History {
		turn(&in.History[i].Update, in.History[i].Steps)
	}
	turn(&in.Update, in.Steps)
	return known
}

// difference returns how agents differ from known, from which it removes them.
func difference(known map[string]*prompt.Agent, agents []prompt.Agent) prompt.Update {
	var u prompt.Update
	for i := range agents {
		a := &agents[i]
		if k := known[a.ID]; k == nil || !sameAgent(k, a) {
			u.Joined = append(u.Joined, *a)
		}
		delete(known, a.ID)
	}
	u.Left = slices.Sorted(maps.Keys(known))
	return u
}

// Same reports whether a and b look the same in prompts. It is free when a and b are one slice, and cheap when they have the same cards.
func Same(a, b []prompt.Agent) bool {
	if len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] {
		return true
	}
	return slices.EqualFunc(a, b, func(a, b prompt.Agent) bool { return sameAgent(&a, &b) })
}

func sameAgent(a, b *prompt.Agent) bool {
	if a.ID != b.ID || a.Seen != b.Seen || a.Of != b.Of || a.More != b.More || !maps.Equal(a.Inputs, b.Inputs) {
		return false
	}
	if a.Card == b.Card || a.Card == nil || b.Card == nil {
		return a.Card == b.Card
	}
	return a.Card.Name == b.Card.Name && a.Card.Description == b.Card.Description && slices.EqualFunc(a.Card.Skills, b.Card.Skills, sameSkill) &&
		sameInputs(a.Card, b.Card)
}

// sameInputs reports whether the skills of two otherwise equal cards take the same structured input.
func sameInputs(a, b *a2a.AgentCard) bool {
	if len(a.Capabilities.Extensions)+len(b.Capabilities.Extensions) == 0 {
		return true
	}
	as, bs := agentcard.SpecOf(a).Abilities, agentcard.SpecOf(b).Abilities
	return maps.EqualFunc(as, bs, func(a, b agentcard.Ability) bool { return bytes.Equal(a.InputSchema, b.InputSchema) })
}

func sameSkill(a, b a2a.AgentSkill) bool {
	return a.ID == b.ID && a.Name == b.Name && a.Description == b.Description && slices.Equal(a.Tags, b.Tags) && slices.Equal(a.Examples, b.Examples)
}
