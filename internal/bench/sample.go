package bench

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// sample is the measurement of a repeated action.
type sample struct {
	latencies []time.Duration
	took      time.Duration // of all together, on the clock
}

func (s *sample) add(o *sample) {
	s.latencies = append(s.latencies, o.latencies...)
	s.took += o.took
}

// quantile returns the latency that a share q of all do not exceed, in microseconds; 0 without any.
func (s *sample) quantile(q float64) float64 {
	if len(s.latencies) == 0 {
		return 0
	}
	slices.Sort(s.latencies)
	return micros(s.latencies[min(int(q*float64(len(s.latencies))), len(s.latencies)-1)])
}

// perSecond returns the number of actions per second.
func (s *sample) perSecond() float64 {
	if s.took <= 0 {
		return 0
	}
	return float64(len(s.latencies)) / s.took.Seconds()
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// action performs the action once, for the worker with this number, and returns its duration. An error ends the measurement, except errLost, which
// only makes the action not count.
type action func(ctx context.Context, worker int) (time.Duration, error)

// spread performs an action n times, width concurrently, and starts none after end or when outer has ended.
func spread(outer context.Context, width, n int, end time.Time, do action) (*sample, error) {
	var next atomic.Int64
	latencies := make([][]time.Duration, width)
	g, ctx := errgroup.WithContext(outer)
	begin := time.Now()
	for w := range width {
		g.Go(func() error {
			for ctx.Err() == nil && next.Add(1) <= int64(n) && time.Now().Before(end) {
				took, err := do(ctx, w)
				switch {
				case errors.Is(err, errLost):
				case err != nil:
					return err
				default:
					latencies[w] = append(latencies[w], took)
				}
			}
			return ctx.Err()
		})
	}
	err := g.Wait()
	if outer.Err() != nil {
		err = context.Cause(outer) // the reason, rather than the cancellation
	}
	return &sample{slices.Concat(latencies...), time.Since(begin)}, err
}

// side is one of several actions that are compared.
type side struct {
	do     action
	width  int // concurrent
	n      int // in all
	sample sample
}

// interleave measures sides alternately, each in this many pieces, so that other load on the machine affects them equally. It starts nothing after
// limit. done is called with the progress in pieces.
func interleave(ctx context.Context, pieces int, limit time.Duration, done func(done, total int), sides ...*side) error {
	end := time.Now().Add(limit)
	for p := range pieces {
		for _, s := range sides {
			got, err := spread(ctx, s.width, s.n*(p+1)/pieces-s.n*p/pieces, end, s.do)
			if err != nil {
				return err
			}
			s.sample.add(got)
		}
		done(p+1, pieces)
	}
	return nil
}
