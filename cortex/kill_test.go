package cortex_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// twoSteps is a decider whose turns take two steps: two agents at once, then a third.
var twoSteps = simple(func(t *llm.Turn) *llm.Decision {
	switch len(t.Steps) {
	case 0:
		return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}, llm.Delegation{ID: "2", Agent: "beta", Task: "b"})
	case 1:
		return delegate(llm.Delegation{ID: "1", Agent: "gamma", Task: results(t)})
	}
	return respond(results(t))
})

const twoStepsAnswer = "gamma COMPLETED did alpha COMPLETED did a; beta COMPLETED did b; ; "

// TestKilledAtEveryStep ends the orchestrator before and after everything that it does in a turn, one place after the other,
// and starts another one: each time there is exactly one answer, and no task was made twice.
func TestKilledAtEveryStep(t *testing.T) {
	for at := int64(1); ; at++ {
		survived := false
		synctest.Test(t, func(t *testing.T) { survived = killedAt(t, at) })
		if survived {
			if at < 30 {
				t.Errorf("the turn had only %d steps: the fatal step is not everywhere", at)
			}
			return
		}
		if t.Failed() {
			t.Fatalf("killed at step %d", at)
		}
	}
}

// killedAt runs a turn whose orchestrator dies at a step, and reports whether the turn ended before that.
func killedAt(t *testing.T, at int64) (survived bool) {
	w := newWorld(t, twoSteps)
	w.stop()
	w.serveAgents()
	died := make(chan struct{})
	dead := errors.New("killed")
	m := &mortal{dieAt: at, die: func() error { // returned by every step from the fatal one on
		select {
		case <-died:
		default:
			close(died)
		}
		return dead
	}}
	w.start(mortalConfig(cortex.Config{Transport: w.bus, Store: w.store, Decider: twoSteps}, m))
	w.say("m1", "go")
	select {
	case <-died:
	default:
		survived = true
	}
	w.stop()
	w.start(cortex.Config{Decider: twoSteps})
	pass(time.Second)
	w.wantAnswer("m1", twoStepsAnswer)
	if n := len(entries(t, w.store)); n != 4 {
		t.Errorf("%d entries, want 4: the message and three results", n)
	}
	for _, id := range agentIDs {
		ids := map[a2a.TaskID]bool{}
		for _, e := range w.tasksOf(id) {
			ids[e.TaskID] = true
		}
		if len(ids) != 1 {
			t.Errorf("%s got %d different tasks, want 1", id, len(ids))
		}
	}
	if len(w.liveAnswers()) == 0 {
		t.Error("the answer was not shown")
	}
	return survived
}

// serveAgents lets the agents do what comes to them, from now on.
func (w *world) serveAgents() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.diligent = true
}

// do answers a task.
func (w *world) do(agent string, e *transport.Event) {
	text := "did " + transport.Text(e.Payload.(*a2a.Message).Parts)
	r := resultEvent("r-"+string(e.TaskID), agent, e.TaskID, a2a.TaskStateCompleted, text)
	if err := w.bus.Publish(w.t.Context(), transport.Inbox("", transport.Cortex), r); err != nil {
		w.t.Error(err)
	}
}
