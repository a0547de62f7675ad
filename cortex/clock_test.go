package cortex_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
)

// TestClockStepsBack has the clock step back by an hour between two readings, while a deadline is being handled.
func TestClockStepsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := once(llm.Delegation{ID: "1", Agent: "alpha", Task: "x"}) // no other agent can do it
		w := newWorld(t, d)
		due := time.Now().Add(5 * time.Minute)
		var readings atomic.Int32
		w.restart(cortex.Config{Decider: d, Now: func() time.Time {
			now := time.Now()
			if !now.Before(due) && readings.Add(1) > 1 {
				return now.Add(-time.Hour)
			}
			return now
		}})
		w.say("m1", "go")
		w.onlyTask("alpha")
		pass(5*time.Minute + time.Second)
		w.wantAnswer("m1", "alpha FAILED no result within 5m0s; ")
		if got := w.orch.Trouble(); len(got) != 0 {
			t.Errorf("trouble %q", got)
		}
	})
}

// reading returns what [time.Now] does when the wall clock says wall and an amount of time has passed by the clock that nobody sets. Package synctest
// has the former alone.
func reading(t *testing.T, wall time.Time, passed time.Duration) time.Time {
	now := wall
	is := (*struct { // the beginning of a [time.Time] with a monotonic reading
		wall   uint64 // a flag, the seconds since 1885, and 30 bits of nanoseconds
		passed int64
	})(unsafe.Pointer(&now))
	is.wall = 1<<63 | uint64(wall.Unix()-time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix())<<30 | uint64(wall.Nanosecond()) //nolint:gosec // they are positive
	is.passed = int64(passed)
	if got := now.Round(0); !got.Equal(wall) || now.Sub(now.Add(-time.Hour)) != time.Hour {
		t.Fatalf("the clock says %v, want %v", got, wall)
	}
	return now
}

// TestClockIsSet has the wall clock of the orchestrator set while an agent works, by an hour or a month in either direction, and that of the transport as well, or not. The
// task ends at its deadline by the wall clock, or a moment after it was set forward, and what is in memory is what the log says.
func TestClockIsSet(t *testing.T) {
	const month = 30 * 24 * time.Hour
	for _, by := range []time.Duration{time.Hour, -time.Hour, month, -month} {
		for name, both := range map[string]bool{"both": true, "one": false} {
			t.Run(by.String()+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := once(toAlpha)
					w := newWorld(t, d)
					w.stop()
					var off atomic.Int64
					bus := &ahead{Transport: w.bus}
					began := time.Now()
					w.start(cortex.Config{Transport: bus, Decider: d, Policy: rules(t, alone), Now: func() time.Time {
						return reading(t, time.Now().Add(time.Duration(off.Load())), time.Since(began))
					}})
					w.say("m1", "go")
					w.onlyTask("alpha")
					pass(time.Minute)
					off.Store(int64(by))
					if both {
						bus.set(by)
					}
					pass(4*time.Minute + time.Second)
					pass(max(-by, 0))
					w.wantAnswer("m1", "alpha FAILED no result within 5m0s; ")
					conv, err := storage.Load(t.Context(), w.store, "", theContext)
					if err != nil || len(conv.Tasks) != 1 {
						t.Fatalf("the log has %d tasks, %v, want one", len(conv.Tasks), err)
					}
					for _, task := range conv.Tasks {
						if task.Phase != conversation.Failed || task.Result != "no result within 5m0s" {
							t.Errorf("by the log the task is %v with %q", task.Phase, task.Result)
						}
					}
					if n := bus.timers.Load(); n > 3 {
						t.Errorf("%d timers were set, want at most 3", n)
					}
				})
			})
		}
	}
}

// TestGraceByTheOwnClock has the orchestrator's clock run ten times as fast as the others: it decides when an agent is gone.
func TestGraceByTheOwnClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLeaving(t, once(toAlpha))
		began := time.Now()
		cfg := w.config(once(toAlpha))
		cfg.Now = func() time.Time { return began.Add(10 * time.Since(began)) }
		cfg.TaskTimeout = time.Hour
		w.restart(cfg)
		w.say("m1", "go")
		w.leave("alpha")
		w.orch.AgentGone("nobody") // so that the clock is read again
		pass(2 * time.Second)
		w.orch.AgentGone("nobody else")
		pass(23 * time.Second) // the transport's timers use another clock
		w.onlyTask("beta")
	})
}
