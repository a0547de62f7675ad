package locks

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

func TestLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Locks[string]
		unlock, err := l.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		other, err := l.Lock(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		other()
		var order []int
		for i := range 3 {
			go func() {
				unlock, err := l.Lock(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				unlock()
			}()
			synctest.Wait()
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() {
			_, err := l.Lock(ctx, "a")
			ended <- err
		}()
		synctest.Wait()
		cancel(gone)
		if err := <-ended; !errors.Is(err, gone) {
			t.Errorf("Lock = %v, want %v", err, gone)
		}
		if len(order) != 0 {
			t.Errorf("%v have a lock that another one holds", order)
		}
		unlock()
		synctest.Wait()
		if !slices.Equal(order, []int{0, 1, 2}) {
			t.Errorf("the lock was held by %v, want them in their order", order)
		}
		if len(l.all) != 0 {
			t.Errorf("%d locks are kept that nobody uses", len(l.all))
		}
	})
}
