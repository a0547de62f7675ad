package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

// The words of an acknowledgement.
var (
	ackDone     = []byte("+ACK")
	ackNot      = []byte("-NAK")
	ackProgress = []byte("+WPI")
)

// giveBackTimeout bounds how long the end of a subscription waits for the server to know what comes back.
const giveBackTimeout = 2 * time.Second

// inbox is a subscriber of an inbox. Everything that the server has delivered and that is not acknowledged is held: in a
// queue of its conversation (ordered), being handled, or waiting to be handled again.
type inbox struct {
	bus         *Bus
	topic       transport.Topic
	ordered     bool
	limit       int // most events being handled and asked for; if ordered, most conversations
	pullSubject string
	slots       chan struct{} // one per running handler

	stopped func() bool          // nothing is handled any more
	workers *workers             // handle what is held
	peer    *natsgo.Subscription // tells others that this subscriber lives; nil while it asks for others

	mu        sync.Mutex
	current   *feed                // nil while there is none
	held      map[uint64]*delivery // by sequence in the stream
	heldBytes int
	queues    map[string][]*delivery // ordered: by conversation; the first is being handled
	handled   []stored               // acknowledged last, by sequence modulo length
	acked     bool                   // something was, since the last tick
	last      string                 // where the last acknowledgement went
	carried   map[uint64]int         // by sequence: deliveries that the server has forgotten
}

// stored names a message in the stream. The time tells it from one with the same number in a stream that was made anew.
type stored struct {
	seq uint64
	at  time.Time
}

// delivery is an event that this subscriber holds.
type delivery struct {
	stored
	count int // deliveries to any subscriber, with this one

	handled int // Event.Delivery when it was last handled; 0: it was not. Only its handling goroutine writes it.

	// Guarded by the inbox's mu.
	msg     *natsgo.Msg // as delivered last
	touched time.Time   // when the server last heard of it
}

func (b *Bus) subscribeInbox(ctx context.Context, s *subscription, t transport.Topic, o transport.SubscribeOptions) error {
	if err := b.ensureConsumer(ctx, t); err != nil {
		return err
	}
	in := &inbox{
		bus: b, topic: t, ordered: !o.Unordered, limit: o.Concurrency,
		pullSubject: "$JS.API.CONSUMER.MSG.NEXT." + inboxStream + "." + consumerName(t),
		slots:       make(chan struct{}, o.Concurrency),
		held:        map[uint64]*delivery{}, queues: map[string][]*delivery{}, handled: make([]stored, 256),
	}
	if in.ordered {
		// Events that wait for others of their conversation take no slot.
		in.limit = max(2*o.Concurrency, 256)
		in.handled = make([]stored, 4096)
	}
	s.run = in.run
	return nil
}

// run serves the inbox until ctx ends.
func (in *inbox) run(ctx context.Context, h transport.Handler) {
	in.stopped = func() bool { return ctx.Err() != nil }
	in.workers = startWorkers(ctx, func(j job) {
		if in.ordered {
			in.converse(ctx, h, j.conversation)
		} else {
			in.attempt(ctx, h, j.d)
		}
	})
	stop := make(chan struct{})
	var keeper sync.WaitGroup
	keeper.Go(func() { in.keepAlive(stop) })
	in.feeds(ctx)
	// Nothing comes any more. Handlers know from ctx that they should end, and are given the time; the server must not
	// take their events for lost meanwhile.
	in.workers.wait()
	close(stop)
	keeper.Wait()
	in.giveBack()
}

// take holds an event that was delivered, and has it handled.
func (in *inbox) take(m *natsgo.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		in.bus.log.Warn("message without delivery data", "subject", oneLine(m.Subject, 200), "err", err)
		return
	}
	s := stored{meta.Sequence.Stream, meta.Timestamp}
	now := time.Now()

	in.mu.Lock()
	if d := in.held[s.seq]; d != nil && d.stored == s {
		d.msg, d.touched = m, now // delivered again; its newest acknowledgement is the one that counts
		in.mu.Unlock()
		in.pull()
		return
	}
	if in.handled[s.seq%uint64(len(in.handled))] == s {
		in.mu.Unlock()
		in.send(m, ackDone) // the first did not arrive
		in.pull()
		return
	}
	d := &delivery{stored: s, count: max(int(meta.NumDelivered), in.carried[s.seq]+1), msg: m, touched: now}
	in.held[s.seq] = d
	in.heldBytes += len(m.Data)
	if in.stopped() { // giveBack returns it behind those before it
		in.mu.Unlock()
		return
	}
	conversation, running := "", false
	if in.ordered {
		conversation = conversationToken(m.Subject)
		_, running = in.queues[conversation]
		in.queues[conversation] = append(in.queues[conversation], d)
	}
	if !running {
		in.workers.do(job{d, conversation})
	}
	in.mu.Unlock()
}

// done acknowledges d.
func (in *inbox) done(d *delivery) {
	in.send(in.drop(d, true), ackDone)
	in.pull()
}

// drop stops holding d, and returns its message.
func (in *inbox) drop(d *delivery, handled bool) *natsgo.Msg {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.held[d.seq] == d {
		delete(in.held, d.seq)
	}
	in.heldBytes -= len(d.msg.Data)
	in.last = d.msg.Reply
	if handled {
		in.handled[d.seq%uint64(len(in.handled))] = d.stored
		in.acked = true
	}
	return d.msg
}

// nak gives m back, to be delivered again after delay.
func (in *inbox) nak(m *natsgo.Msg, delay time.Duration) {
	if delay > 0 {
		in.send(m, fmt.Appendf(nil, `%s {"delay":%d}`, ackNot, int64(delay)))
	} else {
		in.send(m, ackNot)
	}
}

// send acknowledges m with one of the words. One that is lost is made good when the server delivers m again.
func (in *inbox) send(m *natsgo.Msg, word []byte) {
	if err := in.bus.nc.Publish(m.Reply, word); err != nil {
		in.bus.log.Debug("acknowledgement not sent", "subject", m.Subject, "err", err)
	}
}

// giveBack returns all that is held, in its order, for another subscriber to take. One that is about to start sees either
// that this one is there, and asks for events before they come back, or that it is not, and resets the consumer.
func (in *inbox) giveBack() {
	in.mu.Lock()
	back := make([]*delivery, 0, len(in.held))
	for _, d := range in.held {
		back = append(back, d)
	}
	in.mu.Unlock()
	slices.SortFunc(back, func(a, b *delivery) int { return cmp.Compare(a.seq, b.seq) })
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTimeout)
	defer cancel()
	var err error
	if counts := formatCounts(back); in.ordered && counts != "" {
		err = in.bus.putConsumer(ctx, in.topic, counts)
	}
	in.hide()
	for _, d := range back {
		in.nak(in.drop(d, false), 0)
	}
	if err := errors.Join(err, in.settle(ctx)); err != nil {
		in.bus.log.Debug("events not given back", "inbox", in.topic.ID, "count", len(back), "err", err)
	}
}

// settle waits until the server has done what the acknowledgements say. It queues them, and a subscriber that came before
// its turn would get again what was handled.
func (in *inbox) settle(ctx context.Context) error {
	in.mu.Lock()
	last := in.last
	in.mu.Unlock()
	if last == "" {
		return nil
	}
	_, err := in.bus.nc.RequestWithContext(ctx, last, ackProgress) // changes nothing, and is answered in its turn
	return err
}

// keepAlive tells the server from time to time that events are being handled, until stop is closed.
func (in *inbox) keepAlive(stop <-chan struct{}) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		for _, m := range in.untouched(ackWait(in.topic) / 3) {
			in.send(m, ackProgress)
		}
		in.mu.Lock()
		keep := in.ordered && in.acked
		in.acked = false
		in.mu.Unlock()
		if keep {
			_ = in.bus.nc.PublishMsg(keepMessage()) // the next one will do
		}
	}
}

// untouched returns what the server has not heard of for d, and counts it as touched.
func (in *inbox) untouched(d time.Duration) []*natsgo.Msg {
	in.mu.Lock()
	defer in.mu.Unlock()
	var all []*natsgo.Msg
	now := time.Now()
	for _, v := range in.held {
		if now.Sub(v.touched) > d {
			v.touched = now
			all = append(all, v.msg)
		}
	}
	return all
}
