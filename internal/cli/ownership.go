package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	ownersEvery = time.Second     // how often the service reads the owners
	ownerless   = 5 * time.Second // how long a partition may have no owner; ownership changes when a process starts, ends or is killed
)

// ownership records whether every partition has an owner, in this process or another.
type ownership struct {
	mu    sync.Mutex
	whole time.Time // when every partition had an owner last
	why   error     // why a partition has none now
}

func newOwnership() *ownership {
	return &ownership{why: errors.New("it has not begun to take work")}
}

// lost returns why not every partition has an owner, when that has lasted longer than ownerless, or nil.
func (o *ownership) lost(now time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.whole) <= ownerless {
		return nil
	}
	return o.why
}

// see records an observation; why is nil when every partition has an owner.
func (o *ownership) see(now time.Time, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why = why; why == nil {
		o.whole = now
	}
}

// watch reads the owners periodically until ctx ends.
func (o *ownership) watch(ctx context.Context, n *node) {
	for ctx.Err() == nil {
		if err := n.unowned(ctx); ctx.Err() == nil {
			o.see(time.Now(), err)
		}
		_ = rest.For(ctx, ownersEvery)
	}
}

// unowned returns an error when a partition has no owner, or when that is not known. A node that owns all partitions does not ask.
func (n *node) unowned(ctx context.Context) error {
	if len(n.orchestrator.Owned()) == transport.Partitions {
		return nil
	}
	known, ok := n.bus.(transport.Owners)
	if !ok {
		return nil // the transport does not know the other owners
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	owners, err := known.Owners(ctx, transport.Inbox(n.tenant, transport.Cortex))
	if err != nil {
		return fmt.Errorf("who owns which conversations cannot be read: %w", err)
	}
	return unclaimed(owners)
}

// unclaimed returns an error that names the partitions without an owner, or nil.
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
	return fmt.Errorf("no process takes the conversations of %d of %d partitions: %s", len(free), transport.Partitions, view.Ranges(free))
}
