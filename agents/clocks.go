package agents

import (
	"sync"
	"time"
)

// clockPeriod is how long a comparison of clocks is trusted, at least; it may count for twice as long.
const clockPeriod = 10 * time.Minute

// clocks tells how much time a task has left, without the clock of this machine being right. An event shows how much later
// than by Cortex's clock it is by ours, too much by the time it was on its way. The least that was seen of late is taken for
// how far our clock is ahead: once any event came at once, tasks that had to wait are known to have less time left, and a
// clock that is wrong by hours does no harm. The first event is taken for one that came at once: a task that waited for the
// agent's start may be worked on too long, until Cortex cancels it. Steps of our clock do not matter, since time passes by
// the monotonic one; a step of Cortex's is noticed after clockPeriod at the latest, or by the first task that it hits.
type clocks struct {
	start time.Time // by our clock; time since is monotonic

	mu     sync.Mutex
	period time.Time     // when the present one began
	least  time.Duration // by which ours was ahead, in this period
	before time.Duration // in the one before
}

// late returns how much later than sent it is now, by two clocks.
func (c *clocks) late(sent time.Time) (late time.Duration, now time.Time) {
	now = c.start.Add(time.Since(c.start))
	return now.Sub(sent), now
}

// heard notes that an event of Cortex was received now, and returns how far our clock is ahead at most.
func (c *clocks) heard(sent time.Time) time.Duration {
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

// left returns how much is left of the time that ends at deadline, of a task that was sent at sent and received now: 0 or
// less when its sender gave it none. It is never more than the sender gave. A task that seems to be over is taken as one
// that came at once: either Cortex's clock was set back, or nobody took the task out of the inbox when it was given up. The first must
// not stop an agent; in the second case the work is in vain, and its result is ignored.
func (c *clocks) left(sent, deadline time.Time) time.Duration {
	span := deadline.Sub(sent)
	ahead := c.heard(sent)
	late, now := c.late(sent)
	if left := min(span+ahead-late, span); left > 0 || span <= 0 {
		return left
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.period, c.least, c.before = now, late, late
	return span
}
