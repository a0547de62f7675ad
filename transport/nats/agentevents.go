package nats

import (
	"context"
	"errors"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

// maxPendingAgentEvents bounds the events about agents that wait for a slow handler; further ones are lost.
const maxPendingAgentEvents = 1024

// agentEvents is a subscription to Cortex's events about a tenant's agents. They are not in the bucket, and none of them is a card.
type agentEvents struct {
	bus   *Bus
	topic transport.Topic
	sub   *natsgo.Subscription
	msgs  chan *natsgo.Msg
}

func (b *Bus) subscribeAgentEvents(tenant string) (*agentEvents, error) {
	l := &agentEvents{bus: b, topic: transport.Cards(tenant), msgs: make(chan *natsgo.Msg, maxPendingAgentEvents)}
	var err error
	l.sub, err = b.nc.Subscribe(agentEventFilter(tenant), func(m *natsgo.Msg) {
		select {
		case l.msgs <- m:
		default:
		}
	})
	return l, err
}

// end removes the subscription.
func (l *agentEvents) end() { _ = l.sub.Unsubscribe() }

// run passes events to handle until ctx ends.
func (l *agentEvents) run(ctx context.Context, handle func(*transport.Event)) {
	defer l.end()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-l.msgs:
			e, err := decodeAgentEvent(m, l.topic)
			if err != nil {
				l.bus.log.Warn("event of an agent cannot be read", "subject", oneLine(m.Subject, 200), "err", err)
				continue
			}
			handle(e)
		}
	}
}

// decodeAgentEvent decodes an event about an agent. Its sender is Cortex: the server's permissions reserve the subject for it.
func decodeAgentEvent(m *natsgo.Msg, t transport.Topic) (*transport.Event, error) {
	agent, err := parseAgentEventSubject(m.Subject)
	if err != nil {
		return nil, err
	}
	e, err := decodeHeader(m)
	if err != nil {
		return nil, err
	}
	e.Tenant, e.From = t.Tenant, transport.Cortex
	if e.Payload, err = decodePayload(m); err != nil {
		return nil, err
	}
	if told, ok := e.Payload.(*transport.AgentEvent); !ok || told.AgentID != agent {
		return nil, errors.New("it is no event of this agent")
	}
	return e, e.Validate(t)
}
