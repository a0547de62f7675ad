package repl

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// sayAgain is the pause between attempts to send a message, and sayFor bounds their total time.
const (
	sayAgain = time.Second
	sayFor   = time.Minute
)

// Say sends text with c.Files, and yields the events of the turn, as [client.Client.Ask] does. While Cortex is unavailable, such as after a crash,
// Say sends the message again under the same id, by which Cortex recognises it as the same message. Say does not send again after it has succeeded.
func (c Config) Say(ctx context.Context, contextID, text string) iter.Seq2[*transport.Event, error] {
	return func(yield func(*transport.Event, error) bool) {
		id := c.Client.NextID()
		for until := c.Client.Clock().Add(sayFor); ; {
			err := c.sayOnce(ctx, contextID, id, text, yield)
			// After sending, unavailability is no error: Say waits for the answer.
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

// sayOnce sends once. It yields the events, and returns an error instead of yielding it.
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
