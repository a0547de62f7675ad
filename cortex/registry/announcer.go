package registry

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	maxUnsaid   = 4096            // events in the queue
	tellTimeout = 2 * time.Second // for publishing one event
)

// announcer publishes the registry's events on the cards topic without ever delaying the registry.
type announcer struct{ queue chan *transport.Event }

// say queues e, or drops it when the queue is full.
func (a *announcer) say(e *transport.Event) {
	select {
	case a.queue <- e:
	default:
	}
}

// speak publishes queued events until ctx ends.
func (r *Registry) speak(ctx context.Context, tr transport.Transport) error {
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-r.announcer.queue:
			trying, cancel := context.WithTimeout(ctx, tellTimeout)
			err := tr.Publish(trying, transport.Cards(r.cfg.Tenant), e)
			cancel()
			if err != nil && ctx.Err() == nil && !failing {
				r.cfg.Logger.Warn("event of an agent is not published", "err", err)
			}
			failing = err != nil
		}
	}
}

// announcement returns e as an event for the cards topic.
func (r *Registry) announcement(e Event) *transport.Event {
	said := e.Wire()
	said.Reason = shorten.Marked(said.Reason, transport.MaxReason-len("…"), "…")
	return r.event(e.Time, transport.Cortex, said)
}

func (r *Registry) event(now time.Time, from string, p transport.Payload) *transport.Event {
	return &transport.Event{ID: uuid.NewString(), Time: now, From: from, Tenant: r.cfg.Tenant, Payload: p}
}
