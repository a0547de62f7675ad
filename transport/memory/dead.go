package memory

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	maxDead   = 10_000 // dead letters of one tenant
	maxReason = 4 << 10
)

type deadLetter struct {
	topic      transport.Topic
	r          *record
	reason     string
	at         time.Time
	deliveries int
}

// bury keeps it as a dead letter, and forgets the oldest when there are too many.
func (w *world) bury(it *item, reason error) {
	text := reason.Error()
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "")
	}
	t := it.in.topic
	dead := append(w.dead[t.Tenant], &deadLetter{topic: t, r: it.r, reason: text, at: time.Now(), deliveries: it.delivery})
	if len(dead) > maxDead {
		dead[0] = nil
		dead = dead[1:]
	}
	w.dead[t.Tenant] = dead
}

// DeadLetters implements [transport.DeadLetters]. The newest 10,000 of each tenant are kept.
func (b *Bus) DeadLetters(ctx context.Context, tenant string) iter.Seq2[*transport.DeadLetter, error] {
	return func(yield func(*transport.DeadLetter, error) bool) {
		b.w.mu.Lock()
		closed, dead := b.closed, slices.Clone(b.w.dead[tenant])
		b.w.mu.Unlock()
		if closed {
			yield(nil, transport.ErrClosed)
			return
		}
		for _, d := range dead {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			e, _ := d.r.decode() // an Opaque when that is the reason for its death
			if !yield(&transport.DeadLetter{Topic: d.topic, Event: e, Reason: d.reason, Time: d.at, Deliveries: d.deliveries}, nil) {
				return
			}
		}
	}
}
