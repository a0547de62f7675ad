package storechecktest

import "iter"

// Seeds yields the seeds of a test of damage, all of them or, with the race detector, every ninth: it makes such tests six times as long, and a
// part of the seeds finds the same races.
func Seeds() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for seed := uint64(0); seed < 200; seed += step {
			if !yield(seed) {
				return
			}
		}
	}
}
