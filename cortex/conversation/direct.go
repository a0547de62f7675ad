package conversation

import (
	"strings"
	"unicode"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Direct is whom a message is for, by its own words, and what they are to do.
type Direct struct {
	transport.Direct
	Text string // the message's words, without the agent's name before them; those of its parts when it has none
}

// directOf returns whom m is for, all of whose parts say all; nil when it does not say.
func directOf(m *a2a.Message, all string) *Direct {
	to, ok := transport.DirectOf(m)
	if !ok {
		return nil
	}
	d := &Direct{Direct: to, Text: transport.Text(m.Parts)}
	first, rest := strings.TrimSpace(d.Text), ""
	if i := strings.IndexFunc(first, unicode.IsSpace); i >= 0 {
		first, rest = first[:i], first[i:]
	}
	name, _, _ := strings.Cut(strings.TrimRight(first, ",:"), "/")
	named := strings.EqualFold(name, "@"+d.Agent) || strings.EqualFold(name, "@"+strings.TrimPrefix(d.Agent, "agent_"))
	if rest = strings.TrimSpace(rest); named && rest != "" {
		d.Text = rest
	}
	if strings.TrimSpace(d.Text) == "" {
		d.Text = all
	}
	return d
}
