package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQuantile(t *testing.T) {
	upTo := func(n int) (list []time.Duration) {
		for i := range n {
			list = append(list, time.Duration(n-i)*time.Microsecond)
		}
		return list
	}
	for _, test := range []struct {
		n       int
		q, want float64
	}{{0, 0.5, 0}, {1, 0.5, 1}, {1, 0.99, 1}, {3, 0.5, 2}, {100, 0.99, 100}, {200, 0.99, 199}, {200, 1, 200}} {
		s := &sample{latencies: upTo(test.n)}
		if got := s.quantile(test.q); got != test.want {
			t.Errorf("quantile(%v) of 1 to %d = %v, want %v", test.q, test.n, got, test.want)
		}
	}
}

// TestInterleave checks that the sides alternate, and that no action is left out or repeated.
func TestInterleave(t *testing.T) {
	var order []string
	mark := func(name string) action {
		return func(context.Context, int) (time.Duration, error) {
			order = append(order, name)
			return time.Microsecond, nil
		}
	}
	a, b := &side{do: mark("a"), width: 1, n: 5}, &side{do: mark("b"), width: 1, n: 2}
	var done []int
	if err := interleave(t.Context(), 2, time.Hour, func(d, _ int) { done = append(done, d) }, a, b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "a", "b", "a", "a", "a", "b"}, order); diff != "" {
		t.Errorf("order (-want +got)\n%s", diff)
	}
	if len(a.sample.latencies) != 5 || len(b.sample.latencies) != 2 || !slices.Equal(done, []int{1, 2}) {
		t.Errorf("measured %d and %d, told %v", len(a.sample.latencies), len(b.sample.latencies), done)
	}
}

func TestLimitEndsInterleave(t *testing.T) {
	s := &side{do: func(context.Context, int) (time.Duration, error) { return 0, nil }, width: 1, n: 10}
	if err := interleave(t.Context(), 10, -time.Second, func(int, int) {}, s); err != nil || len(s.sample.latencies) != 0 {
		t.Errorf("interleave = %v, %d measured", err, len(s.sample.latencies))
	}
}

func TestSpread(t *testing.T) {
	bad := errors.New("bad")
	later := time.Now().Add(time.Hour)
	t.Run("lost ones do not count", func(t *testing.T) {
		var n atomic.Int64
		s, err := spread(t.Context(), 3, 10, later, func(context.Context, int) (time.Duration, error) {
			if n.Add(1)%2 == 0 {
				return 0, errLost
			}
			return time.Second, nil
		})
		if err != nil || n.Load() != 10 || len(s.latencies) != 5 {
			t.Errorf("spread = %v, done %d, measured %d", err, n.Load(), len(s.latencies))
		}
	})
	t.Run("an error ends it", func(t *testing.T) {
		_, err := spread(t.Context(), 3, 1_000_000_000, later, func(context.Context, int) (time.Duration, error) { return 0, bad })
		if !errors.Is(err, bad) {
			t.Errorf("spread = %v", err)
		}
	})
	t.Run("the end of the context ends it, with the reason", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := spread(ctx, 3, 1_000_000_000, later, func(context.Context, int) (time.Duration, error) {
			cancel(bad)
			return 0, nil
		})
		if !errors.Is(err, bad) {
			t.Errorf("spread = %v", err)
		}
	})
	t.Run("as many at once as wanted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { // detects a deadlock
			var together sync.WaitGroup
			together.Add(4)
			_, err := spread(t.Context(), 4, 4, time.Now().Add(time.Hour), func(context.Context, int) (time.Duration, error) {
				together.Done()
				together.Wait()
				return 0, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	})
}
