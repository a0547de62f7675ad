package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

// partition handles what one consumer delivers to a subscriber: one partition of an inbox, if it owns it, or the whole inbox. It holds every
// delivered event that is not acknowledged: queued behind others of its conversation (when ordered), being handled, or waiting for another attempt.
type partition struct {
	partitionID
	in          *inbox
	pullSubject string
	ctx         context.Context //nolint:containedctx // of the handlers, for as long as it is served
	workers     *workers        // run handlers for held events

	ownership // of a partition

	// Guarded by the inbox's mu.
	current *feed                  // nil while no feed runs
	held    map[uint64]*delivery   // by sequence in the stream
	queues  map[string][]*delivery // by conversation, when ordered; the first is being handled
	handled []stored               // acknowledged most recently, by sequence modulo length
	last    string                 // reply subject of the last acknowledgement
	carried map[uint64]int         // by sequence: delivery counts that a reset has cleared at the server
}

// stored identifies a message in the stream. The time distinguishes it from one with the same sequence in a stream that was made anew.
type stored struct {
	seq uint64
	at  time.Time
}

// delivery is an event that this subscriber holds.
type delivery struct {
	stored
	from   string // the sender's token
	bytes  int    // of its body
	cancel bool   // it is a cancellation
	count  int    // deliveries to any subscriber, including this one

	handled int // Event.Delivery of the last attempt; 0: none. Only its handling goroutine writes it.

	// Guarded by the inbox's mu.
	msg     *natsgo.Msg // as last delivered
	touched time.Time   // when the server last received an acknowledgement of any kind for it
}

func newPartition(in *inbox, s partitionID) *partition {
	p := &partition{partitionID: s, in: in, pullSubject: jsAPI + "CONSUMER.MSG.NEXT." + inboxStream + "." + s.consumer(), handled: make([]stored, 256)}
	if in.ordered {
		p.handled = make([]stored, 4096)
		p.renewing = make(chan struct{}, 1)
	}
	return p
}

// serve handles events until ctx ends, and then waits for the running handlers, which see the end of ctx.
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

// take holds a delivered event and starts or queues its handling.
func (p *partition) take(m *natsgo.Msg, meta *natsgo.MsgMetadata) {
	in := p.in
	s := stored{meta.Sequence.Stream, meta.Timestamp}
	now := time.Now()

	in.mu.Lock()
	if d := p.held[s.seq]; d != nil && d.stored == s {
		d.msg, d.touched = m, now // delivered again: only the newest acknowledgement counts
		in.mu.Unlock()
		p.pull()
		return
	}
	if p.handled[s.seq%uint64(len(p.handled))] == s {
		in.mu.Unlock()
		in.send(m, ackDone) // the first acknowledgement was lost
		p.pull()
		return
	}
	d := &delivery{
		stored: s, from: senderToken(m.Subject), bytes: len(m.Data), cancel: m.Header.Get(headerKind) == "cancel",
		count: max(int(meta.NumDelivered), p.carried[s.seq]+1), msg: m, touched: now,
	}
	p.held[s.seq] = d
	in.hold(d, 1)
	if p.ctx.Err() != nil { // giveBack returns it after the earlier ones
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

// carry sets the delivery counts that a reset has cleared at the server.
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

// drop stops holding d and returns its message.
func (p *partition) drop(d *delivery, handled bool) *natsgo.Msg {
	in := p.in
	if in.ordered { // unordered, it is delivered again, perhaps to another subscriber
		in.failing.Forget(d.seq)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if p.held[d.seq] == d {
		delete(p.held, d.seq)
	}
	in.hold(d, -1)
	p.last = d.msg.Reply
	if handled {
		p.handled[d.seq%uint64(len(p.handled))] = d.stored
		in.acked++
	}
	return d.msg
}

// nak returns m to the server, which delivers it again after delay.
func (p *partition) nak(m *natsgo.Msg, delay time.Duration) {
	if delay > 0 {
		p.in.send(m, fmt.Appendf(nil, `%s {"delay":%d}`, ackNot, int64(delay)))
	} else {
		p.in.send(m, ackNot)
	}
}

// all returns the held events in the order of the stream.
func (p *partition) all() []*delivery {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	return slices.SortedFunc(maps.Values(p.held), func(a, b *delivery) int { return cmp.Compare(a.seq, b.seq) })
}

// giveBack returns all held events for other subscribers. The next owner of a partition gets them again by its reset, and needs only their delivery
// counts.
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

// forget stops holding events of a partition that another subscriber owns.
func (p *partition) forget() {
	for _, d := range p.all() {
		p.drop(d, false)
	}
}

// settle waits until the server has processed the acknowledgements. The server queues them, and a subscriber that started before would get handled
// events again.
func (p *partition) settle(ctx context.Context) error {
	p.in.mu.Lock()
	last := p.last
	p.in.mu.Unlock()
	if last == "" {
		return nil
	}
	_, err := p.in.bus.nc.RequestWithContext(ctx, last, ackProgress) // changes nothing; the server answers it after the earlier ones
	return err
}
