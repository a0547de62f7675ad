package cortex_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
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

// frugal makes a decider with costs that has all earlier turns summarised.
func frugal(d decideFunc) compacting {
	return compacting{costing(d), func(_ context.Context, t *llm.Turn, _ bool) (*llm.Summary, error) {
		if len(t.History) == 0 {
			return nil, nil
		}
		s := summaryOf(t)
		s.Usage = each
		return s, nil
	}}
}

const twoStepsAnswer = "gamma COMPLETED did alpha COMPLETED did a; beta COMPLETED did b; ; "

// TestKilledAtEveryStep kills the orchestrator before and after each of its steps in a turn, one step after the other,
// and starts another one: each time there is exactly one answer, and no task was made twice. What was spent is in the log
// once, and in the spend log at least once.
func TestKilledAtEveryStep(t *testing.T) {
	for name, test := range map[string]struct {
		decider llm.Decider
		steps   int64 // at least
		cost    int   // of the turn's entries, in decisions
	}{"fake": {twoSteps, 30, 0}, "model": {frugal(twoSteps), 40, 4}} {
		t.Run(name, func(t *testing.T) {
			for at := int64(1); ; at++ {
				survived := false
				synctest.Test(t, func(t *testing.T) { survived = killedAt(t, at, test.decider, test.cost) })
				if survived {
					if at < test.steps {
						t.Errorf("the turn had only %d steps: the fatal step is not everywhere", at)
					}
					return
				}
				if t.Failed() {
					t.Fatalf("killed at step %d", at)
				}
			}
		})
	}
}

// killedAt runs a turn whose orchestrator dies at a step, and reports whether the turn ended before that.
func killedAt(t *testing.T, at int64, decider llm.Decider, cost int) (survived bool) {
	w := newWorld(t, simple(func(*llm.Turn) *llm.Decision { return respond("ready") }))
	w.say("m0", "hello")
	w.stop()
	w.serveAgents()
	died := make(chan struct{})
	dead := errors.New("killed")
	m := &mortal{dieAt: at, die: func() error { // every step from the fatal one on returns it
		select {
		case <-died:
		default:
			close(died)
		}
		return dead
	}}
	offer := func(string) []prompt.Agent { return append(offered(""), actor("delta", "came meanwhile")) }
	w.start(mortalConfig(cortex.Config{Transport: w.bus, Store: w.store, Decider: decider, Agents: offer}, m))
	w.say("m1", "go")
	select {
	case <-died:
	default:
		survived = true
	}
	w.stop()
	w.start(cortex.Config{Decider: decider, Agents: offer})
	pass(time.Second)
	w.wantAnswer("m1", twoStepsAnswer)
	log := entries(t, w.store)
	if n := len(log); n != 5 {
		t.Errorf("%d entries, want 5: two messages and three results", n)
	}
	if n := w.rosters(); n != 2 || log[1].Roster == nil {
		t.Errorf("%d entries with a roster, want those of the two messages", n)
	}
	if _, ok := decider.(llm.Compactor); ok != (log[1].Summary != nil) || ok && (log[1].Usage != each || log[1].Summary.Turns != 1) {
		t.Errorf("the entry of the second message has the summary %+v for %+v", log[1].Summary, log[1].Usage)
	}
	want := times(cost, each)
	if got := w.load().Usage; got != want {
		t.Errorf("the conversation cost %+v, want %+v", got, want)
	}
	if got := w.spentOn(time.Now()); got.Tokens() < want.Tokens() || got.Tokens() > want.Tokens()+2*each.Tokens() {
		t.Errorf("spent today %+v, want at least %+v, and at most one entry more", got, want)
	}
	if live, err := w.orch.Fold(theContext); err == nil && live != nil {
		w.wantFold()
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

// serveAgents has the agents do their tasks from now on.
func (w *world) serveAgents() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.diligent = true
}

// do answers a task.
func (w *world) do(agent string, e *transport.Event) {
	text := "did " + transport.Text(e.Payload.(*a2a.Message).Parts)
	r := resultEvent("r-"+string(e.TaskID), agent, e.TaskID, a2a.TaskStateCompleted, text)
	r.ContextID = e.ContextID
	if err := w.bus.Publish(w.t.Context(), transport.Inbox("", transport.Cortex), r); err != nil {
		w.t.Error(err)
	}
}
