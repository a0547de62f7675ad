package llm

import (
	"context"
	"fmt"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// wish is what a model asks to be shown before it decides, by the kind of its reply.
type wish struct {
	search string // words, with [KindSearch]
	read   *Read  // with [KindRead]
}

// wishes has what was granted for one decision.
type wishes struct {
	turn  Turn     // with the agents that were found so far
	words []string // of the searches so far
	told  int      // bytes of their results so far
	reads []Read   // so far
}

// accept returns the decision of a reply without thoughts, and the wish if it is none.
func (w *wishes) accept(text string) (*Decision, wish, error) {
	d, asked, err := parseReply(text)
	if err == nil {
		switch d.Kind {
		case KindSearch:
			asked.search, err = w.checkSearch(asked.search)
		case KindRead:
			err = w.checkRead(asked.read)
		default:
			nameWaiting(&w.turn, d.Delegations)
			correctAgents(&w.turn, d.Delegations)
			if err := Check(&w.turn, d); err != nil {
				return nil, wish{}, err
			}
		}
	}
	if err != nil {
		return nil, wish{}, fmt.Errorf("%w: %w", ErrInvalidDecision, err)
	}
	return d, asked, nil
}

// grant returns the message to the model with what it asked to be shown, in about room bytes. A mistake in the wish is an [ErrInvalidDecision].
func (w *wishes) grant(ctx context.Context, tmpl *prompt.Templates, asked wish, room int) (string, error) {
	if asked.read != nil {
		return w.read(ctx, tmpl, asked.read, room)
	}
	return w.find(tmpl, asked.search, room)
}
