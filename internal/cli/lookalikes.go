package cli

import (
	"cmp"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/lookalike"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// lookalikes holds the ids and names of agents, and reserved names.
type lookalikes struct{ lookalike.Set }

func newLookalikes(records []*registry.Record) *lookalikes {
	l := &lookalikes{}
	l.Add(transport.Cortex, "user")
	for _, r := range records {
		l.Add(r.ID)
		if name, ok := ownName(r); ok {
			l.Add(name)
		}
	}
	return l
}

// mark returns a warning about an agent that may be mistaken for another one, or "".
func (l *lookalikes) mark(r *registry.Record) string {
	mark := l.Mark(r.ID)
	if name, ok := ownName(r); ok && mark == "" {
		if mark = l.Mark(name); mark != "" {
			mark = "its name " + mark
		}
	}
	return prompt.Clean(mark, pageWord)
}

// ownName returns the name on an agent's card, when it is more than a variant of the id.
func ownName(r *registry.Record) (string, bool) {
	return r.Card.Name, r.Card.Name != "" && lookalike.Skeleton(r.Card.Name) != lookalike.Skeleton(r.ID)
}

// marked puts an agent's warning before a text.
func marked(mark, text string) string {
	if mark == "" || text == "" {
		return cmp.Or(mark, text)
	}
	return mark + " · " + text
}
