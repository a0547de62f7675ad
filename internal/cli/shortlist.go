package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// writeShortlist writes one line per candidate, with its id, score, skill and the reason for its place.
func writeShortlist(out *strings.Builder, indent string, list []conversation.Shortlisted) {
	t := table.New("", "", "", "")
	for _, c := range list {
		t.Row(prompt.Clean(c.ID, 60), fmt.Sprintf("%.2f", c.Score), prompt.Clean(c.Skill, 40), prompt.Clean(c.Reason, view.MaxSaid))
	}
	for line := range strings.Lines(t.Render(0, nil)) {
		out.WriteString(indent + line)
	}
}

// whyChosen writes which agents of many a decision was offered, unless they are the same as before, and what the model searched for.
func whyChosen(out *strings.Builder, e *conversation.Entry, before []conversation.Shortlisted) {
	if e.Decision != nil && len(e.Decision.Searches) > 0 {
		var words []string
		for _, s := range e.Decision.Searches {
			words = append(words, fmt.Sprintf("%q", prompt.Clean(s, 200)))
		}
		fmt.Fprintf(out, "   looked for: %s\n", strings.Join(words, ", "))
	}
	if e.Decision != nil {
		for _, r := range e.Decision.Reads {
			part := fmt.Sprintf("from line %d", max(r.From, 1))
			switch {
			case r.Find != "":
				part = fmt.Sprintf("lines with %q", prompt.Clean(r.Find, 200))
			case r.From < 0:
				part = fmt.Sprintf("the last %d lines", -max(r.From, -1<<40))
			}
			fmt.Fprintf(out, "   read: %s, %s\n", prompt.Clean(r.Key, 200), part)
		}
	}
	switch {
	case len(e.Shortlist) == 0:
	case slices.Equal(e.Shortlist, before):
		fmt.Fprintf(out, "   out of the same %d agents\n", len(e.Shortlist))
	default:
		fmt.Fprintf(out, "   out of these agents:\n")
		writeShortlist(out, "     ", e.Shortlist)
	}
}

// searchIndex returns the index of the node in this process, or builds one of agents.
func (b *backend) searchIndex(agents []prompt.Agent) *router.Index {
	if b.index != nil {
		return b.index
	}
	x := router.New(nil)
	for _, a := range agents {
		x.Put(a.ID, a.Card)
	}
	return x
}
