package cortex_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex"
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
