package cortex_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// leaving is a world whose agents can leave.
type leaving struct {
	*world
	away map[string]bool
}

func newLeaving(t *testing.T, d llm.Decider) *leaving {
	w := &leaving{newWorld(t, d), map[string]bool{}}
	w.restart(w.config(d))
	return w
}

func (w *leaving) config(d llm.Decider) cortex.Config {
	return cortex.Config{Decider: d, Agents: func(string) []prompt.Agent {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.DeleteFunc(offered(""), func(a prompt.Agent) bool { return w.away[a.ID] })
	}}
}

func (w *leaving) leave(id string) {
	w.mu.Lock()
	w.away[id] = true
	w.mu.Unlock()
	w.orch.AgentGone(id)
}

// TestAgentGone has an agent leave for good: another agent gets its task after the grace period, long before its deadline.
func TestAgentGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLeaving(t, once(toAlpha))
		w.say("m1", "go")
		w.leave("alpha")
		pass(5 * time.Second)
		w.leave("alpha") // reported twice: the first report counts
		pass(4 * time.Second)
		w.wantTasks("beta", 0)
		pass(time.Second)
		if got := w.lines(a2a.TaskStateSubmitted); !slices.Equal(got, []string{"beta instead of alpha: the agent has gone"}) {
			t.Errorf("shown: %q", got)
		}
		w.finish("beta", w.onlyTask("beta"), "B")
		w.wantAnswer("m1", "beta COMPLETED B; ")
		w.wantFold()
	})
}

// TestLastAgentGone has the only agent leave while two turns wait for it.
func TestLastAgentGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLeaving(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 {
				return delegate(toAlpha, llm.Delegation{ID: "2", Agent: "beta", Task: "b"})
			}
			return respond(results(t))
		}))
		w.say("m1", "go")
		w.say("m2", "go")
		w.away["beta"], w.away["gamma"] = true, true
		w.finish("beta", w.tasksOf("beta")[0].TaskID, "B")
		w.leave("alpha")
		pass(11 * time.Second)
		w.wantAnswer("m1", "alpha FAILED the agent has gone; beta COMPLETED B; ")
		w.wantAnswer("m2", "")
		if n := len(w.stopped()); n != 2 {
			t.Errorf("%d tasks were stopped, want alpha's two", n)
		}
		w.finish("beta", w.tasksOf("beta")[1].TaskID, "B")
		w.wantAnswer("m2", "alpha FAILED the agent has gone; beta COMPLETED B; ")
		w.wantFold()
	})
}

// TestAgentBack has an agent leave for a moment, or a well-known agent for good: its task stays with it.
func TestAgentBack(t *testing.T) {
	for name, back := range map[string]func(w *leaving){
		"said":   func(w *leaving) { w.orch.AgentBack("alpha") },
		"listed": func(w *leaving) { w.mu.Lock(); defer w.mu.Unlock(); delete(w.away, "alpha") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLeaving(t, once(toAlpha))
				w.say("m1", "go")
				w.leave("alpha")
				pass(9 * time.Second)
				back(w)
				pass(time.Minute)
				w.wantTasks("beta", 0)
				if n := len(entries(t, w.store)); n != 1 {
					t.Errorf("%d entries, want 1", n)
				}
				w.finish("alpha", w.onlyTask("alpha"), "A")
				w.wantAnswer("m1", "alpha COMPLETED A; ")
			})
		})
	}
}

// TestGoneAndWorking has an agent report progress before the event that it is gone is handled.
func TestGoneAndWorking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := once(toAlpha)
		w := newWorld(t, d)
		w.say("m1", "go")
		id := w.onlyTask("alpha")
		w.stop()
		w.publish(goneEvent("g1", transport.Cortex, "alpha"))
		w.publish(working("p1", "alpha", id))
		w.start(cortex.Config{Decider: d})
		pass(time.Minute)
		w.wantTasks("beta", 0)
		w.publish(goneEvent("g2", transport.Cortex, "beta"))
		if n := len(entries(t, w.store)); n != 3 {
			t.Errorf("%d entries, want 3: beta had nothing to do", n)
		}
		w.finish("alpha", id, "A")
		w.wantAnswer("m1", "alpha COMPLETED A; ")
	})
}

func goneEvent(id, from, agent string) *transport.Event {
	return &transport.Event{
		ID: id, Time: time.Now(), From: from, ContextID: theContext,
		Payload: &transport.AgentEvent{Time: time.Now(), Kind: "deregistered", AgentID: agent},
	}
}

// TestGoneIsCortexs has other senders report that an agent is gone, and Cortex report another event about it.
func TestGoneIsCortexs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(toAlpha))
		w.say("m1", "go")
		w.publish(goneEvent("g1", "beta", "alpha"))
		w.publish(goneEvent("g2", "user", "alpha"))
		other := goneEvent("g3", transport.Cortex, "alpha")
		other.Payload.(*transport.AgentEvent).Kind = "registered"
		w.publish(other)
		pass(time.Minute)
		w.wantTasks("beta", 0)
		if got := w.orch.Stats().Refused; got != 3 {
			t.Errorf("%d events refused, want 3", got)
		}
	})
}

// TestGoneAfterTakeover has another process take over a conversation in which nothing happens any more, since the agent of its task has gone: before
// the takeover or after it.
func TestGoneAfterTakeover(t *testing.T) {
	for name, tt := range map[string]struct {
		gone  func(w *leaving)
		after time.Duration
	}{
		"it goes later":       {func(w *leaving) { w.restart(w.config(once(toAlpha))); pass(5 * time.Second); w.leave("alpha") }, 10 * time.Second},
		"it goes at once":     {func(w *leaving) { w.restart(w.config(once(toAlpha))); w.leave("alpha") }, 10 * time.Second},
		"it has gone before":  {func(w *leaving) { w.away["alpha"] = true; w.restart(w.config(once(toAlpha))) }, 95 * time.Second},
		"its going was known": {func(w *leaving) { w.leave("alpha"); pass(5 * time.Second); w.restart(w.config(once(toAlpha))) }, 95 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLeaving(t, once(toAlpha))
				w.say("m1", "go")
				pass(time.Second)
				tt.gone(w)
				w.wantTasks("beta", 0)
				pass(tt.after)
				w.finish("beta", w.onlyTask("beta"), "B")
				w.wantAnswer("m1", "beta COMPLETED B; ")
				w.wantFold()
			})
		})
	}
}

// TestPresentAfterTakeover has another process take over a task whose agent may not be given work, but is there: it drains, or is well known.
func TestPresentAfterTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLeaving(t, once(toAlpha))
		w.say("m1", "go")
		w.away["alpha"] = true
		cfg := w.config(once(toAlpha))
		cfg.Present = func(string) bool { return true }
		w.restart(cfg)
		w.orch.AgentGone("alpha") // one of its processes
		pass(3 * time.Minute)
		w.wantTasks("beta", 0)
		if n := len(entries(t, w.store)); n != 1 {
			t.Errorf("%d entries, want 1", n)
		}
		w.finish("alpha", w.onlyTask("alpha"), "A")
		w.wantAnswer("m1", "alpha COMPLETED A; ")
	})
}

// TestSentToGone has a task sent after its agent has gone, since it had to wait for another task.
func TestSentToGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLeaving(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: "gamma", Task: "c"}, llm.Delegation{ID: "2", Agent: "alpha", Skill: "skill", Task: "a", DependsOn: []string{"1"}})
			}
			return respond(results(t))
		}))
		w.say("m1", "go")
		w.leave("alpha")
		pass(time.Minute)
		w.finish("gamma", w.onlyTask("gamma"), "C")
		w.wantTasks("beta", 0)
		pass(95 * time.Second)
		w.finish("beta", w.onlyTask("beta"), "B")
		w.wantAnswer("m1", "gamma COMPLETED C; beta COMPLETED B; ")
	})
}
