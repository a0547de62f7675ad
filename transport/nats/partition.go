package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

// partition is what one consumer delivers to a subscriber: a partition of an inbox, when it owns that, or the whole. Everything that
// the server has delivered and that is not acknowledged is held: in a queue of its conversation (ordered), being handled, or
// waiting to be handled again.
type partition struct {
	partitionID
	in          *inbox
	pullSubject string
	ctx         context.Context //nolint:containedctx // of the handlers, for as long as it is served
	workers     *workers        // handle what is held

	ownership // of a partition

	// Guarded by the inbox's mu.
	current *feed                  // nil while there is none
	held    map[uint64]*delivery   // by sequence in the stream
	queues  map[string][]*delivery // ordered: by conversation; the first is being handled
	handled []stored               // acknowledged last, by sequence modulo length
	last    string                 // where the last acknowledgement went
	carried map[uint64]int         // by sequence: deliveries that the server has forgotten
}

// stored names a message in the stream. The time tells it from one with the same number in a stream that was made anew.
type stored struct {
	seq uint64
	at  time.Time
}

// delivery is an event that this subscriber holds.
type delivery struct {
	stored
	from  string // the token of who sent it
	bytes int    // of its body
	count int    // deliveries to any subscriber, with this one

	handled int // Event.Delivery when it was last handled; 0: it was not. Only its handling goroutine writes it.

	// Guarded by the inbox's mu.
	msg     *natsgo.Msg // as delivered last
	touched time.Time   // when the server last heard of it
}

func newPartition(in *inbox, s partitionID) *partition {
	p := &partition{partitionID: s, in: in, pullSubject: jsAPI + "CONSUMER.MSG.NEXT." + inboxStream + "." + s.consumer(), handled: make([]stored, 256)}
	if in.ordered {
		p.handled = make([]stored, 4096)
		p.renewing = make(chan struct{}, 1)
	}
	return p
}

// serve handles events until ctx ends, and waits for their handlers: they know from ctx that they should end, and are given the time.
func (p *partition) serve(ctx context.Context, h transport.Handler) {
	p.in.mu.Lock()
	p.ctx = ctx
	p.held, p.queues, p.last = map[uint64]*delivery{}, map[string][]*delivery{}, ""
	p.in.mu.Unlock()
	p.workers = startWorkers(ctx, func(j job) {
		if p.in.ordered {
			p.converse(ctx, h, j.conversation)
		} else {
			p.attempt(ctx, h, j.d)
		}
	})
	p.feeds(ctx)
	p.workers.wait()
}

// take holds an event that was delivered, and has it handled.
func (p *partition) take(m *natsgo.Msg, meta *natsgo.MsgMetadata) {
	in := p.in
	s := stored{meta.Sequence.Stream, meta.Timestamp}
	now := time.Now()

	in.mu.Lock()
	if d := p.held[s.seq]; d != nil && d.stored == s {
		d.msg, d.touched = m, now // delivered again; its newest acknowledgement is the one that counts
		in.mu.Unlock()
		p.pull()
		return
	}
	if p.handled[s.seq%uint64(len(p.handled))] == s {
		in.mu.Unlock()
		in.send(m, ackDone) // the first did not arrive
		p.pull()
		return
	}
	d := &delivery{stored: s, from: senderToken(m.Subject), bytes: len(m.Data), count: max(int(meta.NumDelivered), p.carried[s.seq]+1), msg: m, touched: now}
	p.held[s.seq] = d
	in.heldBytes += len(m.Data)
	in.hold(d.from, 1, len(m.Data))
	if p.ctx.Err() != nil { // giveBack returns it behind those before it
		in.mu.Unlock()
		return
	}
	conversation, running := "", false
	if in.ordered {
		conversation = conversationToken(m.Subject)
		_, running = p.queues[conversation]
		p.queues[conversation] = append(p.queues[conversation], d)
	}
	if !running {
		p.workers.do(job{d, conversation})
	}
	in.mu.Unlock()
}

// carry takes over how often events were delivered before a reset made the server forget it.
func (p *partition) carry(counts map[uint64]int) {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	p.carried = counts
}

// done acknowledges d.
func (p *partition) done(d *delivery) {
	p.in.send(p.drop(d, true), ackDone)
	p.in.keep(keepEvery)
	p.pull()
}

// drop stops holding d, and returns its message.
func (p *partition) drop(d *delivery, handled bool) *natsgo.Msg {
	in := p.in
	if in.ordered { // else it comes again, maybe to another subscriber
		in.failing.Forget(d.seq)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if p.held[d.seq] == d {
		delete(p.held, d.seq)
	}
	in.heldBytes -= d.bytes
	in.hold(d.from, -1, -d.bytes)
	p.last = d.msg.Reply
	if handled {
		p.handled[d.seq%uint64(len(p.handled))] = d.stored
		in.acked++
	}
	return d.msg
}

// nak gives m back, to be delivered again after delay.
func (p *partition) nak(m *natsgo.Msg, delay time.Duration) {
	if delay > 0 {
		p.in.send(m, fmt.Appendf(nil, `%s {"delay":%d}`, ackNot, int64(delay)))
	} else {
		p.in.send(m, ackNot)
	}
}

// all returns what is held, in its order.
func (p *partition) all() []*delivery {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	all := make([]*delivery, 0, len(p.held))
	for _, d := range p.held {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b *delivery) int { return cmp.Compare(a.seq, b.seq) })
	return all
}

// giveBack returns all that is held, for another subscriber to take. The next owner of a partition has it delivered again by itself, and
// only needs to know how often that was done.
func (p *partition) giveBack() {
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTimeout)
	defer cancel()
	var err error
	back := p.all()
	for _, d := range back {
		m := p.drop(d, false)
		if !p.in.ordered {
			p.nak(m, 0)
		}
	}
	if counts := formatCounts(back); p.in.ordered && counts != "" {
		_, err = p.in.bus.putConsumer(ctx, p.partitionID, counts)
	}
	if err := errors.Join(err, p.settle(ctx)); err != nil {
		p.in.bus.log.Debug("events not given back", "inbox", p.topic.ID, "count", len(back), "err", err)
	}
}

// forget stops holding what another one has by now.
func (p *partition) forget() {
	for _, d := range p.all() {
		p.drop(d, false)
	}
}

// settle waits until the server has done what the acknowledgements say. It queues them, and a subscriber that came before
// its turn would get again what was handled.
func (p *partition) settle(ctx context.Context) error {
	p.in.mu.Lock()
	last := p.last
	p.in.mu.Unlock()
	if last == "" {
		return nil
	}
	_, err := p.in.bus.nc.RequestWithContext(ctx, last, ackProgress) // changes nothing, and is answered in its turn
	return err
}
