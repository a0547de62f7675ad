//go:build !linux

package retain

import "time"

// NewPassed returns a function that returns the time since this call. Where Go's monotonic clock stops while the machine sleeps, a sleep looks like a
// step of the wall clock, and older data is kept for longer.
func NewPassed() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
