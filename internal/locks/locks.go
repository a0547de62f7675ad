// Package locks has one lock for each key of a kind, for as long as somebody uses it. Whoever reads a value of a store and writes it back if nobody
// else has meanwhile, holds the lock of the value's key: of many goroutines that try at the same time one succeeds, and all others have to read again.
package locks

import (
	"context"
	"sync"
)

// Locks are locks by key. The zero value has none that is held. It is safe for concurrent use.
type Locks[K comparable] struct {
	mu  sync.Mutex
	all map[K]*lock
}

type lock struct {
	held  chan struct{} // full while somebody holds the lock
	users int           // who hold it or wait for it
}

// Lock waits for the lock of k, which goroutines get in the order in which they come, and returns what gives it back. It returns the cause of the end
// of ctx when that comes first.
func (l *Locks[K]) Lock(ctx context.Context, k K) (unlock func(), err error) {
	l.mu.Lock()
	if l.all == nil {
		l.all = map[K]*lock{}
	}
	its := l.all[k]
	if its == nil {
		its = &lock{held: make(chan struct{}, 1)}
		l.all[k] = its
	}
	its.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if its.users--; its.users == 0 {
			delete(l.all, k)
		}
	}
	select {
	case its.held <- struct{}{}:
		return func() {
			<-its.held
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
