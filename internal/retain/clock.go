package retain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/internal/rest"
)

const (
	clockEvery = time.Minute      // between two comparisons of the wall clock with the time that has passed
	clockSaved = 5 * time.Minute  // between two writes of clockFile
	clockLeast = 10 * time.Minute // a smaller difference is ignored
	clockTold  = time.Hour        // a smaller difference is neither logged nor shown in /readyz

	// unprovenFor is how long a difference between two runs of the service counts, in running time of the service. A machine that was off
	// cannot be told from a clock that was wrong, and a day leaves time to read the warning.
	unprovenFor = 24 * time.Hour

	clockFar  = 365 * 24 * time.Hour        // the time of the last run is wrong if it is so far ahead of now
	clockLost = retainDays * 24 * time.Hour // the step that is assumed when the steps of the last run are lost
)

func ClockFile(data string) string { return filepath.Join(data, "clock.json") }

// Clock corrects timestamps of the wall clock. When a clock that was slow is set forward, records that are minutes old look as old as the
// clock was wrong, and everything that deletes by age would delete them. So Clock compares the wall clock with the time that has passed,
// remembers each step forward, and moves earlier timestamps forward by as much. Its methods are safe for concurrent use.
type Clock struct {
	now    func() time.Time
	passed func() time.Duration // since a fixed moment; it does not follow the wall clock
	file   string               // stores the steps for the next run; "" for no file
	Retain time.Duration        // how long conversations are kept; 0 is unlimited
	log    *slog.Logger

	mu    sync.Mutex
	off   time.Duration // how far the wall clock is ahead of the store's, when that is too far to delete anything by age
	last  time.Time     // the wall clock at the last comparison
	at    time.Duration // the time passed at the last comparison
	saved time.Duration // the time passed at the last write of file
	steps []clockStep   // forward, oldest first
	sets  int           // how often the clock was set, in either direction

	unknown, unsaved rest.Failing // the store's clock, and file
}

// clockPatience is how long the store's clock may be unknown before that is a warning.
const clockPatience = 10 * time.Minute

// clockStep is a step of the clock forward, beyond the time that passed.
type clockStep struct {
	From time.Time     `json:"from"` // the clock before the step
	By   time.Duration `json:"by"`
	Left time.Duration `json:"left"` // the remaining time that the step counts, in running time of the service
	Told bool          `json:"told"` // shown in /readyz
}

// clockMemory is the content of clockFile.
type clockMemory struct {
	Last  time.Time   `json:"last"`
	Steps []clockStep `json:"steps,omitempty"`
}

// NewClock returns a clock that continues from file, or, without a file, from the time when something was stored last; zero is never. After a
// damaged file it takes nothing for old that was dated before, for unprovenFor.
func NewClock(now func() time.Time, passed func() time.Duration, file string, stored time.Time, retain time.Duration, log *slog.Logger) *Clock {
	c := &Clock{now: now, passed: passed, file: file, Retain: retain, log: log, last: now().Round(0), at: passed()}
	was, err := recallClock(file, c.last)
	switch {
	case err == nil && was.Last.IsZero():
		was.Last = stored
	case err != nil:
		log.Warn("what is known of the clock is lost: nothing that was dated before is deleted for now", "err", err, "deletes_after", unprovenFor)
		c.steps = append(c.steps, clockStep{From: c.last, By: clockLost, Left: unprovenFor, Told: true})
	}
	if !was.Last.IsZero() {
		c.steps = was.Steps
		for i := range c.steps { // --retain may have been longer
			c.steps[i].Left = min(c.steps[i].Left, c.counts())
		}
		from := was.Last.Add(clockSaved) // the last run dated nothing later, even after its last write
		if by := c.last.Sub(from); by >= clockLeast {
			step := clockStep{From: from, By: by, Left: unprovenFor, Told: retain > 0 && by >= retain/2}
			if step.Told {
				log.Warn("the clock is far ahead of the last run of the service: if it was wrong then, or is now, set it right, or start with a larger --retain, before old conversations are deleted",
					"last_run", was.Last, "now", c.last, "deletes_after", unprovenFor)
			}
			c.steps = append(c.steps, step)
		} else if back := c.last.Sub(was.Last); back <= -clockLeast {
			c.step(back)
		}
	}
	c.save()
	return c
}

// recallClock reads what the last run has left in file; nothing when there is no file.
func recallClock(file string, now time.Time) (was clockMemory, err error) {
	if file == "" {
		return was, nil
	}
	b, err := datadir.Read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return was, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &was)
	}
	if err == nil {
		err = was.check(now)
	}
	if err != nil {
		return clockMemory{}, fmt.Errorf("%s: %w", file, err)
	}
	return was, nil
}

// check returns what no run of the service can have written. Data could be deleted too early by it, or never.
func (m *clockMemory) check(now time.Time) error {
	switch {
	case m.Last.IsZero():
		return errors.New("it has no time")
	case m.Last.Sub(now) > clockFar:
		return fmt.Errorf("its time is %s, far from now", m.Last.Format(time.RFC3339))
	}
	for i, s := range m.Steps {
		switch {
		case s.By <= 0:
			return fmt.Errorf("step %d of the clock is %s, not forward", i+1, s.By)
		case s.Left <= 0 || s.Left > clockLost+unprovenFor:
			return fmt.Errorf("step %d of the clock counts for %s more, not between 0 and %s", i+1, s.Left, clockLost+unprovenFor)
		case s.From.IsZero() || s.From.Sub(m.Last) > clockLeast: // smaller steps back are ignored
			return fmt.Errorf("step %d of the clock is from %s, not from before %s", i+1, s.From.Format(time.RFC3339), m.Last.Format(time.RFC3339))
		}
	}
	return nil
}

// agrees compares the wall clock with that of the store, which others may use too. It returns false, so that nothing is deleted by age, when they differ
// by clockLeast or more, or when the store cannot be asked.
func (c *Clock) agrees(ctx context.Context, store storage.Store) bool {
	by, ok := store.(storage.Clock)
	if !ok {
		return true
	}
	theirs, _, err := by.Clock(ctx)
	if c.unknown.Tell(err, clockPatience) && ctx.Err() == nil {
		c.log.Warn("the store's clock cannot be asked: nothing is deleted by age until it can", "err", err)
	}
	if err != nil {
		c.log.Debug("nothing is deleted by age: the store's clock is unknown", "err", err)
		return false
	}
	ours := c.read()
	if theirs.IsZero() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.off
	c.off = 0
	if by := ours.Sub(theirs); by.Abs() >= clockLeast {
		c.off = by
	}
	if c.off != 0 && before == 0 {
		c.log.Warn("the clock of this machine and that of the store's server differ: nothing is deleted by age until they agree; set the wrong one right",
			"by", c.off.Round(time.Second), "now", ours, "server", theirs)
	}
	return c.off == 0
}

// read returns the time of the wall clock, after comparing it with the time that has passed.
func (c *Clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, at := c.now().Round(0), c.passed()
	passed := at - c.at
	step := now.Sub(c.last) - passed
	c.last, c.at = now, at
	for i := range c.steps {
		c.steps[i].Left -= passed
	}
	c.steps = slices.DeleteFunc(c.steps, func(s clockStep) bool { return s.Left <= 0 })
	if step.Abs() >= clockLeast {
		c.sets++
		c.step(step)
	}
	if step.Abs() >= clockLeast || at-c.saved >= clockSaved {
		c.save()
	}
	return now
}

// step records that the clock went further than the time that passed, by so much; a negative step went back. The caller holds c.mu.
func (c *Clock) step(by time.Duration) {
	told := by.Abs() >= clockTold
	if told {
		c.log.Warn("the clock was set, or the machine slept: what was dated before is kept as if it had not been set", "by", by.Round(time.Second), "now", c.last)
	}
	if by > 0 {
		c.steps = append(c.steps, clockStep{From: c.last.Add(-by), By: by, Left: c.counts(), Told: told})
		return
	}
	for back := -by; back > 0 && len(c.steps) > 0; { // a step back undoes the last steps forward
		last := &c.steps[len(c.steps)-1]
		undone := min(back, last.By)
		back, last.By = back-undone, last.By-undone
		if last.By == 0 {
			c.steps = c.steps[:len(c.steps)-1]
		}
	}
	for i := range c.steps { // what is dated later than now is not old anyway
		if c.steps[i].From.After(c.last) {
			c.steps[i].From = c.last
		}
	}
}

// counts returns how long a step counts: after that time everything dated before it is older than it is kept.
func (c *Clock) counts() time.Duration { return max(c.Retain, erase.LooseFor) + unprovenFor }

// dated corrects the timestamp t: it returns the time by the clock as it is now.
func (c *Clock) dated(t time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.steps {
		if !t.After(s.From) {
			t = t.Add(s.By)
		}
	}
	return t
}

// times returns how often the clock was set.
func (c *Clock) times() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sets
}

// Trouble returns a line for each large step that still counts.
func (c *Clock) Trouble() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	if c.off != 0 {
		lines = append(lines, fmt.Sprintf("clock: it differs from the store's server by %s; nothing is deleted by age until they agree", c.off.Round(time.Minute)))
	}
	for _, s := range c.steps {
		switch {
		case s.By >= clockLost:
			lines = append(lines, fmt.Sprintf("clock: what was known of it is lost; what was dated before %s is not deleted for %s more",
				s.From.Format(time.DateTime), s.Left.Round(time.Minute)))
		case s.Told:
			lines = append(lines, fmt.Sprintf("clock: it went forward by %s at %s; what was dated before is taken for as much younger for %s more",
				s.By.Round(time.Minute), s.From.Format(time.DateTime), s.Left.Round(time.Minute)))
		}
	}
	return lines
}

// save writes file. The caller holds c.mu, or is the only user of c. A failure is harmless: the next run remembers fewer steps.
func (c *Clock) save() {
	if c.file == "" {
		return
	}
	c.saved = c.at
	if b, err := json.Marshal(clockMemory{Last: c.last, Steps: c.steps}); err == nil {
		err := datadir.Leave(c.file, b)
		if c.unsaved.Tell(err, 0) {
			c.log.Warn("the time is not written down for the next run, which may take something for older than it is if the clock was set", "file", c.file, "err", err)
		}
	}
}

// Watch reads the clock once a minute until ctx ends.
func (c *Clock) Watch(ctx context.Context) {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.read()
		case <-ctx.Done():
			c.read()
			c.mu.Lock()
			defer c.mu.Unlock()
			c.save()
			return
		}
	}
}
