package repl

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// sayAgain is the pause before something is said again that could not be sent, and sayFor how long that is tried.
const (
	sayAgain = time.Second
	sayFor   = time.Minute
)

// Say says text, with the files that c names, and yields what comes of it, as [client.Client.Ask] does. While Cortex is away, as when it was
// killed just now, it is tried again, under the same id: whoever has taken it takes it for the same message. What was sent is not sent again.
func (c Config) Say(ctx context.Context, contextID, text string) iter.Seq2[*transport.Event, error] {
	return func(yield func(*transport.Event, error) bool) {
		id := c.Client.NextID()
		for until := c.Client.Clock().Add(sayFor); ; {
			err := c.sayOnce(ctx, contextID, id, text, yield)
			// Behind what was sent nobody is away: an answer is waited for.
			away := errors.Is(err, transport.ErrUnavailable) && !errors.Is(err, transport.ErrFull)
			if away && ctx.Err() == nil && c.Client.Clock().Before(until) {
				select {
				case <-time.After(sayAgain):
					continue
				case <-ctx.Done():
					err = ctx.Err()
				}
			}
			if err != nil {
				yield(nil, err)
			}
			return
		}
	}
}

// sayOnce yields all but an error, which it returns.
func (c Config) sayOnce(ctx context.Context, contextID, id, text string, yield func(*transport.Event, error) bool) error {
	m, err := c.Message(ctx, contextID, text)
	if err != nil {
		return err
	}
	m.ID = id
	for e, err := range c.Client.Ask(ctx, m) {
		if err != nil {
			return err
		}
		if !yield(e, nil) {
			return nil
		}
	}
	return nil
}
