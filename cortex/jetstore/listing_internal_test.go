package jetstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// TestListIsShared checks that those who list at the same time share a list that began after they asked, that one is made at a time, and that who leaves,
// or makes it, takes it from nobody.
func TestListIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, open := newListings(), make(chan struct{})
		made, running := 0, 0 // lists begun, and under way
		list := func(ctx context.Context, tenant string) ([]listed, error) {
			made++
			running++
			defer func() { running-- }()
			if running > 1 {
				t.Error("two lists are made at a time")
			}
			n := made
			select {
			case <-open:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			all := make([]listed, n)
			return all, nil
		}
		var all sync.WaitGroup
		get := func(ctx context.Context, tenant string, want int, wrong error) {
			all.Go(func() {
				if got, err := l.get(ctx, tenant, list); len(got) != want || !errors.Is(err, wrong) {
					t.Errorf("tenant %q: the list is number %d, %v; want %d, %v", tenant, len(got), err, want, wrong)
				}
			})
			synctest.Wait()
		}
		get(t.Context(), "", 1, nil)
		maker, leave := context.WithCancel(t.Context())
		get(maker, "", 2, nil) // it makes the next one, and goes on when it has left, for the others
		leaver, leaveToo := context.WithCancel(t.Context())
		get(leaver, "", 0, context.Canceled)
		for range 10 {
			get(t.Context(), "", 2, nil)
		}
		alone, leaveAlone := context.WithCancel(t.Context())
		get(alone, "other", 0, context.Canceled)
		leave()
		leaveToo()
		leaveAlone()
		synctest.Wait()
		get(t.Context(), "other", 3, nil)
		close(open)
		all.Wait()
		if made != 3 {
			t.Errorf("%d lists were made, want 3", made)
		}
		gone, cancel := context.WithCancel(t.Context())
		open = make(chan struct{})
		get(gone, "", 0, context.Canceled)
		cancel()
		all.Wait()
		if len(l.next) > 0 || running > 0 {
			t.Errorf("%d lists are left to be made, %d are under way", len(l.next), running)
		}
	})
}

// TestListIsNobodys checks that a list is not made in the place of who happens to make it, whose other reads all would wait for, and that nobody takes one
// whose maker has panicked for an empty one.
func TestListIsNobodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, open := newListings(), make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			defer func() { _ = recover() }()
			_, _ = l.get(storage.WithRequester(t.Context(), "user:ann"), "", func(ctx context.Context, _ string) ([]listed, error) {
				if who := storage.Requester(ctx); who != "" {
					t.Errorf("the list for all is read as one of %s", who)
				}
				<-open
				return nil, nil
			})
		})
		synctest.Wait()
		all.Go(func() {
			defer func() { _ = recover() }()
			_, _ = l.get(t.Context(), "", func(context.Context, string) ([]listed, error) { panic("damaged") })
		})
		synctest.Wait()
		all.Go(func() {
			if got, err := l.get(t.Context(), "", nil); err == nil {
				t.Errorf("%d conversations are listed by who panicked, want an error", len(got))
			}
		})
		synctest.Wait()
		close(open)
		all.Wait()
	})
}
