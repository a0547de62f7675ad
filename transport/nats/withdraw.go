package nats

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// maxSearched bounds the events of one sender in one conversation that Withdraw looks through.
const maxSearched = 10_000

var _ transport.Withdrawer = (*Bus)(nil)

// Withdraw implements [transport.Withdrawer]. What a subscriber was given already stays with it; its acknowledgement then means
// nothing to the server.
func (b *Bus) Withdraw(ctx context.Context, t transport.Topic, contextID, from, id string) error {
	if err := checkTopic(t); err != nil {
		return err
	}
	if t.Kind != transport.KindInbox {
		return fmt.Errorf("%w: withdraw from %s, which is no inbox", transport.ErrInvalid, t.Kind)
	}
	if b.isClosed() {
		return transport.ErrClosed
	}
	a := inboxAddress{tenant: t.Tenant, to: t.ID, context: contextID, from: from}
	subject := inboxSubject(a)
	for _, where := range []string{subject, timerSubject(a)} {
		for seq, n := uint64(1), 0; ; n++ {
			m, err := b.message(ctx, inboxStream, where, seq)
			if errors.Is(err, transport.ErrNotFound) {
				break
			}
			if err != nil {
				return fmt.Errorf("withdraw %s: %w", id, err)
			}
			if target := m.Header.Get(jetstream.ScheduleTargetHeader); m.Header.Get(headerID) == id && (target == "" || target == subject) {
				return b.eraseMessage(ctx, inboxStream, m.Sequence)
			}
			if n == maxSearched {
				return fmt.Errorf("withdraw %s: it is not among the first %d events of %s in the conversation", id, maxSearched, from)
			}
			seq = m.Sequence + 1
		}
	}
	return nil
}
