package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// where holds the flags that select the conversation of a message.
type where struct {
	id   string // an id, or the beginning of one that Cortex made; "" begins a conversation
	last bool   // the conversation in which this person spoke last
}

func (w *where) add(e *env, c *cobra.Command) {
	c.Flags().StringVar(&w.id, "conversation", "", "`ID`: conversation to continue; a new id starts one")
	c.Flags().BoolVarP(&w.last, "continue", "c", false, "continue your last conversation")
	e.completeFlag(c, "conversation", conversationIDs)
}

func (w *where) check() error {
	if w.id != "" && w.last {
		return usagef("--conversation and --continue both name a conversation: give one of them")
	}
	if err := transport.CheckID(w.id); w.id != "" && err != nil {
		return usagef("--conversation: %w", err)
	}
	return nil
}

// find returns the id of the conversation, "" for a new one. It completes only the beginning of an id that Cortex made: a name that a person chose is
// taken literally, also when no such conversation exists.
func (w *where) find(ctx context.Context, l *link) (string, error) {
	switch {
	case w.last:
		return l.lastConversation(ctx)
	case isGenerated(w.id):
		return l.conversation(ctx, w.id)
	}
	return w.id, nil
}

// isGenerated reports whether id can be the beginning of an id that Cortex made.
func isGenerated(id string) bool {
	return len(id) >= 4 && strings.ContainsAny(id, "0123456789") && strings.Trim(id, "0123456789abcdef-") == ""
}

// errNoConversation is returned for --continue when the user has no conversation.
var errNoConversation = errors.New("there is no conversation of yours to go on with yet: leave --continue out, and one begins")

func noConversation(id string) error {
	return fmt.Errorf("there is no conversation %s: `cortex conversations` lists them", prompt.Clean(id, transport.MaxID))
}

// lastConversation returns the id of this person's conversation that changed last.
func (l *link) lastConversation(ctx context.Context) (string, error) {
	me := l.client().User
	for info, err := range l.store.Contexts(ctx, l.tenant) {
		if err != nil {
			return "", err
		}
		known, err := view.DetailsOf(ctx, l.reader(), []storage.ContextInfo{info})
		if err != nil {
			return "", err
		}
		if known[info.ContextID].Owner == me {
			return info.ContextID, nil
		}
	}
	return "", errNoConversation
}
