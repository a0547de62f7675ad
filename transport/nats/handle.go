package nats

import (
	"context"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

// converse handles the events of one conversation, one after the other, until there is none.
func (g *group) converse(ctx context.Context, h transport.Handler, conversation string) {
	for {
		g.in.mu.Lock()
		queue := g.queues[conversation]
		if len(queue) == 0 {
			delete(g.queues, conversation)
			g.in.mu.Unlock()
			return
		}
		d := queue[0]
		g.in.mu.Unlock()
		if !g.insist(ctx, h, d) {
			return // the rest is held, and given back
		}
		g.in.mu.Lock()
		g.queues[conversation] = g.queues[conversation][1:]
		g.in.mu.Unlock()
	}
}

// insist handles d until it is done with, and stays with it: given back to the server, it would come again behind its
// successors. It reports false when ctx ended before.
func (g *group) insist(ctx context.Context, h transport.Handler, d *delivery) bool {
	for again := 0; ; again++ {
		err := g.handle(ctx, h, d, again)
		if err == nil {
			g.done(d)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		g.in.bus.pause(ctx, retryDelay(d.count+again-1))
	}
}

// attempt handles d once; when that fails, another subscriber may try.
func (g *group) attempt(ctx context.Context, h transport.Handler, d *delivery) {
	err := g.handle(ctx, h, d, 0)
	if err == nil {
		g.done(d)
		return
	}
	if ctx.Err() != nil {
		return // it is held, and given back
	}
	g.nak(g.drop(d, false), retryDelay(d.count-1))
	g.pull()
}

// handle calls h with the event of d, which was handled again times before. It returns nil when d is done with: handled,
// or a dead letter.
func (g *group) handle(ctx context.Context, h transport.Handler, d *delivery, again int) error {
	epoch, err := g.enter(ctx)
	if err != nil {
		return err
	}
	defer func() { <-g.in.slots }()
	g.in.mu.Lock()
	m := d.msg
	g.in.mu.Unlock()
	n := d.count + again
	d.handled = n
	err = g.in.failing.Handle(ctx, h, d.seq, func() (*transport.Event, error) {
		e, err := decodeInbox(m, m.Subject)
		e.Epoch = epoch
		e.Delivery = n
		return e, err
	})
	if !transport.IsPermanent(err) {
		return err
	}
	if err := g.bury(ctx, m, d.stored, err, n); err != nil {
		return err
	}
	g.in.failing.GaveUp(d.seq)
	return nil
}

// enter waits for a slot, and for g to be owned; it returns the epoch of that.
func (g *group) enter(ctx context.Context) (epoch uint64, err error) {
	for {
		select {
		case g.in.slots <- struct{}{}:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		g.in.mu.Lock()
		epoch, lapsed := g.lease.Epoch, g.lapsed()
		g.in.mu.Unlock()
		if !lapsed {
			return epoch, nil
		}
		<-g.in.slots
		g.in.bus.pause(ctx, leaseRetry)
	}
}

// bury makes m a dead letter. One that the server does not take would come again for ever, so it is made to fit.
func (g *group) bury(ctx context.Context, m *natsgo.Msg, s stored, reason error, deliveries int) error {
	return g.in.bus.store(ctx, deadMessage(g.topic, m, s, reason.Error(), deliveries, g.in.bus.deadLimit()))
}

// retryDelay is the pause after an event has failed and had failed n times before.
func retryDelay(n int) time.Duration {
	return min(100*time.Millisecond<<min(max(n, 0), 10), 30*time.Second)
}
