package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

var _ transport.Owners = (*Bus)(nil)

// Owners implements [transport.Owners]. It omits subscribers that were killed; it lists a disconnected one for up to three seconds.
func (b *Bus) Owners(ctx context.Context, t transport.Topic) ([]transport.Owner, error) {
	if err := checkTopic(t); err != nil {
		return nil, err
	}
	if t.Kind != transport.KindInbox {
		return nil, fmt.Errorf("%w: topic kind %q has no owners", transport.ErrInvalid, t.Kind)
	}
	if b.isClosed() {
		return nil, transport.ErrClosed
	}
	l, err := b.leaseTable(ctx, t)
	if errors.Is(err, errNoLeases) {
		return nil, nil
	}
	if err != nil {
		return nil, translate(err)
	}
	ids := slices.Sorted(maps.Keys(l.members))
	var gone map[string]bool
	if !b.who.Limited() { // others may not send requests to subscribers
		gone = b.gone(ctx, t, ids)
	}
	var all []transport.Owner
	for _, id := range ids {
		if gone[id] {
			continue
		}
		o := transport.Owner{ID: id, Label: oneLine(l.members[id].Label, transport.MaxLabel), Since: l.members[id].Since}
		for p, lease := range l.leases {
			if lease.Owner == id {
				o.Partitions = append(o.Partitions, p)
			}
		}
		slices.Sort(o.Partitions)
		all = append(all, o)
	}
	return all, nil
}

const (
	peerWait  = 250 * time.Millisecond // for a subscriber's answer
	peerAgain = 20 * time.Millisecond  // before the second request: servers of a cluster learn of subscriptions with a delay
)

// gone returns the subscribers of an inbox that have no connection to the server any more, which the server reports as soon as a process is killed.
// One that has a connection but does not answer may be paused, and is not gone.
func (b *Bus) gone(ctx context.Context, t transport.Topic, ids []string) map[string]bool {
	var mu sync.Mutex
	var asking sync.WaitGroup
	gone := map[string]bool{}
	for _, id := range ids {
		asking.Go(func() {
			if !b.unheard(ctx, t, id) {
				return
			}
			b.pause(ctx, peerAgain)
			if b.unheard(ctx, t, id) {
				mu.Lock()
				gone[id] = true
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	return gone
}

// unheard reports whether the server knows no connection that would receive a request to the subscriber.
func (b *Bus) unheard(ctx context.Context, t transport.Topic, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, peerWait)
	defer cancel()
	_, err := b.nc.RequestWithContext(ctx, peerSubject(t, id), nil)
	return errors.Is(err, natsgo.ErrNoResponders) // with any other result it answered, or is connected and cannot answer
}
