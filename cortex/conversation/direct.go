package conversation

import (
	"strings"
	"unicode"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Direct is the agent that a direct request names, and what it is to do.
type Direct struct {
	transport.Direct
	Text string // the message's text without a leading @agent; the text of all its parts when there is none, and "" when they are only the name
}

// directOf returns what m says about its agent, or nil if m names none. all is the text of all of m's parts.
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
	switch rest = strings.TrimSpace(rest); {
	case !named:
	case rest != "":
		d.Text = rest
	case strings.TrimSpace(all) == first: // nothing goes along
		d.Text = ""
		return d
	}
	if strings.TrimSpace(d.Text) == "" {
		d.Text = all
	}
	return d
}
