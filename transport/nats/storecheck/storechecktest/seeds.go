package storechecktest

import "iter"

// Seeds yields the seeds of a test of damage. The race detector makes it take six times as long, and finds in all of them what it finds in
// some: it gets every ninth.
func Seeds() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for seed := uint64(0); seed < 200; seed += step {
			if !yield(seed) {
				return
			}
		}
	}
}
