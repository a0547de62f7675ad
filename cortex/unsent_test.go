package cortex_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// sixfold returns n characters that JSON encodes in six bytes each, so that 700,000 exceed a payload.
func sixfold(n int) string { return strings.Repeat("\x01", n) }

// large is the reason of a transport that refuses a message as too large, as it is shown.
const large = "REJECTED it cannot be sent: the message is "

// TestTooLargeTask makes tasks that no transport accepts. The turn goes on at once, with the reason in the log, in what the decider
// and people see, and in the answer; tasks that can be sent are still done.
func TestTooLargeTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			switch {
			case len(t.Steps) > 0:
				return respond(results(t))
			case t.User == "more":
				return respond("fine")
			}
			ds := []llm.Delegation{{ID: "1", Agent: "alpha", Task: sixfold(700_000)}, {ID: "2", Agent: "beta", Task: "after it", DependsOn: []string{"1"}}}
			if t.User == "two" {
				ds = append(ds, llm.Delegation{ID: "3", Agent: "gamma", Task: "small"})
			}
			return delegate(ds...)
		}))
		began := time.Now()
		w.say("m1", "one")
		answer := w.answers()["m1"]
		for _, want := range []string{"alpha " + large, "at most 4194304 are allowed; ", "beta FAILED not started, because the work of alpha"} {
			if !strings.Contains(answer, want) {
				t.Errorf("answer %.300q, want %q in it", answer, want)
			}
		}
		if strings.Contains(answer, transport.ErrInvalid.Error()) {
			t.Errorf("answer %q has words that are for programs", answer)
		}
		logged := entries(t, w.store)
		if len(logged) != 2 {
			t.Fatalf("%d entries, want the message, and that its task cannot be sent", len(logged))
		}
		rejected, ok := logged[1].Cause.Payload.(*a2a.Task)
		if !ok || logged[1].Cause.From != transport.Cortex || rejected.Status.State != a2a.TaskStateRejected {
			t.Errorf("the second entry is caused by %+v, want it from Cortex that the task was rejected", logged[1].Cause)
		}
		if got := w.lines(a2a.TaskStateRejected); len(got) != 1 || !strings.Contains(got[0], "it cannot be sent: the message is ") {
			t.Errorf("people were shown %q", got)
		}
		w.wantTasks("alpha", 0)

		w.say("m2", "two")
		w.wantAnswer("m2", "")
		w.finish("gamma", w.onlyTask("gamma"), "done")
		if answer := w.answers()["m2"]; !strings.Contains(answer, large) || !strings.Contains(answer, "gamma COMPLETED done") {
			t.Errorf("answer %.300q, want what alpha could not be sent, and what gamma did", answer)
		}
		w.say("m3", "more")
		w.wantAnswer("m3", "fine")
		if took := time.Since(began); took != 0 {
			t.Errorf("the turns waited for %v", took)
		}
		w.wantFold()
	})
}

// given returns the message ids of the tasks that people were shown.
func (w *world) given() []string {
	var ids []string
	for _, e := range w.watched() {
		if task, ok := e.Payload.(*a2a.Task); ok {
			ids = append(ids, task.History[0].ID)
		}
	}
	return ids
}

// TestTooLargeTogether has a task that can only be sent without the results that it depends on.
func TestTooLargeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) > 0 {
				return respond(t.Steps[0].Tasks[1].Agent + " " + string(t.Steps[0].Tasks[1].State) + " " + t.Steps[0].Tasks[1].Result)
			}
			return delegate(
				llm.Delegation{ID: "1", Agent: "alpha", Task: "write"},
				llm.Delegation{ID: "2", Agent: "beta", Task: "read", DependsOn: []string{"1"}})
		}))
		w.say("m1", sixfold(300_000))
		e := resultEvent("r1", "alpha", w.onlyTask("alpha"), a2a.TaskStateCompleted, sixfold(250_000))
		e.Payload.(*a2a.Task).Artifacts = []*a2a.Artifact{{ID: "a", Parts: a2a.ContentParts{a2a.NewTextPart(sixfold(250_000))}}}
		w.publish(e)
		if answer := w.answers()["m1"]; !strings.HasPrefix(answer, "beta TASK_STATE_"+large) {
			t.Errorf("answer %.200q, want that beta could not be sent its task", answer)
		}
		w.wantFold()
	})
}

// picky is a transport that refuses messages for some inboxes while it is switched on.
type picky struct {
	transport.Transport
	on     atomic.Bool
	inbox  func(agent string) bool
	number atomic.Int32
}

func (r *picky) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if _, ok := e.Payload.(*a2a.Message); ok && r.on.Load() && t.Kind == transport.KindInbox && r.inbox(t.ID) {
		return fmt.Errorf("%w: too much, the %d. time", transport.ErrInvalid, r.number.Add(1))
	}
	return r.Transport.Publish(ctx, t, e)
}

// TestRefusedLater has the transport refuse a later message of a task.
func TestRefusedLater(t *testing.T) {
	const refused = "REJECTED it cannot be sent: too much, the 1. time; "
	tests := map[string]struct {
		decide llm.Decider
		policy string
		inbox  string
		before func(w *world) // the transport accepts all of it
		then   func(w *world)
		turn   string
		want   string
	}{
		"another agent": {
			once(toAlpha), "", "beta", func(w *world) { w.say("m1", "go") }, func(*world) { pass(5 * time.Minute) }, "m1", "beta " + refused,
		},
		"a yes": {
			payer, alphaConfirms, "alpha", func(w *world) { w.say("m1", "pay Bob") }, func(w *world) { w.say("m2", "yes") }, "m2", "alpha " + refused,
		},
		"a reply": {
			simple(func(t *llm.Turn) *llm.Decision {
				switch {
				case len(t.Steps) > 0 && t.Steps[0].Tasks[0].State == a2a.TaskStateInputRequired:
					return respond(t.Steps[0].Tasks[0].Result)
				case len(t.Steps) > 0:
					return respond(results(t))
				case len(t.Waiting) > 0:
					return delegate(llm.Delegation{ID: string(t.Waiting[0].ID), Agent: "alpha", Task: t.User})
				}
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: t.User})
			}), "", "alpha",
			func(w *world) {
				w.say("m1", "book a table")
				w.publish(resultEvent("q1", "alpha", w.onlyTask("alpha"), a2a.TaskStateInputRequired, "for how many?"))
			},
			func(w *world) { w.say("m2", "four") }, "m2", "alpha " + refused,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, test.decide)
				bus := &picky{Transport: w.bus, inbox: func(agent string) bool { return agent == test.inbox }}
				cfg := cortex.Config{Transport: bus, Decider: test.decide}
				if test.policy != "" {
					cfg.Policy = rules(t, test.policy)
				}
				w.restart(cfg)
				test.before(w)
				bus.on.Store(true)
				test.then(w)
				if got := w.answers()[test.turn]; !strings.Contains(got+"; ", strings.TrimSuffix(test.want, "; ")) {
					t.Errorf("answer %q, want %q", got, test.want)
				}
				if n := bus.number.Load(); n != 1 {
					t.Errorf("it was refused %d times, want once", n)
				}
				w.wantFold()
			})
		})
	}
}

// TestRefusedAndKilled kills the orchestrator between the refusal and its report: the next one sends the task again, is refused
// again, and reports it, once.
func TestRefusedAndKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(toAlpha))
		bus := &picky{Transport: w.bus, inbox: func(agent string) bool { return agent == "alpha" }}
		bus.on.Store(true)
		dumb := &mute{Transport: bus}
		w.restart(cortex.Config{Transport: dumb, Decider: once(toAlpha)})
		w.say("m1", "go")
		pass(time.Minute)
		dumb.mu.Lock()
		tries := slices.Compact(dumb.tries)
		dumb.mu.Unlock()
		if n := len(entries(t, w.store)); n != 1 || len(tries) != 1 {
			t.Fatalf("%d entries, and %q were not taken, want one and the same again and again", n, tries)
		}
		w.restart(cortex.Config{Transport: bus, Decider: once(toAlpha)})
		pass(time.Minute)
		if got := w.answers()["m1"]; !strings.HasPrefix(got, "alpha REJECTED it cannot be sent: too much") {
			t.Errorf("answer %q, want why the task was not sent", got)
		}
		if got := entries(t, w.store); len(got) != 2 || got[1].Cause.ID != tries[0] {
			t.Errorf("%d entries, want 2, of which the second is caused by %s", len(got), tries[0])
		} else if original := transport.MetaString(got[1].Cause.Payload.(*a2a.Task), transport.MetaOriginalMessage); !slices.Contains(w.given(), original) {
			t.Errorf("rejected is the message %q, want one of %q", original, w.given())
		}
		w.wantFold()
	})
}

// mute is a transport that refuses results for Cortex, and records their ids.
type mute struct {
	transport.Transport
	mu    sync.Mutex
	tries []string
}

func (m *mute) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if _, ok := e.Payload.(*a2a.Task); ok && t == transport.Inbox("", transport.Cortex) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.tries = append(m.tries, e.ID)
		return errors.New("not now")
	}
	return m.Transport.Publish(ctx, t, e)
}

// TestOnlyCortexRefuses has another agent, and a person, report that a task cannot be sent: they are ignored.
func TestOnlyCortexRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(toAlpha))
		w.say("m1", "go")
		task := w.onlyTask("alpha")
		for _, from := range []string{"beta", "user", "user:cortex"} {
			w.publish(resultEvent("r-"+from, from, task, a2a.TaskStateRejected, "it cannot be sent"))
		}
		w.wantAnswer("m1", "")
		w.finish("alpha", task, "done")
		w.wantAnswer("m1", "alpha COMPLETED done; ")
	})
}

// TestTooLargeAnswer has an agent ask whose answer is too large for it: the agent is told so at once. The log has the answer.
func TestTooLargeAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision { return respond(sixfold(700_000)) }))
		e := userEvent("m1", "tell me")
		e.From = "gamma"
		w.publish(e)
		got := w.tasksOf("gamma")
		if len(got) != 1 {
			t.Fatalf("gamma got %d events, want the answer", len(got))
		}
		m := message(got[0])
		if text := transport.Text(m.Parts); !strings.HasPrefix(text, "The answer cannot be sent to you: the message is ") ||
			m.Metadata[transport.MetaFailed] != true || m.Metadata[transport.MetaRequester] != "gamma" || m.Metadata[transport.MetaMessage] != "m1" || m.Role != a2a.MessageRoleAgent {
			t.Errorf("gamma got %q with %v", text, m.Metadata)
		}
		w.wantAnswer("m1", sixfold(700_000))
		w.wantFold()
	})
}
