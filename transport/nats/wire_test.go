package nats

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestStrangers publishes messages to an inbox as a program in another language might: readable ones are delivered, others become dead letters and
// block nothing.
func TestStrangers(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	topic := transport.Inbox("", "worker")
	const subject = "cortex.v1.inbox._.worker.0.c1.mallory"
	const traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	good := natsgo.Header{headerID: {"id"}, headerKind: {"cancel"}, headerVersion: {"1"}}
	with := func(key, value string) natsgo.Header {
		h := natsgo.Header{}
		maps.Copy(h, good)
		h.Set(key, value)
		return h
	}
	for _, c := range []struct {
		name    string
		subject string
		header  natsgo.Header
		body    string
		payload transport.Payload // nil: a dead letter
		reason  string
		trace   string
	}{
		{name: "good", subject: subject, header: good, body: "{}", payload: &transport.Cancel{}},
		{name: "another sender in a header", subject: subject, header: with("Cortex-From", "cortex"), body: "{}", payload: &transport.Cancel{}},
		{name: "another receiver in a header", subject: subject, header: with(headerTo, "x"), body: "{}", payload: &transport.Cancel{}},
		{name: "another case", subject: subject, header: with("Traceparent", traced), body: "{}", payload: &transport.Cancel{}, trace: traced},
		{name: "odd traceparent", subject: subject, header: with(headerTrace, "a b"), body: "{}", payload: &transport.Cancel{}},
		{name: "unknown kind", subject: subject, header: with(headerKind, "hologram"), body: "x", payload: &transport.Opaque{Kind: "hologram", Version: "1", Data: []byte("x")}},
		{name: "no headers", subject: subject, body: "{}", reason: "Cortex-Id is empty"},
		{name: "bad id", subject: subject, header: with(headerID, "a b"), body: "{}", reason: "Cortex-Id"},
		{name: "bad task", subject: subject, header: with(headerTask, strings.Repeat("x", 300)), body: "{}", reason: "Cortex-Task"},
		{name: "bad time", subject: subject, header: with(headerTime, "yesterday"), body: "{}", reason: "Cortex-Time"},
		{name: "what a server says of a pull", subject: subject, header: with("Status", "404 No Messages"), reason: "decode cancel"},
		{name: "nobody is there", subject: subject, header: with("Status", "503"), reason: "decode cancel"},
		{name: "no body", subject: subject, header: good, reason: "decode cancel"},
		{name: "broken body", subject: subject, header: good, body: "{", reason: "decode cancel"},
		{name: "empty message", subject: subject, header: with(headerKind, "message"), body: `{"parts":[]}`, reason: "message is empty"},
		{name: "large body", subject: subject, header: good, body: strings.Repeat("x", transport.MaxPayload+1), reason: "was not kept"},
		{name: "too few tokens", subject: "cortex.v1.inbox._.worker.0.c1", header: good, body: "{}", reason: "is not of the form"},
		{name: "an agent's topic as conversation", subject: "cortex.v1.inbox._.worker.0.agent=3Ax.u", header: good, body: "{}", reason: "kept for agents"},
		{name: "no id in the subject", subject: "cortex.v1.inbox._.worker.0.c1._", header: good, body: "{}", reason: "empty id"},
		{name: "not a token", subject: "cortex.v1.inbox._.worker.0.c1.=aa", header: good, body: "{}", reason: "is not an escaped id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sub, err := b.Subscribe(t.Context(), topic, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := make(chan *transport.Event, 10)
			stop := serve(t, sub, func(e *transport.Event) error {
				got <- e
				return nil
			})
			before := len(dead(t, b))
			if _, err := b.js.PublishMsg(t.Context(), &natsgo.Msg{Subject: c.subject, Header: c.header, Data: []byte(c.body)}); err != nil {
				t.Fatal(err)
			}
			if c.payload != nil {
				e := receive(t, got)
				want := &transport.Event{ID: "id", From: "mallory", To: "worker", ContextID: "c1", Traceparent: c.trace, Payload: c.payload, Delivery: 1}
				if diff := cmp.Diff(want, e, cmpopts.IgnoreFields(transport.Event{}, "Epoch", "Stored"), cmpopts.IgnoreUnexported(transport.Event{})); diff != "" {
					t.Errorf("event (-want +got):\n%s", diff)
				}
			}
			publish(t, b, topic, "c1", "next")
			if e := receive(t, got); text(e) != "next" {
				t.Errorf("next event is %+v", e)
			}
			if c.payload == nil { // perhaps of another conversation
				eventually(t, "a dead letter", func() bool { return len(dead(t, b)) > before })
			}
			stop()
			letters := dead(t, b)[before:]
			switch {
			case c.payload != nil && len(letters) > 0:
				t.Errorf("dead letter: %s", letters[0].Reason)
			case c.payload == nil && len(letters) != 1:
				t.Errorf("%d dead letters, want 1", len(letters))
			case c.payload == nil:
				l := letters[0]
				if !strings.Contains(l.Reason, c.reason) || l.Topic != topic || l.Deliveries != 1 {
					t.Errorf("dead letter %+v, want reason with %q", l, c.reason)
				}
				if o, ok := l.Event.Payload.(*transport.Opaque); ok && len(c.body) <= transport.MaxPayload && string(o.Data) != c.body {
					t.Errorf("dead letter has %q, want %q", o.Data, c.body)
				}
			}
		})
	}
}

// TestStrangeCards checks that a sender can announce only the agent of the key that it may write.
func TestStrangeCards(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	cards := transport.Cards("")
	event := func(agent string) *transport.Event {
		return &transport.Event{ID: "id", From: "someone", Payload: &transport.Card{AgentID: agent, Instance: "1", Card: &a2a.AgentCard{Name: agent}}}
	}
	for _, subject := range []string{cardSubject("", "bob", "1"), cardSubject("", "eve", "2"), cardPrefix + "_.eve", cardPrefix + "_.eve.1.x"} {
		m, err := encode(subject, event("eve"), false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	// A card that looks like a server's status of a pull does not end a reader's flow.
	for i, status := range []string{"404 No Messages", "503", "100"} {
		m := &natsgo.Msg{Subject: cardSubject("", "sly", strconv.Itoa(i)), Header: natsgo.Header{"Status": {status}}}
		if _, err := b.js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Publish(t.Context(), cards, event("bob2")); err != nil {
		t.Fatal(err)
	}
	sub, err := b.Subscribe(t.Context(), cards, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *transport.Event, 10)
	serve(t, sub, func(e *transport.Event) error {
		got <- e
		return nil
	})
	if e := receive(t, got); e.From != "bob2" {
		t.Errorf("card from %q came, want bob2", e.From)
	}
	if e := receive(t, got); e.From != transport.Cortex {
		t.Errorf("%+v came, want Synced", e)
	}
}

// TestCardTTL checks that a card never expires early: the server counts in whole seconds.
func TestCardTTL(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	s, err := b.js.Stream(t.Context(), agentsStream)
	if err != nil {
		t.Fatal(err)
	}
	for ttl, want := range map[time.Duration]string{0: "", time.Second: "1s", 1001 * time.Millisecond: "2s", 90 * time.Second: "90s"} {
		e := &transport.Event{ID: "id", From: "bob", Payload: &transport.Card{AgentID: "bob", Instance: "1", TTL: ttl, Card: &a2a.AgentCard{Name: "bob"}}}
		if err := b.Publish(t.Context(), transport.Cards(""), e); err != nil {
			t.Fatal(err)
		}
		m, err := s.GetLastMsgForSubject(t.Context(), cardSubject("", "bob", "1"))
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Header.Get("Nats-TTL"); got != want {
			t.Errorf("ttl %v is %q at the server, want %q", ttl, got, want)
		}
	}
}

// TestTimerReplacedByThePast checks that an overdue event replaces the waiting one.
func TestTimerReplacedByThePast(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	topic := transport.Inbox("", "worker")
	waiting := func() map[string]uint64 {
		s, err := b.js.Stream(t.Context(), inboxStream)
		if err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(t.Context(), jetstream.WithSubjectFilter("cortex.v1.timer._.worker.>"))
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Subjects
	}
	for _, at := range []time.Time{time.Now().Add(time.Hour), time.Now().Add(-time.Hour)} {
		e := message(topic, "c1", "x")
		e.DeliverAt = at
		if err := b.Publish(t.Context(), topic, e); err != nil {
			t.Fatal(err)
		}
		if n := len(waiting()); n != 1 && at.After(time.Now()) || n != 0 && at.Before(time.Now()) {
			t.Errorf("timers after the one for %v: %v", at, waiting())
		}
	}
	if n, err := b.Waiting(t.Context(), topic); n != 1 || err != nil {
		t.Errorf("Waiting = %d, %v, want 1", n, err)
	}
}

// TestSmallServer checks a server with a lower message limit than Cortex's: a clear error, and a way out for unreadable events.
func TestSmallServer(t *testing.T) {
	const limit = 100 << 10
	ns, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(), MaxPayload: limit})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	srv := &Server{ns: ns}
	t.Cleanup(srv.Shutdown)
	b, err := Dial(t.Context(), &Options{Server: srv})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	topic := transport.Inbox("", "worker")
	err = b.Publish(t.Context(), topic, message(topic, "c1", strings.Repeat("x", limit)))
	if !errors.Is(err, transport.ErrTooLarge) || !errors.Is(err, transport.ErrInvalid) || !errors.Is(err, natsgo.ErrMaxPayload) {
		t.Errorf("Publish = %v, want ErrTooLarge, ErrInvalid and the cause", err)
	}
	serveTopic(t, b, topic, nil, func(*transport.Event) error {
		return transport.Permanent(errors.New(strings.Repeat("\x01", maxReason)))
	})
	publish(t, b, topic, "c1", strings.Repeat("x", limit-1000))
	eventually(t, "a dead letter", func() bool { return len(dead(t, b)) == 1 })
	if l := dead(t, b)[0]; l.Event.From != "user" || len(l.Reason) != maxReason {
		t.Errorf("dead letter from %q, reason of %d bytes", l.Event.From, len(l.Reason))
	}
}

// Helpers of this package's tests.

// patience is how long a test waits before it fails. A cluster needs up to nine seconds for an election, and as many again when
// nobody wins it.
const patience = 2 * time.Minute

// serve serves sub until the test ends, or until the returned function is called, which waits.
func serve(t *testing.T, sub transport.Subscription, h func(*transport.Event) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = sub.Serve(ctx, func(_ context.Context, e *transport.Event) error { return h(e) })
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// publish publishes an event with the text words.
func publish(t *testing.T, b *Bus, topic transport.Topic, contextID, words string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.Publish(ctx, topic, message(topic, contextID, words)); err != nil {
		t.Fatal(err)
	}
}

func message(topic transport.Topic, contextID, words string) *transport.Event {
	id := uuid.NewString()
	return &transport.Event{
		ID: id, From: "user", Tenant: topic.Tenant, ContextID: contextID,
		Payload: &a2a.Message{ID: id, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(words)}},
	}
}

func text(e *transport.Event) string {
	m, ok := e.Payload.(*a2a.Message)
	if !ok {
		return ""
	}
	return transport.Text(m.Parts)
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("nothing came in %v", patience)
		panic("unreachable")
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: not so after %v", what, patience)
		}
	}
}

// erase erases a conversation. On a busy machine that may need more than one attempt.
func erase(t *testing.T, b *Bus, contextID string) {
	t.Helper()
	eventually(t, contextID+" is erased", func() bool {
		err := b.Erase(t.Context(), "", contextID)
		if err != nil && !errors.Is(err, transport.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
}

func dead(t *testing.T, b *Bus) []*transport.DeadLetter {
	t.Helper()
	var all []*transport.DeadLetter
	for l, err := range b.DeadLetters(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// TestStrangeZone decodes a time in a zone that can be parsed but not formatted: the result can be stored.
func TestStrangeZone(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	topic := transport.Inbox("", "worker")
	e := message(topic, "c1", "hello")
	m, err := encode(inboxSubject(inboxAddress{to: "worker", context: "c1", from: e.From}), e, true)
	if err != nil {
		t.Fatal(err)
	}
	m.Header.Set(headerTime, "2026-01-02T03:04:05+24:00")
	if err := b.store(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	got := make(chan *transport.Event, 1)
	serveTopic(t, b, topic, nil, func(e *transport.Event) error {
		got <- e
		return nil
	})
	if _, err := json.Marshal(receive(t, got)); err != nil {
		t.Error(err)
	}
}
