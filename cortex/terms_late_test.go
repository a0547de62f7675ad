package cortex_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/llm"
)

// TestTaskTimeoutAfterALongThought has the decision take longer than the agent's timeout: that time, on its card or not, begins when the agent
// gets the task.
func TestTaskTimeoutAfterALongThought(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := decideFunc(func(ctx context.Context, t *llm.Turn, stream func(string)) (*llm.Decision, error) {
			if len(t.Steps) > 0 {
				return respond(results(t)), nil
			}
			<-time.After(time.Minute)
			return delegate(toAlpha, llm.Delegation{ID: "2", Agent: "beta", Task: "b"}), nil
		})
		w := newSpecWorld(t, decider, map[string]agentcard.Spec{"alpha": within(10 * time.Second)})
		w.say("m1", "go")
		pass(time.Minute + 9*time.Second)
		if running := w.load().Running(); len(running) != 2 {
			t.Fatalf("running: %v, want both tasks", running)
		}
		pass(2 * time.Second)
		if running := w.load().Running(); len(running) != 1 || running[0].Agent != "beta" {
			t.Fatalf("running: %v, want beta's task", running)
		}
		pass(5*time.Minute - 12*time.Second)
		w.wantAnswer("m1", "")
		pass(2 * time.Second)
		w.wantAnswer("m1", "alpha FAILED no result within 10s; beta FAILED no result within 5m0s; ")
		w.wantFold()
	})
}

// TestTaskTimeoutOnAFullDisk has the entry of a decision stored long after it was made.
func TestTaskTimeoutOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agents := specified(map[string]agentcard.Spec{"alpha": within(10 * time.Minute)})
		decider := costing(answering)
		w := newWorld(t, decider)
		s := w.fill(cortex.Config{Decider: decider, Agents: agents})
		w.say("m1", "work")
		pass(time.Hour)
		s.room.Store(true)
		pass(2 * time.Minute)
		w.finish("alpha", w.onlyTask("alpha"), "done")
		if n := len(w.decisions()); n != 2 || results(w.decisions()[1]) != "alpha COMPLETED done; " {
			t.Errorf("%d decisions, the last with %q", n, results(w.decisions()[n-1]))
		}
		w.wantFold()
	})
}
