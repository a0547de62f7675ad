package nats

import (
	"context"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

// converse handles the events of one conversation, one after the other, until there is none.
func (in *inbox) converse(ctx context.Context, h transport.Handler, conversation string) {
	for {
		in.mu.Lock()
		queue := in.queues[conversation]
		if len(queue) == 0 {
			delete(in.queues, conversation)
			in.mu.Unlock()
			return
		}
		d := queue[0]
		in.mu.Unlock()
		if !in.insist(ctx, h, d) {
			return // the rest is held, and given back
		}
		in.mu.Lock()
		in.queues[conversation] = in.queues[conversation][1:]
		in.mu.Unlock()
	}
}

// insist handles d until it is done with, and stays with it: given back to the server, it would come again behind its
// successors. It reports false when ctx ended before.
func (in *inbox) insist(ctx context.Context, h transport.Handler, d *delivery) bool {
	for again := 0; ; again++ {
		err := in.handle(ctx, h, d, again)
		if err == nil {
			in.done(d)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		in.bus.log.Debug("event not handled", "inbox", in.topic.ID, "delivery", d.count+again, "err", err)
		in.bus.pause(ctx, retryDelay(d.count+again-1))
	}
}

// attempt handles d once; when that fails, another subscriber may try.
func (in *inbox) attempt(ctx context.Context, h transport.Handler, d *delivery) {
	err := in.handle(ctx, h, d, 0)
	if err == nil {
		in.done(d)
		return
	}
	if ctx.Err() != nil {
		return // it is held, and given back
	}
	in.bus.log.Debug("event not handled", "inbox", in.topic.ID, "delivery", d.count, "err", err)
	in.nak(in.drop(d, false), retryDelay(d.count-1))
	in.pull()
}

// handle calls h with the event of d, which was handled again times before. It returns nil when d is done with: handled,
// or a dead letter.
func (in *inbox) handle(ctx context.Context, h transport.Handler, d *delivery, again int) error {
	select {
	case in.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-in.slots }()
	in.mu.Lock()
	m := d.msg
	in.mu.Unlock()
	n := d.count + again
	e, err := decodeInbox(m, m.Subject)
	if err != nil {
		in.bus.log.Warn("event cannot be read", "subject", oneLine(m.Subject, 200), "err", err)
		return in.bury(ctx, m, d.stored, err, n)
	}
	e.Delivery, d.handled = n, n
	if err = h(ctx, e); !transport.IsPermanent(err) {
		return err
	}
	in.bus.log.Warn("event given up", "inbox", in.topic.ID, "context_id", e.ContextID, "task_id", e.TaskID, "id", e.ID, "delivery", n, "err", err)
	return in.bury(ctx, m, d.stored, err, n)
}

// bury makes m a dead letter. One that the server does not take would come again for ever, so it is made to fit.
func (in *inbox) bury(ctx context.Context, m *natsgo.Msg, s stored, reason error, deliveries int) error {
	limit := min(transport.MaxPayload, int(in.bus.nc.MaxPayload())-deadHeaders)
	return in.bus.store(ctx, deadMessage(in.topic, m, s, reason.Error(), deliveries, limit))
}

// retryDelay is the pause after an event has failed and had failed n times before.
func retryDelay(n int) time.Duration {
	return min(100*time.Millisecond<<min(max(n, 0), 10), 30*time.Second)
}
