package agents

import (
	"sync"
	"time"
)

// clockPeriod is how long a comparison of clocks is used at least; it is used for at most twice as long.
const clockPeriod = 10 * time.Minute

// clocks computes how much time a task has left without relying on this machine's clock. The delay of an event by the two clocks is the offset
// of our clock from Cortex's plus the time of delivery. The smallest recent delay is taken as the offset. Once any event was delivered at
// once, tasks that had to wait are known to have less time left, and a clock that is wrong by hours does no harm. The first event counts as
// delivered at once: a task that waited for the agent's start may be worked on too long, until Cortex cancels it. Steps of our clock do not
// matter, since elapsed time is monotonic; a step of Cortex's clock is noticed within clockPeriod, or by the first task that it affects.
type clocks struct {
	start time.Time // by our clock; the time since then is monotonic

	mu     sync.Mutex
	period time.Time     // when the present period began
	least  time.Duration // smallest delay in this period
	before time.Duration // smallest delay in the previous period
}

// late returns the delay of an event sent at sent, by the two clocks, and the present time.
func (c *clocks) late(sent time.Time) (late time.Duration, now time.Time) {
	now = c.start.Add(time.Since(c.start))
	return now.Sub(sent), now
}

// observe records an event of Cortex that was received now, and returns the estimated offset of our clock.
func (c *clocks) observe(sent time.Time) time.Duration {
	late, now := c.late(sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch age := now.Sub(c.period); {
	case c.period.IsZero() || age >= 2*clockPeriod:
		c.period, c.least, c.before = now, late, late
	case age >= clockPeriod:
		c.period, c.least, c.before = now, late, c.least
	default:
		c.least = min(c.least, late)
	}
	return min(c.least, c.before)
}

// left returns the time left until deadline for a task sent at sent and received now; it is 0 or less when its sender gave it none, and never
// more than the sender gave. A task that seems to be overdue is treated as delivered at once: either Cortex's clock was set back, which must
// not stop an agent, or Cortex gave the task up and nobody took it out of the inbox; then the work is in vain, and Cortex ignores its result.
func (c *clocks) left(sent, deadline time.Time) time.Duration {
	span := deadline.Sub(sent)
	ahead := c.observe(sent)
	late, now := c.late(sent)
	if left := min(span+ahead-late, span); left > 0 || span <= 0 {
		return left
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.period, c.least, c.before = now, late, late
	return span
}
