package nats

import (
	"context"
	"errors"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Announced reports whether an instance of an agent is announced now. It reads the cards of this agent only, unlike a subscription to the cards.
func (b *Bus) Announced(ctx context.Context, tenant, agent string) (bool, error) {
	if b.isClosed() {
		return false, transport.ErrClosed
	}
	filter := strings.TrimSuffix(cardSubject(tenant, agent, "x"), "x") + "*"
	for seq := uint64(1); ; {
		m, err := b.message(ctx, agentsStream, filter, seq)
		if errors.Is(err, transport.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if isAnnounced(m, tenant, time.Now()) {
			return true, nil
		}
		seq = m.Sequence + 1
	}
}

// isAnnounced reports whether m is the card of an instance that is still present, and not a marker.
func isAnnounced(m *jetstream.RawStreamMsg, tenant string, now time.Time) bool {
	if m.Header.Get(headerKVOperation) != "" || m.Header.Get(jetstream.MarkerReasonHeader) != "" {
		return false
	}
	e, err := decodeCard(&natsgo.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}, tenant)
	if err != nil {
		return false
	}
	card := e.Payload.(*transport.Card) // decodeCard has checked
	return card.Gone == "" && (card.TTL <= 0 || now.Before(m.Time.Add(card.TTL+overdueSlack)))
}
