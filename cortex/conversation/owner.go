package conversation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// With Config.Authenticated a conversation belongs to the sender of its first message. The rules:
//
//   - Its owner and those with whom it is shared may speak in it, and an agent while it works on a task in it. A message of anybody else is
//     refused before it is processed: it is not logged, and no model sees it.
//   - A message that is for a conversation of the sender's own ([transport.MetaOwn]) is refused in another's: who guesses the id of one that is to
//     begin could begin it before, and share it.
//   - The people among them may cancel what is open in it. Everybody may cancel their own requests.
//   - The owner and the operator of Cortex, who speaks as [transport.Cortex], decide with whom it is shared.

// maxIDShown bounds an id in text for people, in characters.
const maxIDShown = 1000

// MaxShared is the maximum number of others with whom a conversation is shared.
const MaxShared = 256

// Admits reports whether an authenticated sender may speak in the conversation.
func (c *Conversation) Admits(from string) bool {
	return c.Seq == 0 || c.ownsOrShares(from) || IsAgent(from) && c.works(from)
}

// works reports whether an agent works on a task. One that waits for the reply to its question does not: what it asked for then would be no part of a chain.
func (c *Conversation) works(agent string) bool {
	return slices.ContainsFunc(c.Running(), func(t *Task) bool { return t.Agent == agent })
}

// ownsOrShares reports whether a sender is the owner or the operator, or the conversation is shared with them.
func (c *Conversation) ownsOrShares(from string) bool {
	return from == c.Owner || from == transport.Cortex || slices.Contains(c.Shared, from)
}

// WhyRefused returns why the authenticated sender of e may not say it in the conversation, or "".
func (c *Conversation) WhyRefused(e *transport.Event) string {
	switch p := e.Payload.(type) {
	case *transport.Cancel:
		if IsAgent(e.From) || c.ownsOrShares(e.From) || c.Seq == 0 {
			return "" // an agent can cancel only its own turns anyway (MayCancel)
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
		return c.ownerText() + "."
	default:
		m, ok := transport.Request(e)
		switch {
		case !ok:
			return ""
		case c.Seq != 0 && e.From != c.Owner && m.Metadata[transport.MetaOwn] == true:
			return c.ownerText() + ", and this was meant for one of your own: choose another name."
		case c.Admits(e.From):
			return ""
		}
	}
	return c.ownerText() + ", who can let you in: " + shareCommand(c.ContextID, e.From)
}

func (c *Conversation) ownerText() string {
	return fmt.Sprintf("The conversation %s belongs to %s", prompt.Clean(c.ContextID, maxIDShown), prompt.Clean(c.Owner, maxIDShown))
}

// shareCommand returns the command by which the owner lets a sender in. People copy it, and strangers chose both ids.
func shareCommand(contextID, from string) string {
	name := transport.PersonName(from)
	if IsAgent(from) {
		name = "agent:" + from
	}
	words := []string{prompt.ShellWord(contextID), prompt.ShellWord(name)}
	command := "cortex conversations share "
	if strings.HasPrefix(words[0], "-") || strings.HasPrefix(words[1], "-") {
		command += "-- "
	}
	return command + strings.Join(words, " ")
}

// sharedAfter returns the senders with whom the conversation is shared after p, sorted.
func (c *Conversation) sharedAfter(p *transport.Share) []string {
	shared := slices.Concat(c.Shared, p.With)
	slices.Sort(shared)
	shared = slices.DeleteFunc(slices.Compact(shared), func(id string) bool { return id == c.Owner || slices.Contains(p.Revoke, id) })
	if len(shared) == 0 {
		return nil
	}
	return shared
}
