package view

import (
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/lookalike"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// markText bounds a warning about an agent, in characters.
const markText = 80

// Lookalikes holds the ids and names of agents, and reserved names.
type Lookalikes struct{ lookalike.Set }

func NewLookalikes(records []*registry.Record) *Lookalikes {
	l := &Lookalikes{}
	l.Add(transport.Cortex, "user")
	for _, r := range records {
		l.Add(r.ID)
		if name, ok := ownName(r); ok {
			l.Add(name)
		}
	}
	return l
}

// MarkOf returns a warning about an agent that may be mistaken for another one, or "".
func (l *Lookalikes) MarkOf(r *registry.Record) string {
	mark := l.Mark(r.ID)
	if name, ok := ownName(r); ok && mark == "" {
		if mark = l.Mark(name); mark != "" {
			mark = "its name " + mark
		}
	}
	return prompt.Clean(mark, markText)
}

// ownName returns the name on an agent's card, when it is more than a variant of the id.
func ownName(r *registry.Record) (string, bool) {
	return r.Card.Name, r.Card.Name != "" && lookalike.Skeleton(r.Card.Name) != lookalike.Skeleton(r.ID)
}
