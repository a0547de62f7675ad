package conversation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// With Config.Authenticated a conversation belongs to whoever began it. These hold:
//
//   - Its owner speaks in it, and those whom they let in; an agent also while it has a task in it. What others say is refused before
//     anything is made of it: it is in no log, and no model sees it.
//   - People of these cancel what is open in it. Everybody cancels what they asked for themselves.
//   - The owner says who is let in, and whoever runs Cortex, who speaks as [transport.Cortex].

// maxIDShown bounds an id in words for people, in characters.
const maxIDShown = 1000

// MaxShared bounds with how many others a conversation is shared.
const MaxShared = 256

// Admits reports whether somebody may speak in the conversation, where senders prove who they are.
func (c *Conversation) Admits(from string) bool {
	return c.Seq == 0 || c.letsIn(from) || IsAgent(from) && c.works(from)
}

// works reports whether an agent has a task that is not done.
func (c *Conversation) works(agent string) bool {
	for _, t := range c.Tasks {
		if t.Agent == agent && t.SentSeq != 0 && !t.Phase.Over() {
			return true
		}
	}
	return false
}

// letsIn reports whether the conversation is somebody's, or shared with them.
func (c *Conversation) letsIn(from string) bool {
	return from == c.Owner || from == transport.Cortex || slices.Contains(c.Shared, from)
}

// Bars returns why e, whose sender has proven who they are, is nothing to be said in the conversation, or "".
func (c *Conversation) Bars(e *transport.Event) string {
	switch p := e.Payload.(type) {
	case *transport.Cancel:
		if IsAgent(e.From) || c.letsIn(e.From) || c.Seq == 0 {
			return "" // agents cancel what is theirs anyway
		}
		id := p.Turn
		if t := c.Tasks[p.TaskID]; t != nil {
			id = t.Turn
		}
		if turn := c.Turn(id); turn != nil && turn.From == e.From {
			return ""
		}
	case *transport.Share:
		if e.From == c.Owner || e.From == transport.Cortex {
			return ""
		}
		return c.belongs() + "."
	default:
		if _, ok := transport.Request(e); !ok || c.Admits(e.From) {
			return ""
		}
	}
	return fmt.Sprintf("%s, who can let you in: cortex conversations share %s %s", c.belongs(), prompt.Clean(c.ContextID, maxIDShown), shareName(e.From))
}

func (c *Conversation) belongs() string {
	return fmt.Sprintf("The conversation %s belongs to %s", prompt.Clean(c.ContextID, maxIDShown), prompt.Clean(c.Owner, maxIDShown))
}

// shareName is what the command line calls somebody who is to be let in.
func shareName(from string) string {
	if IsAgent(from) {
		from = "agent:" + from
	}
	return prompt.Clean(strings.TrimPrefix(from, "user:"), maxIDShown)
}

// share lets others in, or no longer.
func (c *Conversation) share(p *transport.Share) { c.Shared = c.sharedAfter(p) }

// sharedAfter returns whom the conversation is shared with after p.
func (c *Conversation) sharedAfter(p *transport.Share) []string {
	shared := slices.Concat(c.Shared, p.With)
	slices.Sort(shared)
	shared = slices.DeleteFunc(slices.Compact(shared), func(id string) bool { return id == c.Owner || slices.Contains(p.Revoke, id) })
	if len(shared) == 0 {
		return nil
	}
	return shared[:min(len(shared), MaxShared)]
}
