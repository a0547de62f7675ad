package rockbot

import (
	"context"
	"errors"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// hostName is the id of the host of RockBot's agents.
const hostName = "rockbot"

// Bounds of what is on its way.
const (
	atWork     = 32 // tasks of one agent
	inFlight   = 32 // answers that are taken at a time
	inAir      = 64 // cards and reports, likewise
	keptCards  = 10_000
	keptOctets = 64 << 20
)

// times are the times that matter, which tests shorten.
type times struct {
	pauses   [2]time.Duration // the shortest and the longest between two connections
	announce time.Duration    // between two announcements
	change   time.Duration    // between two looks for changes of Cortex's agents
	silent   time.Duration    // after which an agent without a card has left
	stale    time.Duration    // of a card that is too old
	unrouted time.Duration    // before a task is published again that no queue has taken
	look     time.Duration    // between two looks at a task's note, which another replica may have changed
	soonest  time.Duration    // before which a caller cannot take an answer
	progress time.Duration    // between two reports of progress
	pause    time.Duration    // before something is tried again
	lead     time.Duration    // between two looks at who leads
	handOver time.Duration    // for which the agents count as present when this process leads no more, or ends
}

// usual are the times in production.
var usual = times{
	pauses: [2]time.Duration{2 * time.Second, 30 * time.Second}, announce: 2 * time.Minute, change: 2 * time.Second, silent: 6 * time.Minute,
	stale: 5 * time.Minute, unrouted: time.Second, look: 15 * time.Second, soonest: 50 * time.Millisecond, progress: time.Second, pause: time.Second,
	lead: 500 * time.Millisecond, handOver: 30 * time.Second,
}

// bridge is what is between Cortex and RockBot, while this process leads.
type bridge struct {
	at    *role.Site
	o     *options
	times times
	ctx   context.Context //nolint:containedctx // of run, for what goes on without its caller
	stray *rate.Sometimes // logs that an answer is for nothing
	blots *rate.Sometimes // logs that a note cannot be read

	host   *agents.Host
	names  *kit.Names
	line   *line
	book   *book
	guests *guests
	faces  *faces
	asks   *asks
	pace   client.Pace // of what callers ask: they choose their names, so that all have what one person has
}

func newBridge(at *role.Site, o *options, t times) (*bridge, error) {
	notes, ok := at.Store.(storage.Notes)
	if !ok {
		return nil, transport.Permanent(errors.New("the store keeps no notes, and RockBot's tasks would be lost with the process"))
	}
	b := &bridge{at: at, o: o, times: t, stray: &rate.Sometimes{First: 1, Interval: time.Minute}, blots: &rate.Sometimes{First: 1, Interval: time.Hour}}
	var err error
	// The agents only wait for others: neither a restart of this process nor that another one leads says anything of them.
	if b.host, err = at.Host(hostName, &agents.Options{Concurrency: atWork, Deliveries: -1, Grace: -1, HandOver: t.handOver}); err != nil {
		return nil, transport.Permanent(err)
	}
	b.line = newLine(o.url, at.Logger, t.pauses, at.Waits)
	b.line.begin = b.begin
	b.book = &book{b: b, notes: notes, turn: semaphore.NewWeighted(1), by: map[string]*sent{}}
	b.guests = &guests{b: b, held: kit.MaxCards, notes: notes, more: make(chan struct{}, 1), by: map[string]*guest{}, gone: map[string]bool{}, told: map[string]bool{}}
	b.faces = &faces{b: b, turn: semaphore.NewWeighted(1), by: map[string]*face{}, told: map[string]bool{}}
	b.asks = &asks{b: b, notes: notes, open: map[string]*ask{}}
	b.names = kit.NewNames(hostName, at.Keyed, func(string) { b.guests.wake() })
	return b, nil
}

// unread tells that a note cannot be read, and what comes of that.
func (b *bridge) unread(kind, key, so string) {
	b.blots.Do(func() {
		b.at.Logger.Warn("a note of RockBot's bridge cannot be read, and perhaps others that are not logged: "+so, "kind", kind, "key", key)
	})
}

func (b *bridge) now() time.Time { return b.at.Client.Clock() }

// owns reports whether this is a name of Cortex at RockBot.
func (b *bridge) owns(name string) bool {
	return strings.EqualFold(name, b.o.name) || b.faces.owns(name)
}

// replyTo returns the topic of answers to Cortex.
func (b *bridge) replyTo() string { return responseTopic + "." + b.o.name }

// run works until ctx ends or something fails. stays reports, when ctx has ended, whether nobody takes over: then RockBot is told that Cortex has left.
func (b *bridge) run(ctx context.Context, stays func() bool) error {
	g, ctx := errgroup.WithContext(ctx)
	b.ctx = ctx
	connected, disconnect := context.WithCancel(context.WithoutCancel(ctx))
	line := make(chan struct{})
	g.Go(func() error { return b.names.Run(ctx, b.at.Transport, b.at.Tenant) })
	g.Go(func() error { return b.host.Serve(ctx) })
	g.Go(func() error {
		defer close(line)
		if err := b.names.Synced(ctx); err != nil {
			return err
		}
		b.faces.refresh() // so that its own names are known
		if err := b.guests.pin(b.o.pinned); err != nil {
			return transport.Permanent(err)
		}
		for _, read := range []func(context.Context) error{b.book.read, b.guests.read, b.asks.resume} {
			if err := read(ctx); err != nil {
				return err
			}
		}
		for _, run := range []func(context.Context) error{b.guests.run, b.faces.run, b.book.run, b.asks.forget} {
			g.Go(func() error { return run(ctx) })
		}
		return b.line.run(connected)
	})
	g.Go(func() error {
		<-ctx.Done()
		late := time.AfterFunc(goodbyeTime, disconnect) // which ends a farewell that nobody reads
		defer late.Stop()
		if stays() {
			b.faces.goodbye(context.WithoutCancel(ctx))
		}
		disconnect()
		<-line
		return ctx.Err()
	})
	err := g.Wait()
	disconnect()
	b.asks.wg.Wait()
	return err
}

// begin takes from RabbitMQ, on a new connection, what is for Cortex.
func (b *bridge) begin(ctx context.Context, s *session) error {
	bounded := func() amqp.Table {
		return amqp.Table{"x-max-length": int64(keptCards), "x-max-length-bytes": int64(keptOctets), "x-overflow": "drop-head"}
	}
	answers := &queue{
		name: "cortex." + b.o.name + ".response", keys: []string{b.replyTo()}, prefetch: inFlight, args: amqp.Table{"x-single-active-consumer": true},
	}
	err := s.consume(ctx, answers, func(d *amqp.Delivery) { b.answered(ctx, s, d) })
	if err != nil {
		return err
	}
	err = s.consume(ctx, &queue{keys: []string{statusTopic}, prefetch: inAir, args: bounded()}, func(d *amqp.Delivery) {
		b.progressed(d)
		_ = d.Ack(false)
	})
	if err != nil {
		return err
	}
	err = s.consume(ctx, &queue{keys: []string{announceTopic}, prefetch: inAir, args: bounded()}, func(d *amqp.Delivery) {
		b.guests.hear(d)
		_ = d.Ack(false)
	})
	if err != nil {
		return err
	}
	if len(b.o.announce) == 0 {
		return nil
	}
	if err := s.consume(ctx, b.cancelQueue(), func(d *amqp.Delivery) { s.wg.Go(func() { b.asks.cancel(ctx, d) }) }); err != nil {
		return err
	}
	b.faces.attach(ctx, s)
	return nil
}

// cancelQueue returns the queue of cancellations.
func (b *bridge) cancelQueue(keys ...string) *queue {
	return &queue{name: "cortex." + b.o.name + ".cancel", keys: keys, prefetch: inPrefetch, args: amqp.Table{
		"x-dead-letter-exchange": deadExchange, "x-single-active-consumer": true,
	}}
}

// deadQueue returns the queue of what could not be read, for people to look at.
func (b *bridge) deadQueue(keys ...string) *queue {
	return &queue{name: "cortex." + b.o.name + ".dlq", keys: keys, dead: true, args: amqp.Table{
		"x-message-ttl": int64(72 * time.Hour / time.Millisecond), "x-max-length": int64(keptCards), "x-max-length-bytes": int64(4 * keptOctets), "x-overflow": "drop-head",
	}}
}
