package agents

import (
	"sync"
	"time"
)

// allowance is the time that a run has. Signs of life prolong it, in the same way as Cortex does, and so does another attempt.
type allowance struct {
	expire func() // called when the time is over

	mu     sync.Mutex
	span   time.Duration // from a sign of life to the end; 0 is no end
	end    time.Time
	latest time.Time // to which the end may be moved
	timer  *time.Timer
}

// give sets the time anew: what is left, of how much, and what is left until the end can no longer be moved, if it can.
func (w *allowance) give(left, span, latest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.span, w.end, w.latest = max(span, 1), now.Add(left), now.Add(latest)
	w.wind(left)
}

func (w *allowance) wind(left time.Duration) {
	if w.timer == nil {
		w.timer = time.AfterFunc(left, w.check)
	} else {
		w.timer.Reset(left)
	}
}

// check ends the run, unless its time was prolonged while the timer fired.
func (w *allowance) check() {
	w.mu.Lock()
	over := !w.end.After(time.Now())
	w.mu.Unlock()
	if over {
		w.expire()
	}
}

// deadline returns the end, by the clock of this machine as it is now; zero is never.
func (w *allowance) deadline() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.span == 0 {
		return time.Time{}
	}
	now := time.Now()
	return now.Add(w.end.Sub(now)).Round(0)
}

// due returns how long a sign of life has to wait for its time: a third of the span after the last one, which leaves two for
// it to arrive. It returns false when it would not move the end. Cortex ignores what moves it by less than a quarter, and not to
// the latest; a third is more.
func (w *allowance) due() (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.span == 0 {
		return 0, false
	}
	now := time.Now()
	at := w.end.Add(-w.span / 3 * 2)
	if at.Before(now) {
		at = now
	}
	return at.Sub(now), w.moved(at).After(w.end)
}

// moved returns the end after a sign of life at a time.
func (w *allowance) moved(at time.Time) time.Time {
	end := at.Add(w.span)
	if end.After(w.latest) {
		end = w.latest
	}
	if end.Before(w.end) {
		end = w.end
	}
	return end
}

// move counts a sign of life that was given at a time.
func (w *allowance) move(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end = w.moved(at)
	w.wind(time.Until(w.end))
}

// stop ends the watch over the time.
func (w *allowance) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
}
