package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// publishTimeout is how long Publish retries unless its ctx ends before: the server may be restarting.
	publishTimeout = 10 * time.Second
	// attemptTimeout bounds the wait for one answer: a killed server gives none, and another one may lead by now. Repeating a publish is harmless,
	// since the server knows the id.
	attemptTimeout = time.Second
	// retryPause is between two attempts when the server answers but its streams are not available yet.
	retryPause = 50 * time.Millisecond
)

// Publish implements transport.Transport. While the server is unavailable it retries for up to ten seconds before it returns ErrUnavailable; on
// live topics it does not retry.
func (b *Bus) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.isClosed() {
		return transport.ErrClosed
	}
	if err := e.Validate(t); err != nil {
		return err
	}
	if err := b.checkSender(e.From, e.Tenant); err != nil {
		return err
	}
	switch t.Kind {
	case transport.KindInbox:
		return b.publishInbox(ctx, t, e)
	case transport.KindCards:
		if told, ok := e.Payload.(*transport.AgentEvent); ok {
			return b.publishAgentEvent(e, told)
		}
		return b.publishCard(ctx, e)
	default:
		return b.publishLive(t, e)
	}
}

func (b *Bus) publishInbox(ctx context.Context, t transport.Topic, e *transport.Event) error {
	a := inboxAddress{tenant: t.Tenant, to: t.ID, context: e.ContextID, from: e.From}
	m, err := encode(inboxSubject(a), e, true)
	if err != nil {
		return err
	}
	if t.ID != transport.Cortex {
		err = b.roomAt(ctx, t)
	} else if err = b.mayWait(t, e); err == nil && isNewWork(t, e) {
		err = b.room(ctx, len(m.Data))
	}
	if err != nil {
		return err
	}
	m.Header[natsgo.MsgIdHdr] = []string{a.messageID(e.ID)}
	if !e.DeliverAt.IsZero() {
		if timer := timerSubject(a); time.Now().Before(e.DeliverAt) {
			// Formatted here: the client truncates the time to seconds, so that a timer would fire up to a second early.
			m.Header[jetstream.ScheduleHeader] = []string{"@at " + e.DeliverAt.UTC().Format(time.RFC3339Nano)}
			m.Header[jetstream.ScheduleTargetHeader] = []string{m.Subject}
			m.Subject = timer
		} else {
			// The event replaces the waiting timer.
			m.Header[headerScheduler] = []string{timer}
			m.Header[headerScheduleNext] = []string{"purge"}
		}
	}
	return b.store(ctx, m)
}

// messageID returns the id by which the server recognises an event that it has stored. It includes the inbox, since the server compares ids per
// stream.
func (a inboxAddress) messageID(id string) string {
	return transport.Escape(a.tenant) + "." + transport.Escape(a.to) + "." + transport.Escape(a.context) + "." + transport.Escape(a.from) + "." + id
}

// With these headers the server stores the message and removes the schedule on the subject in headerScheduler in one step.
const (
	headerScheduler    = "Nats-Scheduler"
	headerScheduleNext = "Nats-Schedule-Next"
)

// publishCard writes a card to its key. The message has no id, since a refresh may have the same event id as the card before.
func (b *Bus) publishCard(ctx context.Context, e *transport.Event) error {
	c := e.Payload.(*transport.Card) // Validate has checked the type
	m, err := encode(cardSubject(e.Tenant, c.AgentID, c.Instance), e, false)
	if err != nil {
		return err
	}
	lifetime(m, c)
	return b.store(ctx, m)
}

// lifetime sets the TTL with which the server keeps a card or its marker.
func lifetime(m *natsgo.Msg, c *transport.Card) {
	ttl := c.TTL
	if c.Gone != "" {
		m.Header[headerKVOperation] = []string{"DEL"}
		ttl = markerTTL
	}
	if ttl > 0 {
		// The server counts in whole seconds.
		m.Header[jetstream.MsgTTLHeader] = []string{strconv.FormatInt(int64((ttl+time.Second-1)/time.Second), 10) + "s"}
	}
}

// publishAgentEvent publishes Cortex's event about an agent to those who listen now.
func (b *Bus) publishAgentEvent(e *transport.Event, told *transport.AgentEvent) error {
	m, err := encode(agentEventSubject(e.Tenant, told.AgentID), e, false)
	if err != nil {
		return err
	}
	return translate(b.nc.PublishMsg(m))
}

// headerKVOperation marks a key as deleted for key-value clients.
const headerKVOperation = "KV-Operation"

func (b *Bus) publishLive(t transport.Topic, e *transport.Event) error {
	m, err := encode(liveSubject(t, e.From), e, false)
	if err != nil {
		return err
	}
	return translate(b.nc.PublishMsg(m))
}

// store publishes m to its stream and waits for the server's acknowledgement.
func (b *Bus) store(ctx context.Context, m *natsgo.Msg) error {
	end := time.Now().Add(publishTimeout)
	for wait := attemptTimeout; ; wait = min(2*wait, max(time.Until(end), attemptTimeout)) { // a busy server is not given the same large message again and again
		err := b.nc.store(ctx, m, wait)
		if err == nil || !isUnavailable(err) {
			return translate(err)
		}
		err = b.explainAbsence(err)
		if errors.Is(err, transport.ErrForbidden) {
			return err
		}
		if b.isClosed() {
			return fmt.Errorf("%w: %w", transport.ErrClosed, err)
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return ctx.Err()
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", translate(err), ctx.Err())
		}
		if time.Now().After(end) {
			return translate(err)
		}
		wait, cancel := context.WithDeadline(ctx, end)
		if b.nc.IsConnected() {
			b.pause(wait, retryPause)
		} else {
			_, _ = b.online(wait) // the next attempt returns the error
		}
		cancel()
	}
}

// pause waits for d, or until ctx ends or the bus is closed.
func (b *Bus) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-b.done:
	}
}

// keep publishes the sentinel, which keeps the work queue from becoming empty: an empty one replaces its file at every acknowledgement. It must be
// near the end of the stream, so it is published again while there is traffic; each sentinel replaces the previous one.
func (b *Bus) keep(ctx context.Context) error {
	return b.store(ctx, sentinel())
}

func sentinel() *natsgo.Msg {
	return &natsgo.Msg{Subject: sentinelSubject, Header: natsgo.Header{natsgo.MsgRollup: {"sub"}}}
}
