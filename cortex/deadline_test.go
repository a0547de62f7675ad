package cortex_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			switch len(t.Steps) {
			case 0:
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}, llm.Delegation{ID: "2", Agent: "beta", Task: "b"})
			case 1:
				return delegate(llm.Delegation{ID: "1", Agent: "gamma", Task: "c"})
			}
			return respond(results(t))
		}))
		w.say("m1", "go")
		alpha := w.onlyTask("alpha")
		w.finish("beta", w.onlyTask("beta"), "B")
		pass(5*time.Minute + time.Second)
		if d := w.decisions(); len(d) != 2 || results(d[1]) != "alpha FAILED no result within 5m0s; beta COMPLETED B; " {
			t.Fatalf("after the deadline: %d decisions, the last with %q", len(d), results(d[len(d)-1]))
		}
		if got := w.stopped(); !slices.Equal(got, []a2a.TaskID{alpha}) {
			t.Errorf("told to stop: %v, want alpha's %v", got, alpha)
		}
		pass(5*time.Minute + time.Second) // the second step has a deadline of its own
		synctest.Wait()
		w.wantAnswer("m1", "gamma FAILED no result within 5m0s; ")
		w.finish("alpha", alpha, "too late")
		if got := len(w.answers()); got != 1 {
			t.Errorf("%d answers, want 1", got)
		}
	})
}

// TestDeadlineAfterRestart lets the deadline pass while no orchestrator runs.
func TestDeadlineAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"})
			}
			return respond(results(t))
		})
		w := newWorld(t, decider)
		w.say("m1", "go")
		w.stop()
		pass(time.Hour)
		w.start(cortex.Config{Decider: decider})
		synctest.Wait()
		w.wantAnswer("m1", "alpha FAILED no result within 5m0s; ")
	})
}

// TestSpuriousTimer has the first of two deadlines pass after its task is done: the second still ends its task.
func TestSpuriousTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: map[string]string{"one": "alpha", "two": "beta"}[t.User], Task: t.User})
			}
			return respond(t.User + ": " + results(t))
		}))
		w.say("m1", "one")
		pass(time.Minute)
		w.say("m2", "two")
		w.finish("alpha", w.onlyTask("alpha"), "A")
		w.wantAnswer("m1", "one: alpha COMPLETED A; ")
		pass(5 * time.Minute)
		w.wantAnswer("m2", "two: beta FAILED no result within 5m0s; ")
	})
}

func TestUnansweredQuestionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) > 0 {
				return &llm.Decision{Kind: llm.KindClarify, Say: "for how many?"}
			}
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "book"})
		}))
		w.say("m1", "book a table")
		w.publish(resultEvent("q1", "alpha", w.onlyTask("alpha"), a2a.TaskStateInputRequired, "for how many?"))
		pass(25 * time.Hour)
		if got := w.stopped(); len(got) != 1 {
			t.Errorf("told to stop: %v, want the task that nobody replied to", got)
		}
		conv, err := storage.Load(t.Context(), w.store, "", theContext)
		if err != nil || len(conv.Asking()) != 0 {
			t.Errorf("waiting %v, %v; want nothing", conv.Asking(), err)
		}
	})
}

// TestDeadlinesOfTwoTurns has tasks of two turns end at the same moment: each turn is decided.
func TestDeadlinesOfTwoTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: t.User, Task: "x"})
			}
			return respond(results(t))
		}))
		w.say("m1", "alpha")
		w.say("m2", "beta")
		pass(6 * time.Minute)
		w.wantAnswer("m1", "alpha FAILED no result within 5m0s; ")
		w.wantAnswer("m2", "beta FAILED no result within 5m0s; ")
	})
}

// TestDeadlineOfAnother sends Deadline events of another sender than Cortex, and from a clock that is ahead.
func TestDeadlineOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"})
			}
			return respond(results(t))
		}))
		w.say("m1", "go")
		for _, from := range []string{"beta", "user", transport.Cortex} {
			w.publish(&transport.Event{
				ID: "d-" + from, Time: time.Now(), From: from, ContextID: theContext,
				Payload: &transport.Deadline{At: time.Now().Add(time.Hour)},
			})
		}
		if a := w.answers(); len(a) != 0 {
			t.Fatalf("answered %q long before the deadline", a)
		}
		if got := w.orch.Stats().Refused; got != 2 {
			t.Errorf("%d events refused, want those of beta and the user", got)
		}
		pass(6 * time.Minute)
		w.wantAnswer("m1", "alpha FAILED no result within 5m0s; ")
	})
}

// TestClockBehind has the transport's clock ahead of the orchestrator's, as on another machine: the task ends at the deadline by the
// orchestrator's clock, although the Deadline event arrives too early at first.
func TestClockBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := once(toAlpha)
		w := newWorld(t, d)
		w.restart(cortex.Config{
			Decider: d, Agents: specified(map[string]agentcard.Spec{"alpha": within(10 * time.Second)}), Policy: rules(t, alone),
			Now: func() time.Time { return time.Now().Add(-time.Second) },
		})
		w.say("m1", "go")
		pass(9500 * time.Millisecond)
		w.wantAnswer("m1", "")
		pass(time.Second)
		w.wantAnswer("m1", "alpha FAILED no result within 10s; ")
	})
}

// ahead is a transport whose clock is ahead, as that of another machine: it delivers timers early, and dates what it delivers. It has one timer.
type ahead struct {
	transport.Transport
	timers atomic.Int32 // that were set

	mu    sync.Mutex
	by    time.Duration
	due   time.Time // of the timer
	timer *time.Timer
}

func (a *ahead) now() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Now().Add(a.by)
}

// set sets the clock.
func (a *ahead) set(by time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.by = by
	if a.timer != nil && a.timer.Stop() {
		a.timer.Reset(a.due.Sub(time.Now().Add(by)))
	}
}

func (a *ahead) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if e.DeliverAt.IsZero() {
		return a.Transport.Publish(ctx, t, e)
	}
	a.timers.Add(1)
	now := *e
	now.DeliverAt = time.Time{}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
	}
	a.due = e.DeliverAt
	a.timer = time.AfterFunc(a.due.Sub(time.Now().Add(a.by)), func() { _ = a.Transport.Publish(context.WithoutCancel(ctx), t, &now) })
	return nil
}

func (a *ahead) Subscribe(ctx context.Context, t transport.Topic, o *transport.SubscribeOptions) (transport.Subscription, error) {
	s, err := a.Transport.Subscribe(ctx, t, o)
	return dating{s, a}, err
}

type dating struct {
	transport.Subscription
	of *ahead
}

func (s dating) Serve(ctx context.Context, h transport.Handler) error {
	return s.Subscription.Serve(ctx, func(ctx context.Context, e *transport.Event) error {
		e.Stored = s.of.now()
		return h(ctx, e)
	})
}

// TestClockFarBehind has the transport's clock ahead of the orchestrator's by much more than a task has, as when either was set, or set wrong: the task
// ends at its deadline by the orchestrator's clock, after a few timers.
func TestClockFarBehind(t *testing.T) {
	for _, by := range []time.Duration{time.Minute, 4 * time.Minute, time.Hour, 30 * 24 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := once(toAlpha)
				w := newWorld(t, d)
				w.stop()
				bus := &ahead{Transport: w.bus, by: by}
				w.start(cortex.Config{Transport: bus, Decider: d, Policy: rules(t, alone)})
				w.say("m1", "go")
				pass(5*time.Minute - time.Second)
				w.wantAnswer("m1", "")
				pass(2 * time.Second)
				w.wantAnswer("m1", "alpha FAILED no result within 5m0s; ")
				if n := bus.timers.Load(); n > 3 {
					t.Errorf("%d timers were set, want at most 3", n)
				}
			})
		})
	}
}

// TestLostTimer starts a process on a conversation whose timer is lost, before its deadline and after it: the turn ends.
func TestLostTimer(t *testing.T) {
	for name, tt := range map[string]struct{ away, then time.Duration }{
		"before": {time.Second, 10 * time.Second},
		"after":  {time.Minute, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, once(toAlpha))
				cfg := cortex.Config{Decider: once(toAlpha), Policy: rules(t, alone), TaskTimeout: 10 * time.Second}
				losing := cfg
				losing.Transport = &forgetful{Transport: w.bus}
				w.restart(losing)
				w.say("m1", "go")
				w.stop()
				pass(tt.away)
				w.wantAnswer("m1", "")
				w.start(cfg)
				pass(tt.then)
				w.wantAnswer("m1", "alpha FAILED no result within 10s; ")
				w.wantFold()
			})
		})
	}
}
