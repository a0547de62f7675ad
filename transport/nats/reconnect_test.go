package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// down ends the server but not its clients; up starts another server on the same folder, and calls between, if given, before the clients reconnect.
func (n *node) down() { n.srv.Shutdown() }

func (n *node) up(t *testing.T, between func(b *Bus)) {
	t.Helper()
	next, err := StartServer(t.Context(), &n.opts)
	if err != nil {
		t.Fatal(err)
	}
	if between != nil {
		b, err := Dial(t.Context(), &Options{Server: next})
		if err != nil {
			t.Fatal(err)
		}
		between(b)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	n.later = append(n.later, next)
	n.srv.mu.Lock()
	n.srv.ns = next.ns
	n.srv.mu.Unlock()
}

// TestSubscriptionsGoOn restarts the server while there are subscriptions of every kind.
func TestSubscriptionsGoOn(t *testing.T) {
	n := newNode(t, ServerOptions{})
	conn := make(chan bool, 10)
	var log lines
	b := n.dial(t, &Options{OnConn: func(up bool, _ error) { conn <- up }, Logger: slog.New(slog.NewTextHandler(&log, nil))})

	inbox, live, cards := transport.Inbox("", transport.Cortex), transport.Live("", "c1"), transport.Cards("")
	events, release := make(chan *transport.Event, 10), make(chan struct{})
	serveTopic(t, b, inbox, nil, func(e *transport.Event) error {
		events <- e
		if text(e) == "slow" {
			<-release
		}
		return nil
	})
	watched := make(chan *transport.Event, 10)
	serveTopic(t, b, live, nil, func(e *transport.Event) error {
		watched <- e
		return nil
	})
	board := make(chan *transport.Event, 10)
	serveTopic(t, b, cards, nil, func(e *transport.Event) error {
		board <- e
		return nil
	})

	announce := func(b *Bus, agent string, gone transport.GoneReason) {
		c := &transport.Card{AgentID: agent, Instance: "1", Gone: gone, TTL: time.Hour, Card: &a2a.AgentCard{Name: agent}}
		if err := b.Publish(t.Context(), cards, &transport.Event{ID: "x", From: agent, Payload: c}); err != nil {
			t.Fatal(err)
		}
	}
	for _, agent := range []string{"stays", "leaves", "vanishes"} {
		announce(b, agent, "")
	}
	for range 4 { // Synced and three cards
		receive(t, board)
	}
	publish(t, b, inbox, "c1", "slow")
	if e := receive(t, events); text(e) != "slow" {
		t.Fatalf("%q came, want slow", text(e))
	}
	publish(t, b, inbox, "c1", "queued")

	n.down()
	if receive(t, conn) {
		t.Error("OnConn(true), want false")
	}
	n.up(t, func(other *Bus) {
		announce(other, "leaves", transport.GoneLeft)
		// As if it had expired so long ago that the server has removed its marker.
		s, err := other.js.Stream(t.Context(), agentsStream)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Purge(t.Context(), jetstream.WithPurgeSubject(cardSubject("", "vanishes", "1"))); err != nil {
			t.Fatal(err)
		}
		publish(t, other, inbox, "c1", "meanwhile")
	})
	if !receive(t, conn) {
		t.Error("OnConn(false), want true")
	}

	gone := map[string]transport.GoneReason{}
	for len(gone) < 2 {
		e := receive(t, board)
		c, ok := e.Payload.(*transport.Card)
		if !ok {
			t.Fatalf("%+v came, want Synced once only", e)
		}
		if c.Gone != "" {
			gone[c.AgentID] = c.Gone
		}
	}
	if gone["leaves"] != transport.GoneLeft || gone["vanishes"] != transport.GoneExpired {
		t.Errorf("gone: %v, want leaves left, vanishes expired", gone)
	}
	publish(t, b, live, "c1", "hello")
	if e := receive(t, watched); text(e) != "hello" {
		t.Errorf("live event %q, want hello", text(e))
	}
	publish(t, b, inbox, "c2", "other") // after it, no event of c1 can be on its way
	if e := receive(t, events); text(e) != "other" {
		t.Errorf("%q came while slow was handled, want other", text(e))
	}
	close(release)
	for _, want := range []string{"queued", "meanwhile"} {
		if e := receive(t, events); text(e) != want {
			t.Errorf("%q came (delivery %d), want %q", text(e), e.Delivery, want)
		}
	}
	eventually(t, "all is acknowledged", func() bool {
		left, err := b.Waiting(t.Context(), inbox)
		return err == nil && left == 0
	})
	if len(events) != 0 {
		t.Errorf("%q came again", text(<-events))
	}
	if s := log.String(); !strings.Contains(s, "nats server lost") || strings.Contains(s, errReconnected.Error()) || strings.Contains(s, context.Canceled.Error()) {
		t.Errorf("the log tells of the lost connection more than once:\n%s", s)
	}
}

// TestAcknowledgementLost ends a handler while the server is down: its event is not handled again.
func TestAcknowledgementLost(t *testing.T) {
	topic := transport.Inbox("", "worker")
	for _, o := range []*transport.SubscribeOptions{nil, {Unordered: true}} {
		n := newNode(t, ServerOptions{})
		lost := make(chan struct{})
		b := n.dial(t, &Options{OnConn: func(up bool, _ error) {
			if !up {
				close(lost)
			}
		}})
		events, release := make(chan *transport.Event, 10), make(chan struct{})
		serveTopic(t, b, topic, o, func(e *transport.Event) error {
			events <- e
			<-release
			return nil
		})
		publish(t, b, topic, "c1", "x")
		receive(t, events)
		n.down()
		receive(t, lost)
		close(release)
		n.up(t, nil)
		eventually(t, "it is acknowledged", func() bool {
			left, err := b.Waiting(t.Context(), topic)
			return err == nil && left == 0
		})
		if len(events) > 0 {
			t.Errorf("the event was handled again (options %+v)", o)
		}
	}
}

// TestPublishWhileAway checks Publish while the server is down.
func TestPublishWhileAway(t *testing.T) {
	n := newNode(t, ServerOptions{})
	lost, back := make(chan struct{}), make(chan struct{})
	b := n.dial(t, &Options{OnConn: func(up bool, _ error) {
		if up {
			close(back)
		} else {
			close(lost)
		}
	}})
	closing := n.dial(t, nil)
	topic := transport.Inbox("", "worker")
	n.down()
	receive(t, lost)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := b.Publish(ctx, topic, message(topic, "c1", "x")); !errors.Is(err, transport.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Publish = %v, want ErrUnavailable and the context's error", err)
	}
	if err := b.Publish(t.Context(), transport.Live("", "c1"), message(transport.Live("", "c1"), "c1", "x")); !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("Publish(live) = %v, want ErrUnavailable", err)
	}
	if err := b.Healthy(t.Context()); !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("Healthy = %v, want ErrUnavailable", err)
	}
	if _, err := b.Subscribe(t.Context(), topic, nil); !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("Subscribe = %v, want ErrUnavailable", err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("all that took %v", took)
	}

	// Close ends a waiting call.
	result := make(chan error)
	go func() { result <- closing.Publish(context.Background(), topic, message(topic, "c1", "x")) }()
	if err := closing.Close(); err != nil {
		t.Error(err)
	}
	if err := receive(t, result); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Publish = %v beside Close, want ErrClosed", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	go func() { result <- b.Publish(ctx, topic, message(topic, "c1", "x")) }()
	cancel()
	if err := receive(t, result); !errors.Is(err, context.Canceled) {
		t.Errorf("Publish = %v, want context.Canceled", err)
	}

	// A call with enough time waits for the server.
	go func() { result <- b.Publish(t.Context(), topic, message(topic, "c1", "patient")) }()
	n.up(t, nil)
	if err := receive(t, result); err != nil {
		t.Errorf("Publish = %v after the server came back, want nil", err)
	}
	receive(t, back)
	got := make(chan *transport.Event, 10)
	serveTopic(t, b, topic, nil, func(e *transport.Event) error {
		got <- e
		return nil
	})
	if e := receive(t, got); text(e) != "patient" {
		t.Errorf("%q came, want what Publish said was stored", text(e))
	}
}

// TestAnswerLost checks that a publish does not wait for an answer on a lost connection.
func TestAnswerLost(t *testing.T) {
	n := newNode(t, ServerOptions{})
	b, silent := n.dial(t, nil), n.dial(t, nil)
	asked := make(chan struct{}, 10)
	if _, err := silent.nc.Subscribe("silence", func(*natsgo.Msg) { asked <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	if err := silent.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() { result <- b.nc.store(t.Context(), &natsgo.Msg{Subject: "silence"}, attemptTimeout) }()
	receive(t, asked)
	n.down()
	if err := receive(t, result); !errors.Is(err, natsgo.ErrDisconnected) {
		t.Errorf("storeOnce = %v, want ErrDisconnected", err)
	}
}

// TestConsumerDeleted deletes the consumer of a running subscription.
func TestConsumerDeleted(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	topic := transport.Inbox("", "worker")
	for _, o := range []*transport.SubscribeOptions{nil, {Unordered: true, Concurrency: 1}} {
		got := make(chan *transport.Event, 10)
		stop := serveTopic(t, b, topic, o, func(e *transport.Event) error {
			got <- e
			return nil
		})
		publish(t, b, topic, "c1", "before")
		receive(t, got)
		s := partitionID{topic, transport.Partition("", "c1")}
		if o != nil {
			s.partition = whole
		}
		if err := b.js.DeleteConsumer(t.Context(), inboxStream, s.consumer()); err != nil {
			t.Fatal(err)
		}
		publish(t, b, topic, "c1", "after")
		if e := receive(t, got); text(e) != "after" {
			t.Errorf("%q came, want after", text(e))
		}
		stop()
	}
}

// TestHeldIsBounded checks that a blocked conversation does not make its subscriber pull everything.
func TestHeldIsBounded(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	topic := transport.Inbox("", "worker")
	release := make(chan struct{})
	got := make(chan *transport.Event, 5000)
	serveTopic(t, b, topic, &transport.SubscribeOptions{Concurrency: 1}, func(e *transport.Event) error {
		got <- e
		<-release
		return nil
	})
	const all, limit = 4200, 16 * 256 / transport.Partitions
	for i := range all {
		publish(t, b, topic, "c1", fmt.Sprint(i))
	}
	eventually(t, "the subscriber is full and asks for no more", func() bool {
		info, err := b.consumer(t.Context(), partitionID{topic, transport.Partition("", "c1")})
		if err != nil || info == nil {
			t.Fatal(info, err)
		}
		return info.NumAckPending == limit && info.NumWaiting == 0
	})
	close(release)
	for i := range all {
		if e := receive(t, got); text(e) != fmt.Sprint(i) {
			t.Fatalf("%q came, want %d", text(e), i)
		}
	}
}

// TestBusyConversation makes thousands of events wait in one conversation: another conversation continues.
func TestBusyConversation(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	topic := transport.Inbox("", transport.Cortex)
	release, other := make(chan struct{}), make(chan struct{})
	serveTopic(t, b, topic, nil, func(e *transport.Event) error {
		if e.ContextID == "quiet" {
			close(other)
		} else {
			<-release
		}
		return nil
	})
	defer close(release)
	for i := range 9000 {
		publish(t, b, topic, "busy", fmt.Sprint(i))
	}
	publish(t, b, topic, "quiet", "hello")
	receive(t, other)
}

// serveTopic subscribes b to topic and serves it.
func serveTopic(t *testing.T, b *Bus, topic transport.Topic, o *transport.SubscribeOptions, h func(*transport.Event) error) (stop func()) {
	t.Helper()
	sub, err := b.Subscribe(t.Context(), topic, o)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, sub, h)
}
