//go:build !linux

package cli

import "time"

// newPassed returns a function that returns how much time has passed. Where Go's clock stops while the machine sleeps, a sleep looks like a step of
// the wall clock, and what was dated before is kept for longer.
func newPassed() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
