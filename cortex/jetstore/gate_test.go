package jetstore

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// TestGate checks that a gate admits a limited number, the newest and the oldest waiter by turns, and each only once.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate{free: 2}
		var in []int
		for i := range 7 {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if err := g.enter(ctx); err != nil {
					if i != 3 || !errors.Is(err, context.Canceled) {
						t.Errorf("%d is not let in: %v", i, err)
					}
					return
				}
				in = append(in, i) // one at a time: the test waits
			}()
			synctest.Wait()
			if i == 3 {
				cancel()
				synctest.Wait()
			}
			defer cancel()
		}
		if want := []int{0, 1}; !slices.Equal(in, want) {
			t.Fatalf("%v are in at first, want %v", in, want)
		}
		for range 6 {
			g.leave()
			synctest.Wait()
		}
		if want := []int{0, 1, 6, 2, 5, 4}; !slices.Equal(in, want) {
			t.Errorf("%v went in, want %v", in, want)
		}
		if g.free != 2 || len(g.waiting) != 0 {
			t.Errorf("%d are free and %d wait in the end, want 2 and 0", g.free, len(g.waiting))
		}
	})
}

// TestGateByRequester has one requester wait with many reads. Those of others are let in by turns with them.
func TestGateByRequester(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate{}
		var in []string
		for _, of := range []string{"eve", "eve", "eve", "eve", "ada", "bob", "ada"} {
			go func() {
				if err := g.enter(storage.WithRequester(t.Context(), of)); err != nil {
					t.Error(err)
				}
				in = append(in, of) // one at a time: the test waits
			}()
			synctest.Wait()
		}
		for range 7 {
			g.leave()
			synctest.Wait()
		}
		if want := []string{"eve", "ada", "bob", "eve", "ada", "eve", "eve"}; !slices.Equal(in, want) {
			t.Errorf("%q went in, want %q", in, want)
		}
		if len(g.waiting) != 0 || len(g.order) != 0 {
			t.Errorf("%v wait in the end, in the order %q", g.waiting, g.order)
		}
	})
}
