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

// group is what one consumer delivers to a subscriber: a group of partitions, when it owns that, or a whole inbox. Everything that
// the server has delivered and that is not acknowledged is held: in a queue of its conversation (ordered), being handled, or
// waiting to be handled again.
type group struct {
	section
	in          *inbox
	pullSubject string
	ctx         context.Context //nolint:containedctx // of the handlers, for as long as it is served
	workers     *workers        // handle what is held

	tenure // of a group of partitions

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

func newGroup(in *inbox, s section) *group {
	g := &group{section: s, in: in, pullSubject: jsAPI + "CONSUMER.MSG.NEXT." + inboxStream + "." + s.consumer(), handled: make([]stored, 256)}
	if in.ordered {
		g.handled = make([]stored, 4096)
		g.renewing = make(chan struct{}, 1)
	}
	return g
}

// serve handles events until ctx ends, and waits for their handlers: they know from ctx that they should end, and are given the time.
func (g *group) serve(ctx context.Context, h transport.Handler) {
	g.in.mu.Lock()
	g.ctx = ctx
	g.held, g.queues, g.last = map[uint64]*delivery{}, map[string][]*delivery{}, ""
	g.in.mu.Unlock()
	g.workers = startWorkers(ctx, func(j job) {
		if g.in.ordered {
			g.converse(ctx, h, j.conversation)
		} else {
			g.attempt(ctx, h, j.d)
		}
	})
	g.feeds(ctx)
	g.workers.wait()
}

// take holds an event that was delivered, and has it handled.
func (g *group) take(m *natsgo.Msg) {
	in := g.in
	meta, err := m.Metadata()
	if err != nil {
		in.bus.log.Warn("message without delivery data", "subject", oneLine(m.Subject, 200), "err", err)
		return
	}
	s := stored{meta.Sequence.Stream, meta.Timestamp}
	now := time.Now()

	in.mu.Lock()
	if d := g.held[s.seq]; d != nil && d.stored == s {
		d.msg, d.touched = m, now // delivered again; its newest acknowledgement is the one that counts
		in.mu.Unlock()
		g.pull()
		return
	}
	if g.handled[s.seq%uint64(len(g.handled))] == s {
		in.mu.Unlock()
		in.send(m, ackDone) // the first did not arrive
		g.pull()
		return
	}
	d := &delivery{stored: s, from: senderToken(m.Subject), bytes: len(m.Data), count: max(int(meta.NumDelivered), g.carried[s.seq]+1), msg: m, touched: now}
	g.held[s.seq] = d
	in.heldBytes += len(m.Data)
	in.hold(d.from, 1, len(m.Data))
	if g.ctx.Err() != nil { // giveBack returns it behind those before it
		in.mu.Unlock()
		return
	}
	conversation, running := "", false
	if in.ordered {
		conversation = conversationToken(m.Subject)
		_, running = g.queues[conversation]
		g.queues[conversation] = append(g.queues[conversation], d)
	}
	if !running {
		g.workers.do(job{d, conversation})
	}
	in.mu.Unlock()
}

// carry takes over how often events were delivered before a reset made the server forget it.
func (g *group) carry(counts map[uint64]int) {
	g.in.mu.Lock()
	defer g.in.mu.Unlock()
	g.carried = counts
}

// done acknowledges d.
func (g *group) done(d *delivery) {
	g.in.send(g.drop(d, true), ackDone)
	g.in.keep(keepEvery)
	g.pull()
}

// drop stops holding d, and returns its message.
func (g *group) drop(d *delivery, handled bool) *natsgo.Msg {
	in := g.in
	if in.ordered { // else it comes again, maybe to another subscriber
		in.failing.Forget(d.seq)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if g.held[d.seq] == d {
		delete(g.held, d.seq)
	}
	in.heldBytes -= d.bytes
	in.hold(d.from, -1, -d.bytes)
	g.last = d.msg.Reply
	if handled {
		g.handled[d.seq%uint64(len(g.handled))] = d.stored
		in.acked++
	}
	return d.msg
}

// nak gives m back, to be delivered again after delay.
func (g *group) nak(m *natsgo.Msg, delay time.Duration) {
	if delay > 0 {
		g.in.send(m, fmt.Appendf(nil, `%s {"delay":%d}`, ackNot, int64(delay)))
	} else {
		g.in.send(m, ackNot)
	}
}

// all returns what is held, in its order.
func (g *group) all() []*delivery {
	g.in.mu.Lock()
	defer g.in.mu.Unlock()
	all := make([]*delivery, 0, len(g.held))
	for _, d := range g.held {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b *delivery) int { return cmp.Compare(a.seq, b.seq) })
	return all
}

// giveBack returns all that is held, for another subscriber to take. The next owner of a group has it delivered again by itself, and
// only needs to know how often that was done.
func (g *group) giveBack() {
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTimeout)
	defer cancel()
	var err error
	back := g.all()
	for _, d := range back {
		m := g.drop(d, false)
		if !g.in.ordered {
			g.nak(m, 0)
		}
	}
	if counts := formatCounts(back); g.in.ordered && counts != "" {
		_, err = g.in.bus.putConsumer(ctx, g.section, counts)
	}
	if err := errors.Join(err, g.settle(ctx)); err != nil {
		g.in.bus.log.Debug("events not given back", "inbox", g.topic.ID, "count", len(back), "err", err)
	}
}

// forget stops holding what another one has by now.
func (g *group) forget() {
	for _, d := range g.all() {
		g.drop(d, false)
	}
}

// settle waits until the server has done what the acknowledgements say. It queues them, and a subscriber that came before
// its turn would get again what was handled.
func (g *group) settle(ctx context.Context) error {
	g.in.mu.Lock()
	last := g.last
	g.in.mu.Unlock()
	if last == "" {
		return nil
	}
	_, err := g.in.bus.nc.RequestWithContext(ctx, last, ackProgress) // changes nothing, and is answered in its turn
	return err
}
