package agents

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxBidding bounds the tenders that an agent answers at a time; it bids for no more.
const maxBidding = 64

// withPattern returns a copy of card that says that the agent takes part in a pattern.
func withPattern(card *a2a.AgentCard, pattern string) *a2a.AgentCard {
	spec := *agentcard.SpecOf(card)
	if slices.Contains(spec.Patterns, pattern) {
		return card
	}
	spec.Patterns = append(slices.Clip(spec.Patterns), pattern)
	return agentcard.Attach(card, &spec)
}

// tender answers a tender in the background. The clocks of Cortex and of this machine may differ: the wait is as long as Cortex says that it is.
func (a *agent) tender(e *transport.Event, t *transport.Tender) {
	wait := min(t.Until.Sub(e.Time), time.Minute)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bidding >= maxBidding || wait <= 0 || a.take.Err() != nil {
		return
	}
	a.bidding++
	a.answering.Go(func() {
		ctx, cancel := context.WithTimeout(a.take, wait)
		defer cancel()
		defer func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.bidding--
		}()
		b, err := a.bid(ctx, t)
		switch {
		case err != nil:
			a.log.Warn("no bid", "context_id", e.ContextID, "err", err)
			return
		case b == nil:
			b = &transport.Bid{Declined: true}
		}
		its := *b
		its.Tender = t.ID
		err = a.tr.Publish(ctx, transport.Control(a.o.Tenant, transport.Cortex), &transport.Event{
			ID: a.nextID(), Time: time.Now(), From: a.id, Tenant: a.o.Tenant, ContextID: e.ContextID,
			Traceparent: e.Traceparent, Tracestate: e.Tracestate, Payload: &its,
		})
		if err != nil {
			a.log.Warn("bid not sent", "context_id", e.ContextID, "err", err)
		}
	})
}

// bid returns what the agent bids: what Options.Bid says, or else the confidence of its card, or nothing while all its room is taken.
func (a *agent) bid(ctx context.Context, t *transport.Tender) (b *transport.Bid, err error) {
	defer func() {
		if p := recover(); p != nil {
			a.log.Error("bidding panicked", "panic", p, "stack", string(debug.Stack()))
			b, err = nil, errors.New("the agent crashed while it made a bid")
		}
	}()
	if a.o.Bid != nil {
		return a.o.Bid(ctx, t)
	}
	a.mu.Lock()
	busy, card := len(a.running) >= a.o.Concurrency, a.card
	a.mu.Unlock()
	spec := agentcard.SpecOf(card)
	if busy || !slices.Contains(spec.Patterns, agentcard.MarketBidding) {
		return nil, nil
	}
	b = &transport.Bid{Confidence: 0.5}
	if c := spec.Abilities[t.Skill].Confidence; c != nil {
		b.Confidence = *c
	}
	return b, nil
}
