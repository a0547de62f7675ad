package bench

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// sample is what was measured of something that was done many times.
type sample struct {
	latencies []time.Duration
	took      time.Duration // all of it, on the clock
}

func (s *sample) add(o *sample) {
	s.latencies = append(s.latencies, o.latencies...)
	s.took += o.took
}

// quantile returns the latency that a share q of all do not exceed, in microseconds; 0 when there are none.
func (s *sample) quantile(q float64) float64 {
	if len(s.latencies) == 0 {
		return 0
	}
	slices.Sort(s.latencies)
	return micros(s.latencies[min(int(q*float64(len(s.latencies))), len(s.latencies)-1)])
}

// perSecond returns how many there were in a second.
func (s *sample) perSecond() float64 {
	if s.took <= 0 {
		return 0
	}
	return float64(len(s.latencies)) / s.took.Seconds()
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// action does the thing once, for the worker with this number, and returns how long it took. An error ends the measurement, but for
// errLost: that one does not count.
type action func(ctx context.Context, worker int) (time.Duration, error)

// spread does something n times, width at once, and begins no more of them after end or when outer ends.
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
		err = context.Cause(outer) // why, rather than that
	}
	return &sample{slices.Concat(latencies...), time.Since(begin)}, err
}

// side is one of several things that are measured against each other.
type side struct {
	do     action
	width  int // how many at once
	n      int // in all
	sample sample
}

// interleave measures sides in turn, each in as many pieces, so that whatever else the machine does meets them alike. It begins
// nothing more when the limit is over. done is told how many pieces of how many are done.
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
