package together

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestShare has many ask while something is made: they share the next one. Whoever leaves gets their context's error, and what nobody waits for ends.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Asks[string, int]
		n, ended, on := 0, 0, make(chan struct{})
		ask := func(ctx context.Context, k string) <-chan any {
			got := make(chan any, 1)
			go func() {
				v, err := a.Get(ctx, k, func(ctx context.Context) (int, error) {
					n++
					is := n
					select {
					case <-on:
						return is, nil
					case <-ctx.Done():
						ended++
						return 0, ctx.Err()
					}
				})
				if err != nil {
					got <- err
					return
				}
				got <- v
			}()
			synctest.Wait()
			return got
		}
		first := ask(t.Context(), "a")
		leaving, leave := context.WithCancel(t.Context())
		second, third := ask(leaving, "a"), ask(leaving, "a")
		others := []<-chan any{ask(t.Context(), "a"), ask(t.Context(), "a")}
		if n != 1 {
			t.Fatalf("%d are made at a time, want 1", n)
		}
		leave()
		for _, got := range []<-chan any{second, third} { // whoever was the first to ask for the next one does not stay for the others
			if err := <-got; !errors.Is(err.(error), context.Canceled) {
				t.Errorf("who leaves: %v", err)
			}
		}
		on <- struct{}{}
		if v := <-first; v != 1 {
			t.Errorf("the first: %v", v)
		}
		synctest.Wait()
		on <- struct{}{}
		for _, got := range others {
			if v := <-got; v != 2 {
				t.Errorf("those who asked meanwhile: %v, want the second", v)
			}
		}
		leaving, leave = context.WithCancel(t.Context())
		alone, next := ask(leaving, "a"), ask(leaving, "a")
		leave()
		synctest.Wait()
		if begun := n - 2; begun == 0 || ended != begun { // the next one may have begun before it is known that its asker leaves, too
			t.Errorf("of %d that were begun, %d have ended", begun, ended)
		}
		for _, got := range []<-chan any{alone, next} {
			if err := <-got; !errors.Is(err.(error), context.Canceled) {
				t.Errorf("who leaves alone: %v", err)
			}
		}
		of, other := ask(t.Context(), "a"), ask(t.Context(), "b")
		on <- struct{}{}
		on <- struct{}{}
		if x, y := <-of, <-other; x == y {
			t.Errorf("two keys share %v", x)
		}
		if len(a.now)+len(a.next) > 0 {
			t.Errorf("%d and %d are kept", len(a.now), len(a.next))
		}
	})
}

// TestOneAtATime has whoever wants the next one leave when its turn comes: it is not made beside the one for somebody who asks then.
func TestOneAtATime(t *testing.T) {
	for range 2000 {
		var a Asks[int, int]
		var making, most atomic.Int32
		do := func(context.Context) (int, error) {
			most.Store(max(most.Load(), making.Add(1)))
			runtime.Gosched()
			making.Add(-1)
			return 0, nil
		}
		on, begun := make(chan struct{}), make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			_, _ = a.Get(t.Context(), 1, func(context.Context) (int, error) { close(begun); <-on; return 0, nil })
		})
		<-begun
		leaving, leave := context.WithCancel(t.Context())
		all.Go(func() { _, _ = a.Get(leaving, 1, do) })
		for waits := false; !waits; runtime.Gosched() {
			a.mu.Lock()
			waits = a.next[1] != nil
			a.mu.Unlock()
		}
		all.Go(func() { close(on) })
		all.Go(leave)
		all.Go(func() { _, _ = a.Get(t.Context(), 1, do) })
		all.Wait()
		if most.Load() > 1 {
			t.Fatal("two are made at the same time")
		}
	}
}

// TestPanic checks that who waits is told when the next one cannot be made.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Asks[int, int]
		on, waits := make(chan struct{}), make(chan error, 1)
		go func() {
			_, _ = a.Get(t.Context(), 1, func(context.Context) (int, error) { <-on; return 0, nil })
		}()
		synctest.Wait()
		go func() {
			_, _ = a.Get(t.Context(), 1, func(context.Context) (int, error) { panic("test") })
		}()
		synctest.Wait()
		go func() {
			_, err := a.Get(t.Context(), 1, nil)
			waits <- err
		}()
		synctest.Wait()
		close(on)
		if err := <-waits; !errors.Is(err, errUnmade) {
			t.Errorf("who waits gets %v", err)
		}
	})
}
