// Package together has those who ask for the same thing at the same time share it.
package together

import (
	"context"
	"errors"
	"fmt"
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
// that ends before.
func (a *Asks[K, V]) Get(ctx context.Context, k K, do func(ctx context.Context) (V, error)) (V, error) {
	a.mu.Lock()
	is := a.next[k]
	if is == nil {
		making, cancel := context.WithCancel(context.WithoutCancel(ctx))
		is = &ask[V]{made: make(chan struct{}), err: errUnmade, cancel: cancel}
		before := a.now[k]
		if before == nil {
			put(&a.now, k, is)
		} else {
			put(&a.next, k, is)
		}
		go a.run(making, k, is, before, do)
	}
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

// run sets the value of is, behind the one that is being made. A panic of do is an error for all who wait.
func (a *Asks[K, V]) run(ctx context.Context, k K, is, before *ask[V], do func(ctx context.Context) (V, error)) {
	defer is.cancel()
	defer func() {
		if p := recover(); p != nil {
			is.err = fmt.Errorf("%w: panic: %v", errUnmade, p)
		}
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
		case <-ctx.Done():
			return // nobody waits
		}
		a.mu.Lock()
		if is.waiting == 0 { // who asks from now on has another one made, beside which this one would be
			a.mu.Unlock()
			return
		}
		a.begin(k, is)
		put(&a.now, k, is)
		a.mu.Unlock()
	}
	is.value, is.err = do(ctx)
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
