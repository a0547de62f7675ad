package nats

import (
	"context"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestOverdueCard stores cards whose expiry the server has lost, as after a crash: watchers see them as gone, and later subscribers do not get
// them.
func TestOverdueCard(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	announce := func(id string) {
		e := &transport.Event{
			ID: id, Time: time.Now(), From: id,
			Payload: &transport.Card{AgentID: id, Instance: "1", Card: &a2a.AgentCard{Name: id}, TTL: time.Second},
		}
		m, err := encode(cardSubject("", id, "1"), e, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.store(t.Context(), m); err != nil { // without the header that makes the server remove it
			t.Fatal(err)
		}
	}
	announce("lost")
	events := make(chan *transport.Card, 10)
	watch := func() {
		serveTopic(t, b, transport.Cards(""), nil, func(e *transport.Event) error {
			if c, ok := e.Payload.(*transport.Card); ok {
				events <- c
			}
			return nil
		})
	}
	watch()
	if c := receive(t, events); c.AgentID != "lost" || c.Gone != "" {
		t.Fatalf("first %+v, want the card", c)
	}
	if c := receive(t, events); c.AgentID != "lost" || c.Gone != transport.GoneExpired {
		t.Fatalf("then %+v, want that it expired", c)
	}
	eventually(t, "the card is removed", func() bool {
		s, err := b.js.Stream(t.Context(), agentsStream)
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.GetLastMsgForSubject(t.Context(), cardSubject("", "lost", "1"))
		return err != nil || m.Header.Get(headerKVOperation) == "PURGE"
	})
	late := make(chan transport.Payload, 10)
	serveTopic(t, b, transport.Cards(""), nil, func(e *transport.Event) error {
		late <- e.Payload
		return nil
	})
	p := receive(t, late)
	if _, ok := p.(*transport.Synced); !ok {
		t.Errorf("who comes later hears %+v first, want that there is no card: it did not say goodbye", p)
	}
	announce("fresh")
	if c := receive(t, events); c.AgentID != "fresh" {
		t.Errorf("then %+v, want only the other card", c)
	}
}

// TestGoodbyeAfterExpiry has an agent say goodbye when its card has expired: whoever waits for it to come back hears that it has left.
func TestGoodbyeAfterExpiry(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	put := func(c transport.Card) {
		t.Helper()
		c.AgentID, c.Instance = "late", "1"
		if c.Gone == "" {
			c.Card = &a2a.AgentCard{Name: "late"}
		}
		if err := b.Publish(t.Context(), transport.Cards(""), &transport.Event{ID: "c", From: "late", Time: time.Now(), Payload: &c}); err != nil {
			t.Fatal(err)
		}
	}
	events := make(chan *transport.Card, 10)
	serveTopic(t, b, transport.Cards(""), nil, func(e *transport.Event) error {
		if c, ok := e.Payload.(*transport.Card); ok {
			events <- c
		}
		return nil
	})
	put(transport.Card{TTL: time.Second})
	for _, want := range []transport.GoneReason{"", transport.GoneExpired} {
		if c := receive(t, events); c.Gone != want {
			t.Fatalf("%+v, want the reason %q", c, want)
		}
	}
	put(transport.Card{Gone: transport.GoneLeft})
	if c := receive(t, events); c.Gone != transport.GoneLeft {
		t.Errorf("%+v, want the goodbye", c)
	}
}

// TestServerClockIsSet has the clock of the server go back or forward by an hour while cards are read, or this one's by as much in the other direction:
// agents that announce themselves stay.
func TestServerClockIsSet(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			b := newNode(t, ServerOptions{}).dial(t, nil)
			c := &cards{bus: b, known: map[string]term{}, news: make(chan struct{}, 1)}
			w, err := c.watch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.unwatch(w)
			var told []transport.GoneReason
			h := func(_ context.Context, e *transport.Event) error {
				if card, ok := e.Payload.(*transport.Card); ok {
					told = append(told, card.Gone)
				}
				return nil
			}
			c.sync(t.Context(), map[string]bool{}, h)
			for n, at := range []time.Duration{0, by, by + 10*time.Second} {
				m, err := encode(cardSubject("", "weather", "1"), &transport.Event{
					ID: "c", Time: time.Now(), From: "weather",
					Payload: &transport.Card{AgentID: "weather", Instance: "1", Card: &a2a.AgentCard{Name: "weather"}, TTL: time.Minute},
				}, false)
				if err != nil {
					t.Fatal(err)
				}
				meta := &natsgo.MsgMetadata{Timestamp: time.Now().Add(at)}
				meta.Sequence.Stream = w.until + uint64(n) + 1
				c.tell(t.Context(), m, meta, nil, h)
				c.endOverdue(t.Context(), h)
			}
			if diff := cmp.Diff([]transport.GoneReason{"", "", ""}, told); diff != "" {
				t.Errorf("what is told of the agent differs (-want +got):\n%s", diff)
			}
		})
	}
}
