package nats

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// maxSearched bounds the events of one sender in one conversation that a search reads.
const maxSearched = 10_000

var (
	_ transport.Withdrawer  = (*Bus)(nil)
	_ transport.InboxSearch = (*Bus)(nil)
)

// Withdraw implements [transport.Withdrawer]. An event that a subscriber already holds stays with it; the server then ignores its acknowledgement.
func (b *Bus) Withdraw(ctx context.Context, t transport.Topic, contextID, from, id string) error {
	a := inboxAddress{tenant: t.Tenant, to: t.ID, context: contextID, from: from}
	subject := inboxSubject(a)
	for _, where := range []string{subject, timerSubject(a)} {
		m, err := b.search(ctx, t, where, func(m *jetstream.RawStreamMsg) bool {
			target := m.Header.Get(jetstream.ScheduleTargetHeader)
			return m.Header.Get(headerID) == id && (target == "" || target == subject)
		})
		if err != nil {
			return fmt.Errorf("withdraw %s: %w", id, err)
		}
		if m != nil {
			return b.eraseMessage(ctx, inboxStream, m.Sequence)
		}
	}
	return nil
}

// Holds implements [transport.InboxSearch]. Timers are not in the inbox yet.
func (b *Bus) Holds(ctx context.Context, t transport.Topic, e *transport.Event) (bool, error) {
	subject := inboxSubject(inboxAddress{tenant: t.Tenant, to: t.ID, context: e.ContextID, from: e.From})
	m, err := b.search(ctx, t, subject, func(m *jetstream.RawStreamMsg) bool {
		return m.Header.Get(headerTask) == string(e.TaskID) && (e.ID == "" || m.Header.Get(headerID) == e.ID)
	})
	if err != nil {
		return false, fmt.Errorf("search the inbox of %s: %w", t.ID, err)
	}
	return m != nil, nil
}

// search returns the first message on a subject of inbox t for which is returns true, or nil.
func (b *Bus) search(ctx context.Context, t transport.Topic, subject string, is func(*jetstream.RawStreamMsg) bool) (*jetstream.RawStreamMsg, error) {
	if err := checkTopic(t); err != nil {
		return nil, err
	}
	if t.Kind != transport.KindInbox {
		return nil, fmt.Errorf("%w: %s is no inbox", transport.ErrInvalid, t.Kind)
	}
	if b.isClosed() {
		return nil, transport.ErrClosed
	}
	for seq, n := uint64(1), 0; n <= maxSearched; n++ {
		m, err := b.message(ctx, inboxStream, subject, seq)
		if errors.Is(err, transport.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if is(m) {
			return m, nil
		}
		seq = m.Sequence + 1
	}
	return nil, fmt.Errorf("it is not among the first %d events of its sender in the conversation", maxSearched)
}
