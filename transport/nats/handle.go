package nats

import (
	"context"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

// converse handles the events of one conversation, one after the other, until none is queued.
func (p *partition) converse(ctx context.Context, h transport.Handler, conversation string) {
	for {
		p.in.mu.Lock()
		queue := p.queues[conversation]
		if len(queue) == 0 {
			delete(p.queues, conversation)
			p.in.mu.Unlock()
			return
		}
		d := queue[0]
		p.in.mu.Unlock()
		if !p.insist(ctx, h, d) {
			return // the rest stays held and is returned to the server
		}
		p.in.mu.Lock()
		p.queues[conversation] = p.queues[conversation][1:]
		p.in.mu.Unlock()
	}
}

// insist handles d until it succeeds or is a dead letter. It does not return d to the server, which would deliver it after its successors. It
// returns false when ctx ends first.
func (p *partition) insist(ctx context.Context, h transport.Handler, d *delivery) bool {
	for again := 0; ; again++ {
		err := p.handle(ctx, h, d, again)
		if err == nil {
			p.done(d)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		p.in.bus.pause(ctx, retryDelay(d.count+again-1))
	}
}

// attempt handles d once. When that fails, it returns d to the server, and another subscriber may handle it.
func (p *partition) attempt(ctx context.Context, h transport.Handler, d *delivery) {
	err := p.handle(ctx, h, d, 0)
	if err == nil {
		p.done(d)
		return
	}
	if ctx.Err() != nil {
		return // d stays held and is returned to the server
	}
	p.nak(p.drop(d, false), retryDelay(d.count-1))
	p.pull()
}

// handle calls h with the event of d, which was handled again times before. It returns nil when d is finished: handled, or a dead letter.
func (p *partition) handle(ctx context.Context, h transport.Handler, d *delivery, again int) error {
	epoch, err := p.enter(ctx)
	if err != nil {
		return err
	}
	defer func() { <-p.in.slots }()
	p.in.mu.Lock()
	m := d.msg
	p.in.mu.Unlock()
	n := d.count + again
	d.handled = n
	err = p.in.failing.Handle(ctx, h, d.seq, func() (*transport.Event, error) {
		e, err := decodeInbox(m, m.Subject)
		e.Epoch = epoch
		e.Delivery = n
		e.Stored = d.at
		return e, err
	})
	if !transport.IsPermanent(err) {
		return err
	}
	if err := p.bury(ctx, m, d.stored, err, n); err != nil {
		return err
	}
	p.in.failing.GaveUp(d.seq)
	return nil
}

// enter waits for a slot and for the lease of p, and, in an ordered inbox, until work may be done. It returns the epoch of the lease.
func (p *partition) enter(ctx context.Context) (epoch uint64, err error) {
	for {
		select {
		case p.in.slots <- struct{}{}:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		p.in.mu.Lock()
		epoch, lapsed := p.lease.Epoch, p.lapsed()
		p.in.mu.Unlock()
		if !lapsed && (!p.in.ordered || p.in.bus.mayWork() == nil) {
			return epoch, nil
		}
		<-p.in.slots
		p.in.bus.pause(ctx, leaseRetry)
	}
}

// bury makes m a dead letter. deadLimit makes it fit: one that the server refuses would be delivered for ever.
func (p *partition) bury(ctx context.Context, m *natsgo.Msg, s stored, reason error, deliveries int) error {
	return p.in.bus.store(ctx, deadMessage(p.topic, m, s, reason.Error(), deliveries, p.in.bus.deadLimit()))
}

// retryDelay returns the pause after an event has failed, with n earlier failures.
func retryDelay(n int) time.Duration {
	return min(100*time.Millisecond<<min(max(n, 0), 10), 30*time.Second)
}
