package llm

import (
	"fmt"
	"strings"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// maxRepairs bounds how often a model is told what was wrong with its reply.
const maxRepairs = 2

// Limits of a model's own reply in a correction, in bytes. leastReply may be more than the window has room for.
const (
	mostReply  = 16 << 10
	leastReply = 256
)

// replyFor returns a model's reply for a correction, cut to limit bytes. Endpoints refuse empty messages.
func replyFor(text string, limit int) string {
	if text = prompt.CleanText(text, min(max(limit, leastReply), mostReply)); strings.TrimSpace(text) == "" {
		return "{}"
	}
	return text
}

// correction returns the message that tells the model what was wrong, and which agents and files exist.
func correction(t *Turn, err error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Your reply cannot be used: %s.\n", strings.TrimPrefix(err.Error(), ErrInvalidDecision.Error()+": "))
	if !t.Last {
		nameAgents(&b, t)
	}
	b.WriteString("Reply again, with one JSON object of the form described and nothing else.")
	return b.String()
}

func nameAgents(b *strings.Builder, t *Turn) {
	const most = 20
	all := t.Agents
	for i := range all[:min(len(all), most)] {
		if i == 0 {
			b.WriteString("Agents: ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(excerpt(all[i].ID))
	}
	switch n := len(all); {
	case n > most:
		fmt.Fprintf(b, " and %d more, as listed.\n", n-most)
	case n > 0:
		b.WriteString(".\n")
	}
}
