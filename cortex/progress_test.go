package cortex_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

// working is an agent's report that it is at work.
func working(id, agent string, task a2a.TaskID) *transport.Event {
	return &transport.Event{
		ID: id, Time: time.Now(), From: agent, ContextID: theContext, TaskID: task,
		Payload: &a2a.TaskStatusUpdateEvent{TaskID: task, ContextID: theContext, Status: a2a.TaskStatus{State: a2a.TaskStateWorking}},
	}
}

// TestProgressMovesTheDeadline has an agent report progress now and then: it gets more time, up to a limit, and no decision is made
// for that. The orchestrator is restarted in between.
func TestProgressMovesTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := once(toAlpha)
		w := newWorld(t, d)
		cfg := cortex.Config{Decider: d, Policy: rules(t, alone)}
		w.restart(cfg)
		w.say("m1", "go")
		id := w.onlyTask("alpha")
		began := time.Now()
		for i := range 11 { // the last move is by less than a quarter
			pass(95 * time.Second)
			w.publish(working(fmt.Sprint("p", i), "alpha", id))
			want := min(time.Since(began)+5*time.Minute, conversation.MaxExtension*5*time.Minute)
			if at := w.load().Tasks[id]; at.Deadline.Sub(began) != want || at.State() != a2a.TaskStateWorking {
				t.Fatalf("after %v: %s until %v, want until %v", time.Since(began), at.State(), at.Deadline.Sub(began), want)
			}
			w.wantFold()
			if i == 5 {
				w.restart(cfg)
			}
		}
		pass(20*time.Minute - time.Since(began) - time.Second)
		w.wantAnswer("m1", "")
		pass(time.Second)
		w.wantAnswer("m1", "alpha FAILED no result within 20m0s; ")
		if n := len(w.decisions()); n != 2 {
			t.Errorf("%d decisions, want 2", n)
		}
	})
}

// TestProgressIsBounded has an agent report every second, and others report on its task: the log does not grow with that.
func TestProgressIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := once(toAlpha)
		w := newWorld(t, d)
		w.restart(cortex.Config{Decider: d, Policy: rules(t, alone)})
		w.say("m1", "go")
		id := w.onlyTask("alpha")
		for i := range 60 {
			w.publish(working(fmt.Sprint("beta", i), "beta", id))
			w.publish(resultEvent(fmt.Sprint("sub", i), "alpha", id, a2a.TaskStateSubmitted, ""))
			if n := len(entries(t, w.store)); n != 1 {
				t.Fatalf("%d entries, want 1: it is not beta's task, and submitted is no progress", n)
			}
			pass(time.Second)
		}
		for i := range 20 * 60 {
			w.publish(working(fmt.Sprint("p", i), "alpha", id))
			pass(time.Second)
		}
		if n := len(entries(t, w.store)); n > 16 {
			t.Errorf("%d entries, want at most 16", n)
		}
		w.wantAnswer("m1", "alpha FAILED no result within 20m0s; ")
		n := len(entries(t, w.store))
		w.publish(working("late", "alpha", id))
		if len(entries(t, w.store)) != n {
			t.Error("progress of a finished task is in the log")
		}
	})
}

// TestProgressAfterTheDeadline has the orchestrator stopped when the deadline passes, while the agent goes on.
func TestProgressAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := once(toAlpha)
		w := newWorld(t, d)
		w.say("m1", "go")
		w.stop()
		id := w.onlyTask("alpha")
		w.publish(working("p1", "alpha", id))
		pass(6 * time.Minute)
		w.start(cortex.Config{Decider: d})
		pass(time.Second)
		w.wantTasks("beta", 0)
		w.finish("alpha", id, "A")
		w.wantAnswer("m1", "alpha COMPLETED A; ")
	})
}

// TestProgressIsTheAgentsThatHasIt has an agent report on a task that was given to another one.
func TestProgressIsTheAgentsThatHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(toAlpha))
		w.say("m1", "go")
		id := w.onlyTask("alpha")
		pass(8 * time.Minute)
		w.publish(working("p1", "alpha", id))
		pass(2 * time.Minute)
		w.wantTasks("gamma", 1)
	})
}
