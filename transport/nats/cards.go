package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	cardPulls = 512 // cards buffered in the client

	// A subscription whose first watch is older than this when Serve begins reads the cards again.
	freshWatch = 10 * time.Second
)

// cards is a subscriber of a tenant's cards. It compares the bucket with what its handler knows: after a lost connection it reads the whole bucket
// again and reports only the differences.
type cards struct {
	bus    *Bus
	tenant string

	known  map[string]term // by subject: cards that the handler knows as present
	last   uint64          // highest sequence that tell has seen
	synced bool            // the handler has received Synced
	server time.Time       // what the server's clock has said last
	heard  time.Time       // when it said so, by this clock
	old    uint64          // sequence of the last retained card; what comes behind it was stored a moment ago
	looked time.Time       // when endOverdue last ran
	news   chan struct{}   // holds one after a live event, which may be about a card that is not read yet

	handling sync.Mutex // serialises the handler: events come from the bucket and from the live topic
}

// term is the validity of a card. The server removes expired cards, but after a crash it may have lost the expiry of some, so readers check it as
// well.
type term struct {
	sequence uint64
	until    time.Time // by the server's clock; zero: without end
}

// overdueSlack is how long after its expiry a card is left to the server.
const overdueSlack = 3 * time.Second

// watch is one reading of the bucket: first the retained cards, then the changes.
type watch struct {
	consumer jetstream.Consumer // nil when the reader has none; see cardReader
	until    uint64             // the bucket's last sequence at the beginning; later messages are new
	lost     <-chan struct{}    // closed when its connection is lost
	made     time.Time
}

func (b *Bus) subscribeCards(ctx context.Context, s *subscription, t transport.Topic) error {
	c := &cards{bus: b, tenant: t.Tenant, known: map[string]term{}, news: make(chan struct{}, 1)}
	told, err := b.subscribeAgentEvents(t.Tenant)
	if err != nil {
		return err
	}
	first, err := c.watch(ctx) // after its answer, the server has the other subscription too
	if err != nil {
		told.end()
		return err
	}
	s.release = func() {
		told.end()
		c.unwatch(first)
	}
	s.run = func(ctx context.Context, h transport.Handler) {
		var telling sync.WaitGroup
		telling.Go(func() {
			told.run(ctx, func(e *transport.Event) {
				select {
				case c.news <- struct{}{}:
				default:
				}
				c.handle(ctx, e, h)
			})
		})
		c.run(ctx, first, h)
		telling.Wait()
	}
	return nil
}

// watch makes a consumer that begins with the retained cards.
func (c *cards) watch(ctx context.Context) (*watch, error) {
	lost, err := c.bus.online(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.bus.asking(ctx)
	defer cancel()
	bucket, err := c.bus.js.Stream(ctx, agentsStream)
	if err != nil {
		return nil, err
	}
	w := &watch{until: bucket.CachedInfo().State.LastSeq, lost: lost, made: time.Now()}
	c.old = w.until
	c.said(bucket.CachedInfo().TimeStamp)
	if c.bus.who.Limited() {
		return w, nil
	}
	w.consumer, err = c.bus.js.CreateConsumer(ctx, agentsStream, jetstream.ConsumerConfig{
		FilterSubject:     cardFilter(c.tenant),
		DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
		AckPolicy:         jetstream.AckNonePolicy,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: 3 * pullHeartbeat,
	})
	if isConsumerLimit(err) {
		c.bus.log.Warn("cards are read once a second: others use all consumers of the stream", "stream", agentsStream)
		w.consumer, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// said notes what the server's clock says; at is zero if that is unknown.
func (c *cards) said(at time.Time) {
	c.heard = time.Now()
	if c.server = at.Round(0); at.IsZero() {
		c.server = c.heard.Round(0)
	}
}

// now returns the time by the server's clock, from what has passed since it was heard of: either clock may be set meanwhile.
func (c *cards) now() time.Time { return c.server.Add(time.Since(c.heard)) }

// unwatch removes the consumer. If that fails, the server removes it after InactiveThreshold.
func (c *cards) unwatch(w *watch) {
	if w.consumer == nil || !c.bus.nc.IsConnected() {
		return
	}
	// The answer is not awaited.
	_ = c.bus.nc.Publish(jsAPI+"CONSUMER.DELETE."+agentsStream+"."+w.consumer.CachedInfo().Name, nil)
}

// run serves cards until ctx ends, first from w, then from new watches.
func (c *cards) run(ctx context.Context, w *watch, h transport.Handler) {
	if time.Since(w.made) > freshWatch {
		c.unwatch(w)
		w = nil
	}
	for failed := 0; ctx.Err() == nil; {
		var err error
		if w == nil {
			w, err = c.watch(ctx)
		}
		if err == nil {
			begin := time.Now()
			err = c.follow(ctx, w, h)
			c.unwatch(w)
			if time.Since(begin) > 2*pullHeartbeat {
				failed = 0
			}
		}
		w = nil
		if ctx.Err() != nil {
			return
		}
		level := slog.LevelInfo
		if errors.Is(err, context.Canceled) || !c.bus.nc.IsConnected() {
			level = slog.LevelDebug // the log says once that the server is lost
		}
		c.bus.log.Log(ctx, level, "cards are read again", "tenant", c.tenant, "err", err)
		c.bus.pause(ctx, retryDelay(failed)/4)
		failed++
	}
}

// follow handles what w delivers until ctx ends, the connection is lost, or a message is missing.
func (c *cards) follow(ctx context.Context, w *watch, h transport.Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var waiter sync.WaitGroup
	defer waiter.Wait()
	defer cancel()
	waiter.Go(func() {
		select {
		case <-w.lost:
		case <-ctx.Done():
		}
		cancel()
	})
	if w.consumer == nil {
		return c.lookOn(ctx, w.until, h)
	}
	flow, err := c.bus.newPull(agentsStream, w.consumer.CachedInfo().Name)
	if err != nil {
		return err
	}
	defer flow.close()

	var next uint64 = 1
	seen := map[string]bool{} // subjects in the bucket, while the retained cards are read; then nil
	if w.consumer.CachedInfo().NumPending == 0 {
		c.sync(ctx, seen, h)
		seen = nil
	}
	for {
		m, err := c.next(ctx, w, flow, seen != nil, h)
		if err != nil {
			return err
		}
		if m == nil {
			c.sync(ctx, seen, h)
			seen = nil
			continue
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if meta.Sequence.Consumer != next {
			return fmt.Errorf("cards: message %d came, want %d", meta.Sequence.Consumer, next)
		}
		next++
		c.tell(ctx, m, meta, seen, h)
		if seen != nil && meta.NumPending == 0 {
			c.sync(ctx, seen, h)
			seen = nil
		}
		if meta.Sequence.Stream >= w.until {
			c.caughtUp(ctx, h)
		}
	}
}

// next waits for a message. While the retained cards are read, it returns nil when none is left: the last ones may expire before they are
// delivered.
func (c *cards) next(ctx context.Context, w *watch, flow *pull, reading bool, h transport.Handler) (*natsgo.Msg, error) {
	for {
		wait, cancel := context.WithTimeout(ctx, time.Second)
		m, err := flow.next(wait)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return m, err
		}
		c.endOverdue(ctx, h)
		if !reading {
			continue
		}
		info, cancel := c.bus.asking(ctx)
		now, err := w.consumer.Info(info)
		cancel()
		if err != nil {
			return nil, err
		}
		if now.NumPending == 0 {
			return nil, nil
		}
	}
}

// endOverdue reports overdue cards as gone and removes them from the bucket.
func (c *cards) endOverdue(ctx context.Context, h transport.Handler) {
	now := time.Now()
	c.looked = now
	for subject, l := range c.known {
		if l.overdue(c.now()) {
			delete(c.known, subject)
			c.bus.removeCard(subject, l.sequence)
			if e, err := c.gone(subject, transport.GoneExpired, fmt.Sprint(l.sequence), now); err == nil {
				c.handle(ctx, e, h)
			}
		}
	}
}

func (l term) overdue(now time.Time) bool {
	return !l.until.IsZero() && now.After(l.until.Add(overdueSlack))
}

// headerOverdue distinguishes the removal of an overdue card from an agent's own goodbye.
const headerOverdue = "Cortex-Overdue"

// removeCard asks the server to remove a card unless it was announced again since. If that fails, the next reader does it.
func (b *Bus) removeCard(subject string, sequence uint64) {
	if b.who.Limited() {
		return // the orchestrator reads and removes the cards too
	}
	m := natsgo.NewMsg(subject)
	m.Header.Set(headerKVOperation, "PURGE")
	m.Header.Set(headerOverdue, "1")
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	m.Header.Set(jetstream.MsgTTLHeader, fmt.Sprintf("%.0fs", markerTTL.Seconds()))
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, fmt.Sprint(sequence))
	if _, err := b.js.PublishMsgAsync(m); err != nil {
		b.log.Debug("overdue card not removed", "subject", oneLine(subject, 200), "err", err)
	}
}

// sync ends the reading of retained cards: it reports known cards that are no longer in the bucket as gone.
func (c *cards) sync(ctx context.Context, seen map[string]bool, h transport.Handler) {
	for subject := range c.known {
		if seen[subject] {
			continue
		}
		delete(c.known, subject)
		if e, err := c.gone(subject, transport.GoneExpired, "resync", time.Now()); err == nil {
			c.handle(ctx, e, h)
		}
	}
	c.ready(ctx, h)
}

// caughtUp is called when the reader has passed the cards that were stored at its beginning and reads newer ones. It does not wait for the end of
// the bucket, since cards may be announced without a pause.
func (c *cards) caughtUp(ctx context.Context, h transport.Handler) {
	c.ready(ctx, h)
	if time.Since(c.looked) > time.Second {
		c.endOverdue(ctx, h)
	}
}

// ready sends Synced to the handler, once, after all cards that were stored when the reading began. It does not wait for the end of the bucket,
// which may never come while cards are announced again and again.
func (c *cards) ready(ctx context.Context, h transport.Handler) {
	if c.synced {
		return
	}
	c.synced = true
	c.handle(ctx, &transport.Event{
		ID: fmt.Sprintf("synced-%d", time.Now().UnixNano()), Time: time.Now(), From: transport.Cortex, Tenant: c.tenant, Payload: &transport.Synced{},
	}, h)
}

// tell passes a message of the bucket to the handler, as a card that is present or gone.
func (c *cards) tell(ctx context.Context, raw *natsgo.Msg, meta *natsgo.MsgMetadata, seen map[string]bool, h transport.Handler) {
	marker := fmt.Sprint(meta.Sequence.Stream)
	var e *transport.Event
	var err error
	switch op, why := raw.Header.Get(headerKVOperation), raw.Header.Get(jetstream.MarkerReasonHeader); {
	case why == "MaxAge", raw.Header.Get(headerOverdue) != "":
		e, err = c.gone(raw.Subject, transport.GoneExpired, marker, meta.Timestamp)
	case why != "", op == "PURGE", op == "DEL" && len(raw.Data) == 0: // removed with a tool
		e, err = c.gone(raw.Subject, transport.GoneLeft, marker, meta.Timestamp)
	default:
		e, err = decodeCard(raw, c.tenant)
	}
	if err != nil {
		c.bus.log.Warn("card cannot be read", "subject", oneLine(raw.Subject, 200), "err", err)
		return
	}
	isNew := meta.Sequence.Stream > c.last
	c.last = max(c.last, meta.Sequence.Stream)
	if isNew && meta.Sequence.Stream > c.old {
		c.said(meta.Timestamp)
	}
	l := term{sequence: meta.Sequence.Stream}
	card := e.Payload.(*transport.Card)
	if card.TTL > 0 {
		l.until = meta.Timestamp.Add(card.TTL)
	}
	_, known := c.known[raw.Subject]
	switch {
	case card.Gone != "" && !known && (card.Gone != transport.GoneLeft || c.synced && !isNew):
		return // the handler does not know the card. An agent's own goodbye is passed on once: its card may have expired just before.
	case card.Gone != "":
		delete(c.known, raw.Subject)
	case l.overdue(c.now()) && !known:
		c.bus.removeCard(raw.Subject, l.sequence)
		return
	default:
		c.known[raw.Subject] = l
		if seen != nil {
			seen[raw.Subject] = true
		}
	}
	c.handle(ctx, e, h)
}

// decodeCard decodes a card that is not a marker. Its agent and instance must be those of its subject, since the server's permissions restrict
// agents to their own subjects.
func decodeCard(m *natsgo.Msg, tenant string) (*transport.Event, error) {
	agent, instance, err := parseCardSubject(m.Subject)
	if err != nil {
		return nil, err
	}
	e, err := decodeHeader(m)
	if err != nil {
		return nil, err
	}
	e.Tenant, e.From = tenant, agent
	if e.Payload, err = decodePayload(m); err != nil {
		return nil, err
	}
	card, ok := e.Payload.(*transport.Card)
	if !ok {
		return nil, fmt.Errorf("kind %.40q is no card", m.Header.Get(headerKind))
	}
	if card.AgentID != agent || card.Instance != instance {
		return nil, errors.New("it is about another agent")
	}
	return e, nil
}

// gone returns the event that reports a card as gone.
func (c *cards) gone(subject string, why transport.GoneReason, marker string, at time.Time) (*transport.Event, error) {
	agent, instance, err := parseCardSubject(subject)
	if err != nil {
		return nil, err
	}
	return &transport.Event{
		ID: "gone-" + marker, Time: at, From: agent, Tenant: c.tenant,
		Payload: &transport.Card{AgentID: agent, Instance: instance, Gone: why},
	}, nil
}

func (c *cards) handle(ctx context.Context, e *transport.Event, h transport.Handler) {
	c.handling.Lock()
	defer c.handling.Unlock()
	if ctx.Err() != nil {
		return
	}
	if err := transport.Call(ctx, c.bus.log, h, e); err != nil && ctx.Err() == nil {
		c.bus.log.Warn("card not handled", "agent", e.From, "err", err)
	}
}
