package registry

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	maxUnsaid   = 4096            // events in the queue
	tellTimeout = 2 * time.Second // for publishing one event
	tellLost    = time.Minute     // between two warnings that events are lost
)

// announcer publishes the registry's events on the cards topic without ever delaying the registry.
type announcer struct {
	queue chan *transport.Event
	lost  atomic.Int64 // events that were dropped, and not told of
}

// say queues e, or drops it when the queue is full.
func (a *announcer) say(e *transport.Event) {
	select {
	case a.queue <- e:
	default:
		a.lost.Add(1)
	}
}

// speak publishes queued events until ctx ends.
func (r *Registry) speak(ctx context.Context, tr transport.Transport) error {
	failing := false
	tell := rate.Sometimes{First: 1, Interval: tellLost}
	again := time.NewTicker(tellLost)
	defer again.Stop()
	for {
		if r.announcer.lost.Load() > 0 {
			tell.Do(func() {
				r.cfg.Logger.Warn("events of agents are not published: there are too many at a time", "events", r.announcer.lost.Swap(0))
			})
		}
		select {
		case <-again.C: // for what was lost since
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
