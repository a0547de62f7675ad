package retain

import (
	"time"

	"golang.org/x/sys/unix"
)

// NewPassed returns a function that returns the time since this call. Unlike Go's monotonic clock, it counts while the machine sleeps.
func NewPassed() func() time.Duration {
	start := time.Now()
	return func() time.Duration {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
			return time.Since(start)
		}
		return time.Duration(t.Nano())
	}
}
