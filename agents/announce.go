package agents

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/cenkalti/backoff/v5"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Polling of the inbox with Options.Once.
const (
	onceInterval = 100 * time.Millisecond
	onceErrors   = 50 // in a row, after which it fails
	// onceQuiet is how long the inbox must stay empty. Cortex queues the tasks of a busy agent, and sends more whenever it sees room,
	// for which this leaves ample time.
	onceQuiet = 2 * time.Second
)

func (a *agent) ttl() time.Duration { return max(3*a.o.Heartbeat, time.Second) }

// announce announces the card at every heartbeat, and at once after each change and when the wall clock was set forward, until ctx ends; then it returns nil.
func (a *agent) announce(ctx context.Context) error {
	draining := false
	for first := true; ; first = false {
		e := a.cardEvent(&transport.Card{
			Card: a.shown(), Draining: draining, TTL: a.ttl(), Heartbeat: min(a.o.Heartbeat, transport.MaxHeartbeat),
		})
		if err := a.publish(ctx, transport.Cards(a.o.Tenant), e); err != nil {
			return ended(ctx, fmt.Errorf("announce %s: %w", a.id, err))
		}
		if first {
			a.log.Info("agent joined", "instance", a.o.Instance)
		}
		select {
		case <-ctx.Done():
			return nil
		case c := <-a.o.Changes:
			draining = c.Draining
			if err := a.change(c.Card); err != nil {
				a.log.Warn("card not changed", "err", err)
			}
		case <-a.wall.moved:
		case <-time.After(a.o.Heartbeat):
		}
	}
}

// change takes another card of the agent; nil is none.
func (a *agent) change(card *a2a.AgentCard) error {
	if card == nil {
		return nil
	}
	card = complete(card)
	if err := transport.ValidateCard(card); err != nil {
		return err
	}
	if id, err := transport.AgentID(card.Name); err != nil || id != a.id {
		return fmt.Errorf("the card is that of %s", shorten.Line(card.Name, 64))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.card = card
	return nil
}

// shown returns the card as it is announced.
func (a *agent) shown() *a2a.AgentCard {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.card
}

// errNoAnswer replaces context.DeadlineExceeded in messages.
var errNoAnswer = fmt.Errorf("no answer within %v", announceTimeout)

// publishCard announces a change while the agent leaves, within announceTimeout.
func (a *agent) publishCard(ctx context.Context, c *transport.Card) {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	err := a.publish(ctx, transport.Cards(a.o.Tenant), a.cardEvent(c))
	if errors.Is(err, context.DeadlineExceeded) {
		err = errNoAnswer
	}
	switch {
	case err == nil:
	case c.Gone == "": // it will be tried to tell that the agent has left
		a.log.Debug("cortex could not be told that this agent takes no more work", "err", err)
	default:
		a.log.Warn("cortex could not be told that this agent leaves, and notices it by itself within a minute or two", "err", err)
	}
}

func (a *agent) cardEvent(c *transport.Card) *transport.Event {
	c.AgentID, c.Instance = a.id, a.o.Instance
	return &transport.Event{ID: a.nextID(), Time: time.Now(), From: a.id, Tenant: a.o.Tenant, Payload: c}
}

// nextID returns an id that no other event of any instance has.
func (a *agent) nextID() string { return a.o.Instance + "." + strconv.FormatUint(a.seq.Add(1), 10) }

// untilEmpty returns nil when the inbox has been empty for quiet. Tasks in progress count as waiting. It checks at intervals of every.
func (a *agent) untilEmpty(ctx context.Context, every, quiet time.Duration) error {
	depth, ok := a.tr.(transport.InboxDepth)
	if !ok {
		return fmt.Errorf("run %s once: the transport %T cannot tell what waits in an inbox", a.id, a.tr)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	busy := time.Now() // when something was last seen waiting
	for failed := 0; ; {
		n, err := depth.Waiting(ctx, transport.Inbox(a.o.Tenant, a.id))
		switch {
		case err == nil && n == 0 && (time.Since(busy) >= quiet || a.host != nil && a.host.waiting.Load() > 0):
			return nil
		case err == nil && n == 0:
			failed = 0
		case err == nil:
			failed, busy = 0, time.Now()
		case ctx.Err() != nil:
			return nil
		default:
			busy = time.Now()
			if failed++; failed >= onceErrors || errors.Is(err, transport.ErrClosed) {
				return fmt.Errorf("look into the inbox of %s: %w", a.id, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// publish publishes e, and retries until it succeeds, ctx ends, or the error is permanent.
func (a *agent) publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	return a.retry(ctx, "publish", func() error { return a.tr.Publish(ctx, t, e) })
}

func (a *agent) retry(ctx context.Context, what string, f func() error) error {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 50*time.Millisecond, 5*time.Second
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := f()
		if errors.Is(err, transport.ErrInvalid) || errors.Is(err, transport.ErrForbidden) || errors.Is(err, transport.ErrClosed) ||
			errors.Is(err, transport.ErrIncompatible) || errors.Is(err, transport.ErrFilesFull) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(b), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, d time.Duration) {
		a.log.Warn(what+" is tried again", "in", d, "err", err)
	}))
	return err
}
