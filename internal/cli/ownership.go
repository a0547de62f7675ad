package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	ownersEvery = time.Second     // how often the service looks who owns what
	ownerless   = 5 * time.Second // how long a partition may have no owner: it changes when a process comes, ends or is killed
)

// ownership is what a service knows of whether every partition has an owner, itself or another process.
type ownership struct {
	mu    sync.Mutex
	whole time.Time // when that was so last
	why   error     // it is not so now
}

func newOwnership() *ownership {
	return &ownership{why: errors.New("it has not begun to take work")}
}

// lost returns why not every partition has an owner, when that has been so for longer than it may, or nil.
func (o *ownership) lost(now time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.whole) <= ownerless {
		return nil
	}
	return o.why
}

// see takes in what was seen: nil when every partition has an owner.
func (o *ownership) see(now time.Time, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why = why; why == nil {
		o.whole = now
	}
}

// watch looks again and again who owns what, until ctx ends.
func (o *ownership) watch(ctx context.Context, n *node) {
	for ctx.Err() == nil {
		if err := n.unowned(ctx); ctx.Err() == nil {
			o.see(time.Now(), err)
		}
		_ = rest(ctx, ownersEvery)
	}
}

// unowned returns an error when there is a partition without an owner, or when that is not known. Who owns all itself does not ask.
func (n *node) unowned(ctx context.Context) error {
	if len(n.orchestrator.Owned()) == transport.Partitions {
		return nil
	}
	known, ok := n.bus.(transport.Owners)
	if !ok {
		return nil // whether others own the rest is not known
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	owners, err := known.Owners(ctx, transport.Inbox(n.tenant, transport.Cortex))
	if err != nil {
		return fmt.Errorf("who owns which conversations cannot be read: %w", err)
	}
	return unclaimed(owners)
}

// unclaimed returns an error that names the partitions that none of the owners has, or nil.
func unclaimed(owners []transport.Owner) error {
	var taken [transport.Partitions]bool
	for _, o := range owners {
		for _, p := range o.Partitions {
			taken[p] = true
		}
	}
	var free []int
	for p, ok := range taken {
		if !ok {
			free = append(free, p)
		}
	}
	if len(free) == 0 {
		return nil
	}
	return fmt.Errorf("no process takes the conversations of %d of %d partitions: %s", len(free), transport.Partitions, ranges(free))
}
