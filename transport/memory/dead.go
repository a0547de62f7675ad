package memory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	maxDead   = 10_000 // dead letters of one tenant
	maxReason = 4 << 10
)

type deadLetter struct {
	seq        uint64 // its id
	topic      transport.Topic
	r          *record
	reason     string
	at         time.Time
	deliveries int
}

// bury makes it a dead letter, and drops the oldest when there are too many.
func (w *world) bury(it *item, reason error) {
	t := it.in.topic
	w.seq++
	dead := append(w.dead[t.Tenant], &deadLetter{
		seq: w.seq, topic: t, r: it.r, reason: shorten.To(reason.Error(), maxReason), at: time.Now(), deliveries: it.delivery,
	})
	if len(dead) > maxDead {
		dead[0] = nil
		dead = dead[1:]
	}
	w.dead[t.Tenant] = dead
}

// letter converts d.
func (d *deadLetter) letter() *transport.DeadLetter {
	e, _ := d.r.decode() // an Opaque if it could not be decoded
	return &transport.DeadLetter{
		ID: strconv.FormatUint(d.seq, 10), Topic: d.topic, Event: e, Reason: d.reason, Time: d.at, Deliveries: d.deliveries,
	}
}

// DeadLetters implements [transport.DeadLetters]. The latest 10,000 of each tenant are stored.
func (b *Bus) DeadLetters(ctx context.Context, tenant string) iter.Seq2[*transport.DeadLetter, error] {
	return func(yield func(*transport.DeadLetter, error) bool) {
		if err := b.lock(ctx); err != nil {
			yield(nil, err)
			return
		}
		dead := slices.Clone(b.w.dead[tenant])
		b.w.mu.Unlock()
		for _, d := range dead {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if !yield(d.letter(), nil) {
				return
			}
		}
	}
}

// DeadLetter implements [transport.DeadLetters].
func (b *Bus) DeadLetter(ctx context.Context, tenant, id string) (l *transport.DeadLetter, err error) {
	err = b.onDead(ctx, tenant, id, func(d *deadLetter) error {
		l = d.letter()
		return nil
	})
	return l, err
}

// ReplayDead implements [transport.DeadLetters].
func (b *Bus) ReplayDead(ctx context.Context, tenant, id string) error {
	return b.onDead(ctx, tenant, id, func(d *deadLetter) error {
		if _, err := d.r.decode(); err != nil {
			return fmt.Errorf("%w: dead letter %s cannot be read, so nobody could handle it: %w", transport.ErrInvalid, id, err)
		}
		b.w.inbox(d.topic).add(d.r)
		b.w.removeDead(tenant, func(o *deadLetter) bool { return o == d })
		return nil
	})
}

// RemoveDead implements [transport.DeadLetters].
func (b *Bus) RemoveDead(ctx context.Context, tenant, id string) error {
	err := b.onDead(ctx, tenant, id, func(d *deadLetter) error {
		b.w.removeDead(tenant, func(o *deadLetter) bool { return o == d })
		return nil
	})
	if errors.Is(err, transport.ErrNotFound) {
		return nil
	}
	return err
}

// onDead calls f with a tenant's dead letter, with the world locked.
func (b *Bus) onDead(ctx context.Context, tenant, id string, f func(*deadLetter) error) error {
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer b.w.mu.Unlock()
	for _, d := range b.w.dead[tenant] {
		if strconv.FormatUint(d.seq, 10) == id {
			return f(d)
		}
	}
	return fmt.Errorf("%w: dead letter %.40q", transport.ErrNotFound, id)
}

// removeDead removes a tenant's dead letters for which gone is true.
func (w *world) removeDead(tenant string, gone func(*deadLetter) bool) {
	dead := slices.DeleteFunc(slices.Clone(w.dead[tenant]), gone)
	if len(dead) == 0 {
		delete(w.dead, tenant)
	} else {
		w.dead[tenant] = dead
	}
}
