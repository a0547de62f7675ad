package retain

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// quartz returns a wall clock that is never set.
func quartz(now func() time.Time, retain time.Duration) *Clock {
	began := now()
	return NewClock(now, func() time.Duration { return now().Sub(began) }, "", time.Time{}, retain, slog.New(slog.DiscardHandler))
}

// settable is a wall clock that a test sets, in a bubble of synctest.
type settable struct{ ahead atomic.Int64 }

func (s *settable) now() time.Time       { return time.Now().Add(time.Duration(s.ahead.Load())) }
func (s *settable) set(by time.Duration) { s.ahead.Add(int64(by)) }
func (s *settable) wall(file string, retain time.Duration, told *strings.Builder) *Clock {
	began := time.Now()
	return NewClock(s.now, func() time.Duration { return time.Since(began) }, file, time.Time{}, retain, slog.New(slog.NewTextHandler(told, nil)))
}

// datedBy is a bus with the clock of a test.
type datedBy struct {
	*memory.Bus
	of     *settable
	stored map[transport.Object]time.Time
}

func (b *datedBy) PutChunk(ctx context.Context, o transport.Object, n int, sealed []byte) error {
	b.stored[o] = b.of.now()
	return b.Bus.PutChunk(ctx, o, n, sealed)
}

func (b *datedBy) Stored(ctx context.Context, o transport.Object) (time.Time, int64, error) {
	_, bytes, err := b.Bus.Stored(ctx, o)
	return b.stored[o], bytes, err
}

// TestClockSetRight lets the clock be 40 days slow and set right while the service runs, or between two runs of it. A conversation and a file that
// are minutes old stay. What was too old before is deleted nevertheless, and later data is deleted by the time that has passed.
func TestClockSetRight(t *testing.T) {
	const wrong = 40 * day
	for name, restarted := range map[string]bool{"while it runs": false, "between two runs": true} {
		t.Run(name, func(t *testing.T) {
			file := ""
			if restarted {
				file = filepath.Join(t.TempDir(), "clock.json")
			}
			synctest.Test(t, func(t *testing.T) {
				var told strings.Builder
				var hands settable
				hands.set(-wrong)
				store, bus := memstore.New(), &datedBy{memory.New(nil), &hands, map[transport.Object]time.Time{}}
				defer bus.Close()
				log := slog.New(slog.DiscardHandler)
				clock := hands.wall(file, 30*day, &told)
				run := func() (stop func()) {
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan struct{}, 3)
					for _, part := range []func(){
						func() { clock.Watch(ctx) },
						func() { Conversations(ctx, func() bool { return true }, store, bus, "", t.TempDir(), clock, log) },
						func() {
							Files(ctx, func() bool { return true }, func() bool { return false }, store, bus, "", clock, func([]erase.Loose) {}, log)
						},
					} {
						go func() {
							part()
							done <- struct{}{}
						}()
					}
					return func() {
						cancel()
						for range 3 {
							<-done
						}
					}
				}
				stop := run()
				time.Sleep(2 * time.Hour)
				addTurn(t, store, "old", hands.now().Add(-31*day), true)
				addTurn(t, store, "new", hands.now(), true)
				ref, err := transport.PutFile(t.Context(), bus, "", "new", "user:ada", strings.NewReader("words"), 10)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if restarted {
					stop()
				}
				hands.set(wrong)
				if restarted {
					clock = hands.wall(file, 30*day, &told)
					stop = run()
				}
				defer func() { stop() }()
				time.Sleep(10 * time.Minute)
				if _, err := bus.Chunk(t.Context(), ref.Object, 0); err != nil {
					t.Errorf("a file of minutes ago: %v, want it", err)
				}
				time.Sleep(2 * time.Hour)
				if left := contextIDs(t, store); !left["new"] || left["old"] {
					t.Errorf("two hours after the clock was set right, %v are left, want the new one", left)
				}
				if _, err := bus.Chunk(t.Context(), ref.Object, 0); err == nil {
					t.Error("a file that nothing names is there after two hours")
				}
				if lines := clock.Trouble(); len(lines) != 1 || !strings.Contains(lines[0], "clock: it went forward by 9") {
					t.Errorf("/readyz says %q, want what was set", lines)
				}
				if !strings.Contains(told.String(), "level=WARN") {
					t.Errorf("the log says %q, want a warning", told.String())
				}
				if restarted {
					return // the clocks cannot be distinguished for longer than a day
				}
				time.Sleep(27 * day)
				if left := contextIDs(t, store); !left["new"] {
					t.Error("the conversation is deleted after 27 days")
				}
				time.Sleep(5 * day)
				if left := contextIDs(t, store); len(left) > 0 {
					t.Errorf("after 32 days %v are left, want none", left)
				}
			})
		})
	}
}

// TestClockSetForthAndBack sets the clock wrong for a moment: data from that time and before is dated correctly.
func TestClockSetForthAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told strings.Builder
		var hands settable
		clock := hands.wall("", 30*day, &told)
		before := clock.read()
		time.Sleep(time.Hour)
		hands.set(100 * day)
		if got := clock.read().Sub(clock.dated(before)); got != time.Hour {
			t.Errorf("when the clock was set forward, something is %v old, want an hour", got)
		}
		time.Sleep(time.Hour)
		hands.set(-100 * day)
		if got := clock.read().Sub(clock.dated(before)); got != 2*time.Hour {
			t.Errorf("when the clock was set back, something is %v old, want two hours", got)
		}
		if lines := clock.Trouble(); len(lines) > 0 || clock.times() != 2 {
			t.Errorf("the clock is right, was set %d times, and /readyz says %q", clock.times(), lines)
		}
		time.Sleep(100 * day)
		if got := clock.read().Sub(clock.dated(before)); got != 100*day+2*time.Hour || clock.times() != 2 {
			t.Errorf("months later something is %v old, and the clock was set %d times", got, clock.times())
		}
	})
}

// dated is a store with a clock of its own.
type dated struct {
	*memstore.Store
	of   *settable
	at   map[string]time.Time // when conversations were stored by that clock
	last time.Time
	err  error
}

func (s *dated) Clock(context.Context) (now, last time.Time, err error) {
	return s.of.now(), s.last, s.err
}

func (s *dated) Stored(_ context.Context, _, contextID string) (time.Time, error) {
	return s.at[contextID], s.err
}

// TestClockFailures has a store whose clock cannot be asked, and a folder where the time cannot be written: each is told once, since nothing is deleted by age
// meanwhile, or too much by the next run.
func TestClockFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told strings.Builder
		var ours settable
		file := filepath.Join(t.TempDir(), "none", "clock.json")
		clock := ours.wall(file, 30*day, &told)
		store := &dated{Store: memstore.New(), of: &ours, err: transport.ErrUnavailable}
		for range 60 {
			if clock.agrees(t.Context(), store) {
				t.Fatal("a clock that is unknown agrees")
			}
			time.Sleep(time.Minute) // by the bubble's clock
			clock.read()
		}
		for _, want := range []string{"the store's clock cannot be asked", "the time is not written down"} {
			if n := strings.Count(told.String(), want); n != 1 {
				t.Errorf("%q is told %d times:\n%s", want, n, &told)
			}
		}
	})
}

// TestClockOfTheServer has the clock of this machine, or that of the server, be wrong all the time: nothing is deleted by age until they agree.
func TestClockOfTheServer(t *testing.T) {
	for name, by := range map[string]struct{ ours, theirs time.Duration }{
		"ours is ahead": {40 * day, 0}, "ours is behind": {-40 * day, 0}, "theirs is ahead": {0, 11 * time.Minute}, "theirs is unknown": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told strings.Builder
				var ours, theirs settable
				ours.set(by.ours)
				theirs.set(by.theirs)
				store := &dated{Store: memstore.New(), of: &theirs}
				if by == (struct{ ours, theirs time.Duration }{}) {
					store.err = transport.ErrUnavailable
				}
				bus := memory.New(nil)
				defer bus.Close()
				clock := ours.wall("", 30*day, &told)
				addTurn(t, store, "c", ours.now().Add(-31*day), true)
				ref, err := transport.PutFile(t.Context(), bus, "", "c", "user:ada", strings.NewReader("words"), 10)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{}, 2)
				log := slog.New(slog.DiscardHandler)
				leads := func() bool { return true }
				go func() {
					Conversations(ctx, leads, store, bus, "", t.TempDir(), clock, log)
					done <- struct{}{}
				}()
				go func() {
					Files(ctx, leads, func() bool { return false }, store, bus, "", clock, func([]erase.Loose) {}, log)
					done <- struct{}{}
				}()
				time.Sleep(3 * time.Hour)
				synctest.Wait()
				if _, err := bus.Chunk(t.Context(), ref.Object, 0); err != nil || !contextIDs(t, store)["c"] {
					t.Errorf("the file: %v, and %v are left, want both", err, contextIDs(t, store))
				}
				if n := strings.Count(told.String(), "the clock of this machine and that of the store's server differ"); store.err == nil && n != 1 {
					t.Errorf("it was told %d times that the clocks differ, want once: %s", n, told.String())
				}
				if lines := clock.Trouble(); store.err == nil && (len(lines) != 1 || !strings.Contains(lines[0], "nothing is deleted by age")) {
					t.Errorf("/readyz says %q, want that the clocks differ", lines)
				}
				cancel()
				<-done
				<-done
			})
		})
	}
}

// TestStoredWhileSlow has a process whose clock is 40 days behind add to a conversation: by the server's clock that was just now, so it stays.
func TestStoredWhileSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, bus := &dated{Store: memstore.New(), of: new(settable), at: map[string]time.Time{}}, memory.New(nil)
		defer bus.Close()
		for _, id := range []string{"new", "old"} {
			addTurn(t, store, id, time.Now().Add(-40*day), true)
			store.at[id] = time.Now().Add(-40 * day)
		}
		store.at["new"] = time.Now().Add(-time.Minute)
		n, err := sweepRetained(t.Context(), store, bus, "", t.TempDir(), quartz(time.Now, 30*day), slog.New(slog.DiscardHandler))
		if left := contextIDs(t, store); n != 1 || err != nil || !left["new"] {
			t.Errorf("sweepRetained = %d, %v, and %v are left, want the new one", n, err, left)
		}
	})
}

// TestClockUnknown begins without what the last run knew of the clock: with a damaged file nothing dated before is taken for old for a day, and
// without a file the time when something was stored last is that of the last run.
func TestClockUnknown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clock.json")
	step := func(from, by, left string) string { // times of a bubble are of the year 2000
		return `{"last":"1999-12-31T23:00:00Z","steps":[{"from":"` + from + `","by":` + by + `,"left":` + left + `}]}`
	}
	const before, hour = "1999-12-31T20:00:00Z", "3600000000000"
	for name, content := range map[string]string{
		"none": "", "cut": `{"last":"2026-`, "empty": `{}`, "another": "[1]",
		"from a far future":                `{"last":"2001-06-01T00:00:00Z"}`,
		"with a step back":                 step(before, "-"+hour, hour),
		"with no step":                     step(before, "0", hour),
		"with a step that counts no more":  step(before, hour, "-"+hour),
		"with a step that counts for ever": step(before, hour, "9223372036854775807"),
		"with a step from no time":         step("0001-01-01T00:00:00Z", hour, hour),
		"with a step that is to come":      step("1999-12-31T23:30:00Z", hour, hour),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told strings.Builder
				var hands settable
				stored := hands.now().Add(-40 * day)
				if content == "" {
					os.Remove(file)
				} else if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				start := func() *Clock {
					return NewClock(hands.now, func() time.Duration { return time.Since(began) }, file, stored, 30*day, slog.New(slog.NewTextHandler(&told, nil)))
				}
				clock := start()
				if lines := clock.Trouble(); len(lines) != 1 || strings.Count(told.String(), "level=WARN") != 1 {
					t.Errorf("/readyz says %q, and the log %q, want one line in each", lines, told.String())
				}
				young := func() bool { return clock.read().Sub(clock.dated(stored)) < 30*day }
				if !young() {
					t.Error("what was stored last is old at once")
				}
				time.Sleep(time.Hour)
				clock.read()
				if clock = start(); !young() {
					t.Error("what was stored last is old after a restart")
				}
				time.Sleep(unprovenFor)
				clock.read()
				if young() || len(clock.Trouble()) > 0 {
					t.Errorf("after a day it is young: %v, and /readyz says %q", young(), clock.Trouble())
				}
			})
		})
	}
}
