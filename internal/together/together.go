// Package together has those who ask for the same thing at the same time share it.
package together

import (
	"context"
	"errors"
	"sync"
)

// Asks are what is asked for, by its key. Of each key one is made at a time, and all who ask meanwhile share the next one: nobody gets what had begun to be
// made before they asked. The zero Asks has none.
type Asks[K comparable, V any] struct {
	mu        sync.Mutex
	now, next map[K]*ask[V]
}

// ask is a value for all who wait for it. They only read it.
type ask[V any] struct {
	made  chan struct{} // closed when the next two are set
	value V
	err   error

	waiting int                // guarded by Asks.mu
	cancel  context.CancelFunc // when nobody waits
}

// errUnmade is for those who wait for what a panic has ended.
var errUnmade = errors.New("what others asked for as well was not made")

// Get returns what do returns for a key. The context of do has the values of that of the first who asked, and ends once nobody waits. Get returns ctx's error when
// that ends before; for whose do it is, once nobody else waits.
func (a *Asks[K, V]) Get(ctx context.Context, k K, do func(ctx context.Context) (V, error)) (V, error) {
	a.mu.Lock()
	if is := a.next[k]; is != nil {
		is.waiting++
		a.mu.Unlock()
		select {
		case <-is.made:
			return is.value, is.err
		case <-ctx.Done():
			a.leave(k, is)
			var none V
			return none, ctx.Err()
		}
	}
	making, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	is := &ask[V]{made: make(chan struct{}), err: errUnmade, waiting: 1, cancel: cancel}
	before := a.now[k]
	if before == nil {
		put(&a.now, k, is)
	} else {
		put(&a.next, k, is)
	}
	a.mu.Unlock()
	defer context.AfterFunc(ctx, func() { a.leave(k, is) })()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.now[k] == is {
			delete(a.now, k)
		}
		close(is.made)
	}()
	if before != nil {
		select {
		case <-before.made:
		case <-making.Done():
		}
		a.mu.Lock()
		a.begin(k, is)
		if making.Err() == nil {
			put(&a.now, k, is)
		}
		a.mu.Unlock()
	}
	if making.Err() == nil {
		is.value, is.err = do(making)
	}
	if making.Err() != nil {
		is.err = ctx.Err()
	}
	return is.value, is.err
}

// leave says that somebody waits no more.
func (a *Asks[K, V]) leave(k K, is *ask[V]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if is.waiting--; is.waiting == 0 {
		a.begin(k, is)
		is.cancel()
	}
}

// begin has who asks from now on wait for another one than is. a.mu is held.
func (a *Asks[K, V]) begin(k K, is *ask[V]) {
	if a.next[k] == is {
		delete(a.next, k)
	}
}

func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[k] = v
}
