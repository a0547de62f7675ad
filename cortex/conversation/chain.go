package conversation

import (
	"fmt"
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// A turn that an agent asks for while it works on a task descends from the turn of that task, and so from the one turn, the root, that
// nobody asked for in the course of another: together they are a chain. These hold, whatever the agent says of it:
//
//   - A message of an agent that has a task under way in the conversation continues the chain of that task: of the one that it names,
//     else of the one that was handed on most often. What it says of hops and ancestors can only make it stricter.
//   - Nobody is asked in a turn by whom, or on whose way, the request came there.
//   - A chain has at most [MaxChain] turns: what else is asked in the course of it is refused, and in no log. What a turn may spend, and may give to an agent, holds for the chain.
//   - Any other message of an agent begins a chain, and an agent may ask for so much in a minute, with all that comes of it.

// MaxChain is how many turns may descend from one, itself among them.
const MaxChain = 64

// Chain counts what came of a root turn, as long as a turn of it is open.
type Chain struct {
	Agent    string         `json:",omitempty"` // that asked for the root; none when a person did
	Turns    int            // that have begun
	PerAgent map[string]int `json:"Given,omitempty"` // tasks, by the agents that got them
	Usage    llm.Usage
}

// join lets turn, which e has just begun, be part of a chain.
func (c *Conversation) join(turn *Turn, e *transport.Event, m *a2a.Message) {
	turn.Root = turn.ID
	if parent := c.ParentOf(e, m); parent != nil {
		claimed := turn.Ancestors
		turn.Root, turn.Hops, turn.Ancestors = parent.Root, max(turn.Hops, parent.Hops+1), nil
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

// ParentOf returns the turn in whose course an agent sent e, or nil.
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

// Chain returns what came of the root of an open turn.
func (c *Conversation) Chain(turn *Turn) Chain {
	if chain := c.Chains[turn.Root]; chain != nil {
		return *chain
	}
	return Chain{}
}

// counts returns the counts of an open turn's chain, to be added to.
func (c *Conversation) counts(turn *Turn) *Chain {
	if c.Chains == nil {
		c.Chains = map[string]*Chain{}
	}
	if c.Chains[turn.Root] == nil {
		c.Chains[turn.Root] = &Chain{}
	}
	return c.Chains[turn.Root]
}

// give counts a task that an agent got in the course of turn.
func (c *Conversation) give(turn *Turn, agent string) {
	chain := c.counts(turn)
	if chain.PerAgent == nil {
		chain.PerAgent = map[string]int{}
	}
	chain.PerAgent[agent]++
}

// unchain lets go of a chain of which no turn is open: nothing can descend from it any more.
func (c *Conversation) unchain(root string) {
	if !slices.ContainsFunc(c.Turns, func(t *Turn) bool { return t.Open() && t.Root == root }) {
		delete(c.Chains, root)
	}
}

// overrun returns why e, a message of an agent, cannot be part of the chain that it would continue, or "".
func (c *Conversation) overrun(e *transport.Event) string {
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

// Requester returns who began the chain of a turn: what agents ask for in the course of a request is its sender's.
func (c *Conversation) Requester(turn *Turn) string {
	if root := c.Turn(turn.Root); root != nil {
		return root.From
	}
	return turn.From
}
