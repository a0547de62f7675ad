package conversation

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// A turn that an agent asks for while it works on a task descends from the turn of that task, and so from the one turn, the root, that
// nobody asked for in the course of another. A root and its descendants form a chain. The rules, whatever the agent claims:
//
//   - A message of an agent that has a running task in the conversation continues the chain of that task: of the task that the message
//     names, or else of the one with the most hops. The hops and ancestors that the message claims can only make the checks stricter.
//   - A turn gives no task to the agent that asked for it, nor to that agent's ancestors.
//   - A chain has at most [MaxChain] turns: further requests are refused and not logged. The limits on what a turn may spend, and how many
//     tasks it may give to an agent, hold for the chain.
//   - Any other message of an agent begins a chain. How much an agent may ask for in a minute is limited, with all that descends from it.

// MaxChain is the maximum number of turns in a chain, the root included.
const MaxChain = 64

// Chain counts what descends from a root turn, while any turn of the chain is open.
type Chain struct {
	Agent    string         `json:",omitempty"` // the agent that asked for the root; empty when a person did
	Turns    int            // that have begun
	PerAgent map[string]int `json:"Given,omitempty"` // tasks, by the agents that got them
	Usage    llm.Usage
	Board    []transport.BoardPost `json:",omitempty"` // the oldest first
	Posted   int                   `json:",omitempty"` // how many posts it has taken
}

// join adds turn, which e has just begun, to its chain.
func (c *Conversation) join(turn *Turn, e *transport.Event, m *a2a.Message) {
	turn.Root = turn.ID
	if parent := c.ParentOf(e, m); parent != nil {
		claimed := turn.Ancestors
		turn.Root, turn.Behalf, turn.Hops, turn.Ancestors = parent.Root, c.Requester(parent), max(turn.Hops, parent.Hops+1), nil
		for _, id := range slices.Concat(parent.Ancestors, ancestor(parent), claimed) {
			if !slices.Contains(turn.Ancestors, id) {
				turn.Ancestors = append(turn.Ancestors, id)
			}
		}
	}
	chain := c.counts(turn)
	chain.Turns++
	if turn.Root == turn.ID && IsAgent(turn.From) {
		chain.Agent = turn.From
	}
}

// ParentOf returns the turn in the course of which an agent sent e, or nil.
func (c *Conversation) ParentOf(e *transport.Event, m *a2a.Message) *Turn {
	if !IsAgent(e.From) {
		return nil
	}
	names := append([]a2a.TaskID{e.TaskID, m.TaskID, a2a.TaskID(transport.MetaString(m, transport.MetaTaskID))}, m.ReferenceTasks...)
	var parent *Turn
	for _, t := range c.Running() {
		turn := c.Turn(t.Turn)
		if t.Agent != e.From || turn == nil {
			continue
		}
		if slices.Contains(names, t.ID) {
			return turn
		}
		if parent == nil || turn.Hops > parent.Hops {
			parent = turn
		}
	}
	return parent
}

// Chain returns the counts of an open turn's chain.
func (c *Conversation) Chain(turn *Turn) Chain {
	if chain := c.Chains[turn.Root]; chain != nil {
		return *chain
	}
	return Chain{}
}

// counts returns the counts of an open turn's chain, for adding to them.
func (c *Conversation) counts(turn *Turn) *Chain {
	if c.Chains == nil {
		c.Chains = map[string]*Chain{}
	}
	if c.Chains[turn.Root] == nil {
		c.Chains[turn.Root] = &Chain{}
	}
	return c.Chains[turn.Root]
}

// countTask counts a task that agent got in the course of turn.
func (c *Conversation) countTask(turn *Turn, agent string) {
	chain := c.counts(turn)
	if chain.PerAgent == nil {
		chain.PerAgent = map[string]int{}
	}
	chain.PerAgent[agent]++
}

// dropChain deletes a chain without open turns: nothing can descend from it any more.
func (c *Conversation) dropChain(root string) {
	if !slices.ContainsFunc(c.Turns, func(t *Turn) bool { return t.Open() && t.Root == root }) {
		delete(c.Chains, root)
	}
}

// whyChainFull returns why the chain that an agent's message e would continue has no room for it, or "".
func (c *Conversation) whyChainFull(e *transport.Event) string {
	m, ok := transport.Request(e)
	if !ok {
		return ""
	}
	parent := c.ParentOf(e, m)
	if parent == nil || c.Chain(parent).Turns < MaxChain {
		return ""
	}
	return fmt.Sprintf("Agents have asked for %d things in the course of one request; more are not allowed.", MaxChain-1)
}

// Requester returns the sender of the root of turn's chain, on whose behalf agents ask. The root itself may have left the window.
func (c *Conversation) Requester(turn *Turn) string { return cmp.Or(turn.Behalf, turn.From) }
