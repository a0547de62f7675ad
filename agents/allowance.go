package agents

import (
	"sync"
	"time"
)

// allowance is the time that a run has. Progress extends it by the same rules as in Cortex, and so does another attempt.
type allowance struct {
	expire func() // called when the time is over

	mu     sync.Mutex
	span   time.Duration // from a sign of progress to the end; 0: no end
	end    time.Time
	latest time.Time // the latest time to which end can move
	timer  *time.Timer
}

// give sets a new allowance: left is the time until the end, span the whole time given, latest the time until the end can no longer move.
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

// check ends the run, unless its time was extended while the timer fired.
func (w *allowance) check() {
	w.mu.Lock()
	over := !w.end.After(time.Now())
	w.mu.Unlock()
	if over {
		w.expire()
	}
}

// deadline returns the end by this machine's present clock; zero means never.
func (w *allowance) deadline() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.span == 0 {
		return time.Time{}
	}
	now := time.Now()
	return now.Add(w.end.Sub(now)).Round(0)
}

// due returns how long the next report of progress should wait: until a third of the span has passed since the last one, which leaves two
// thirds for its delivery. It returns false when a report would not move the end. Cortex ignores reports that move the deadline by less than
// a quarter of the span, unless they move it to its latest time; a third is more.
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

// moved returns the end after progress at time at.
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

// move applies progress at time at.
func (w *allowance) move(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end = w.moved(at)
	w.wind(time.Until(w.end))
}

// stop stops the timer.
func (w *allowance) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
}
