package nats

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

// tellAgent publishes an event about an agent in its wire format.
func tellAgent(t *testing.T, b *Bus, subject, kind, body string) {
	t.Helper()
	err := b.nc.PublishMsg(&natsgo.Msg{Subject: subject, Data: []byte(body), Header: natsgo.Header{
		headerID: {"e1"}, headerKind: {kind}, headerVersion: {"1"},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAgentEventIsNoCard checks that no message on the subjects beside the bucket is taken for a card or for an event about another agent, and that its
// sender is Cortex, whatever it claims.
func TestAgentEventIsNoCard(t *testing.T) {
	n := newNode(t, ServerOptions{})
	var mu sync.Mutex
	var log bytes.Buffer
	b := n.dial(t, &Options{Logger: slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(p)
	}), nil))})
	events := make(chan *transport.Event, 10)
	serveTopic(t, b, transport.Cards("acme"), nil, func(e *transport.Event) error {
		events <- e
		return nil
	})
	if _, ok := receive(t, events).Payload.(*transport.Synced); !ok {
		t.Fatal("want Synced first")
	}
	subject := agentEventSubject("acme", "a b*")
	tellAgent(t, b, subject, "card", `{"agentId":"a b*","instance":"1","card":{"name":"a"}}`)
	tellAgent(t, b, agentEventSubject("acme", "a"), "agent-event", `{"event":"deregistered","agentId":"b"}`)
	tellAgent(t, b, agentEventSubject("acme", "a"), "agent-event", `{"event":"deregistered"}`)
	tellAgent(t, b, agentEventSubject("acme", "a")+".1", "agent-event", `{"event":"deregistered","agentId":"a"}`)
	tellAgent(t, b, agentEventSubject("other", "a"), "agent-event", `{"event":"deregistered","agentId":"a"}`)
	tellAgent(t, b, agentEventSubject("acme", "a"), "agent-event", `{"event":"registered","agentId":"a","from":"a"}`)
	e := receive(t, events)
	if p, ok := e.Payload.(*transport.AgentEvent); !ok || p.AgentID != "a" || p.Kind != "registered" || e.From != transport.Cortex || e.Tenant != "acme" {
		t.Errorf("%+v came, want only what is told of a", e)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Count(log.String(), "cannot be read"); got != 3 {
		t.Errorf("%d messages were reported, want 3:\n%s", got, &log)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestSlowReaderOfTold checks that events that nobody handles are lost rather than accumulated.
func TestSlowReaderOfTold(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	l, err := b.subscribeAgentEvents("")
	if err != nil {
		t.Fatal(err)
	}
	defer l.end()
	const sent = 2 * maxPendingAgentEvents
	for i := range sent {
		tellAgent(t, b, agentEventSubject("", "a"), "agent-event", fmt.Sprintf(`{"event":"e%d","agentId":"a"}`, i))
	}
	eventually(t, "all are delivered", func() bool {
		n, err := l.sub.Delivered()
		if err != nil {
			t.Fatal(err)
		}
		return n == sent
	})
	if got := len(l.msgs); got > maxPendingAgentEvents {
		t.Errorf("%d events wait, want at most %d", got, maxPendingAgentEvents)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var first *transport.Event
	l.run(ctx, func(e *transport.Event) {
		if first == nil { // one more may come when it ends
			first = e
		}
		cancel()
	})
	if p, ok := first.Payload.(*transport.AgentEvent); !ok || p.Kind != "e0" {
		t.Errorf("first %+v came, want the oldest", first)
	}
}
