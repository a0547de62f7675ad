package rtfs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// run ends leases when their time is over, lets in agents whose name has become free, and reads what other replicas have stored, until ctx ends.
func (ls *leases) run(ctx context.Context) error {
	read := ls.b.now().Add(ls.b.times.sync)
	for {
		timer := time.NewTimer(max(ls.plan(read), time.Millisecond))
		select {
		case <-timer.C:
		case <-ls.more:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var err error
		if ls.b.now().Before(read) {
			err = ls.settle(ctx)
		} else {
			read = ls.b.now().Add(ls.b.times.sync)
			err = ls.read(ctx)
		}
		if err != nil && ctx.Err() == nil {
			ls.b.at.Logger.Warn("the registrations of RTFS agents cannot be read: it is tried again", "err", err)
		}
	}
}

// plan returns the time until the first lease ends, at most until read.
func (ls *leases) plan(read time.Time) time.Duration {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.next = read
	for _, l := range ls.by {
		if l.Expires.Before(ls.next) {
			ls.next = l.Expires
		}
	}
	return ls.next.Sub(ls.b.now())
}

// settle ends what has expired, and serves what is left out if it can be now.
func (ls *leases) settle(ctx context.Context) error {
	for _, l := range ls.sorted() {
		if err := ls.expire(ctx, l); err != nil {
			return err
		}
	}
	if err := ls.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer ls.turn.Release(1)
	now := ls.b.now()
	for _, l := range ls.sorted() {
		if l.Expires.After(now) {
			ls.serve(ctx, l)
		}
	}
	return nil
}

// expire ends a lease if it has expired. Each has a turn of its own: many may expire together, and who registers meanwhile waits for one of them.
func (ls *leases) expire(ctx context.Context, l *lease) error {
	if l.Expires.After(ls.b.now()) {
		return nil
	}
	if err := ls.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer ls.turn.Release(1)
	if ls.get(l.Card.AgentID) != l {
		return nil // it has registered again, or has left
	}
	other, err := ls.keep.expire(ctx, l)
	switch {
	case err != nil:
		ls.b.at.Logger.Warn("the registration of an RTFS agent that has expired is still stored", "agent", l.id, "err", err)
		ls.remove(l) // read finds it again, and that it has expired
	case other != nil && other.Expires.After(ls.b.now()): // another replica has extended it
		ls.set(other)
	default:
		ls.remove(l)
	}
	return nil
}

func (ls *leases) sorted() []*lease {
	return slices.SortedFunc(slices.Values(ls.all()), func(a, b *lease) int { return strings.Compare(a.Card.AgentID, b.Card.AgentID) })
}

// read takes over the leases that are stored.
func (ls *leases) read(ctx context.Context) error {
	if err := ls.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	stored, err := ls.keep.read(ctx, ls.all())
	if err == nil && stored != nil {
		for _, l := range ls.all() {
			if stored[l.Card.AgentID] == nil { // another replica has ended it, and settle removes it
				over := *l
				over.Expires = time.Time{}
				ls.set(&over)
			}
		}
		for _, l := range stored {
			ls.set(l)
		}
	}
	ls.turn.Release(1)
	if err != nil {
		return fmt.Errorf("read the leases: %w", err)
	}
	return ls.settle(ctx)
}
