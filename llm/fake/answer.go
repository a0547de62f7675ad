package fake

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

const maxOnline = 10 // agents named in an answer

// online lists the agents that can be asked.
func online(t *llm.Turn) string {
	agents := t.Agents
	if len(agents)+t.More == 0 {
		return "No agent is online. Start one in another terminal, for example: cortex agent echo"
	}
	if n := len(agents) + t.More; t.More > 0 { // the agents shown are close to the request, but not close enough
		return fmt.Sprintf("%d agents are online: `cortex agents --text WORD` finds those that speak of something.", n)
	}
	var b strings.Builder
	b.WriteString("Online are:")
	for i := range agents[:min(len(agents), maxOnline)] {
		a := &agents[i]
		b.WriteString("\n- " + a.ID)
		if a.Card != nil {
			if about := prompt.Clean(a.Card.Description, 100); about != "" {
				b.WriteString(": " + about)
			}
		}
		if !a.Seen {
			b.WriteString(" (not running)")
		}
	}
	if more := len(agents) - maxOnline; more > 0 {
		fmt.Fprintf(&b, "\nand %d more", more)
	}
	return b.String()
}

// listed reports whether an earlier answer that began with the same words has named all who are online.
func listed(t *llm.Turn, begin string) bool {
	list := online(t)
	return slices.ContainsFunc(t.History, func(h prompt.Turn) bool {
		return strings.HasPrefix(h.Answer, begin) && strings.Contains(h.Answer, list)
	})
}
