package cortex_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

func TestNewNamesWhatIsMissing(t *testing.T) {
	if _, err := cortex.New(cortex.Config{}); err == nil || !strings.Contains(err.Error(), "Config.Transport") {
		t.Errorf("New(empty) = %v, want an error that names Config.Transport", err)
	}
}

func TestRespond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision { return respond("you said " + t.User) }))
		w.say("m1", "hello")
		w.wantAnswer("m1", "you said hello")
		if got, want := w.liveAnswers(), []string{"you said hello"}; !slices.Equal(got, want) {
			t.Errorf("live answers %q, want %q", got, want)
		}
	})
}

func TestDelegate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Skill: "skill", Task: "do it"})
			}
			return respond("got " + results(t))
		}))
		w.say("m1", "please do it")
		tasks := w.tasksOf("alpha")
		if len(tasks) != 1 {
			t.Fatalf("alpha got %d tasks, want 1", len(tasks))
		}
		m := tasks[0].Payload.(*a2a.Message)
		deadline := m.Metadata[transport.MetaDeadline]
		want := map[string]any{
			transport.MetaTaskType: "skill", transport.MetaAgentID: "alpha", transport.MetaTaskID: string(m.TaskID),
			transport.MetaRequester: "user", transport.MetaUserText: "please do it", transport.MetaTurn: "m1",
			transport.MetaHops: 1.0, transport.MetaAncestors: nil, transport.MetaDeadline: deadline,
		}
		if diff := cmp.Diff(want, m.Metadata); diff != "" {
			t.Errorf("task metadata (-want +got):\n%s", diff)
		}
		if transport.Text(m.Parts) != "do it" || tasks[0].From != transport.Cortex || m.ContextID != conversation {
			t.Errorf("task %+v from %s", m, tasks[0].From)
		}
		if len(w.answers()) != 0 {
			t.Errorf("answered before the result: %v", w.answers())
		}
		w.finish("alpha", m.TaskID, "done")
		w.wantAnswer("m1", "got alpha COMPLETED done; ")
		if n := len(entries(t, w.store)); n != 2 {
			t.Errorf("%d entries, want 2: the message and the result", n)
		}
	})
}

func TestDecidesAfterTheLastResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}, llm.Delegation{ID: "2", Agent: "beta", Task: "b"})
			}
			return respond(results(t))
		}))
		w.say("m1", "both")
		w.finish("beta", w.onlyTask("beta"), "B")
		if n := len(w.decisions()); n != 1 {
			t.Fatalf("%d decisions while a task is open, want 1", n)
		}
		w.publish(resultEvent("f", "alpha", w.onlyTask("alpha"), a2a.TaskStateFailed, "broken"))
		w.wantAnswer("m1", "alpha FAILED broken; beta COMPLETED B; ")
	})
}

func TestDependentTasks(t *testing.T) {
	decider := simple(func(t *llm.Turn) *llm.Decision {
		if len(t.Steps) == 0 {
			return delegate(
				llm.Delegation{ID: "1", Agent: "alpha", Task: "first"},
				llm.Delegation{ID: "2", Agent: "beta", Task: "second", DependsOn: []string{"1"}},
				llm.Delegation{ID: "3", Agent: "gamma", Task: "third", DependsOn: []string{"2"}})
		}
		return respond(results(t))
	})
	t.Run("in order, with the results they need", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, decider)
			w.say("m1", "chain")
			if n := len(w.tasksOf("beta")); n != 0 {
				t.Fatalf("beta got %d tasks before alpha was done", n)
			}
			w.finish("alpha", w.onlyTask("alpha"), "A's result")
			m := w.tasksOf("beta")[0].Payload.(*a2a.Message)
			if got := transport.Text(m.Parts); got != "second\nA's result" {
				t.Errorf("beta's task = %q, want its text and what alpha returned", got)
			}
			if got := []a2a.TaskID{w.onlyTask("alpha")}; !slices.Equal(m.ReferenceTasks, got) {
				t.Errorf("reference tasks %v, want %v", m.ReferenceTasks, got)
			}
			w.finish("beta", m.TaskID, "B")
			w.finish("gamma", w.onlyTask("gamma"), "C")
			w.wantAnswer("m1", "alpha COMPLETED A's result; beta COMPLETED B; gamma COMPLETED C; ")
		})
	})
	t.Run("failed with what they need", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, decider)
			w.say("m1", "chain")
			w.publish(resultEvent("f", "alpha", w.onlyTask("alpha"), a2a.TaskStateFailed, "broken"))
			if got := w.answers()["m1"]; !strings.Contains(got, "beta FAILED not started") || !strings.Contains(got, "gamma FAILED not started") {
				t.Errorf("answer %q, want beta and gamma as not started", got)
			}
			if n := len(w.tasksOf("beta")) + len(w.tasksOf("gamma")); n != 0 {
				t.Errorf("%d dependent tasks were sent", n)
			}
		})
	})
}

// TestRepeatedEvent delivers an event whose entry is in the log, as after a crash between the append and the
// acknowledgement: nothing is decided again, and what is still open is sent again with the same ids.
func TestRepeatedEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(*llm.Turn) *llm.Decision {
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"})
		}))
		w.say("m1", "go")
		first := w.tasksOf("alpha")[0]
		w.stop()
		synctest.Wait()
		lost := &recorder{Transport: w.bus}
		w.start(cortex.Config{Transport: lost, Decider: simple(func(*llm.Turn) *llm.Decision { panic("a logged decision was made again") })})
		pass(transport.DuplicateWindow + time.Second) // the transport has forgotten the id
		w.publish(userEvent("m1", "go"))
		again := lost.find(transport.Inbox("", "alpha"))
		if again == nil {
			t.Fatal("the open task was not sent again")
		}
		if again.ID != first.ID || again.TaskID != first.TaskID {
			t.Errorf("sent again as %s of task %s, want %s of %s", again.ID, again.TaskID, first.ID, first.TaskID)
		}
		if n := len(entries(t, w.store)); n != 1 {
			t.Errorf("%d entries, want 1", n)
		}
	})
}

// recorder keeps what is published.
type recorder struct {
	transport.Transport
	topics []transport.Topic
	events []*transport.Event
}

func (r *recorder) Publish(ctx context.Context, topic transport.Topic, e *transport.Event) error {
	r.topics, r.events = append(r.topics, topic), append(r.events, e)
	return r.Transport.Publish(ctx, topic, e)
}

func (r *recorder) find(topic transport.Topic) *transport.Event {
	for i := range r.topics {
		if r.topics[i] == topic {
			return r.events[i]
		}
	}
	return nil
}

func TestResultsThatChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}, llm.Delegation{ID: "2", Agent: "beta", Task: "b"})
			}
			return respond(results(t))
		}))
		w.say("m1", "go")
		alpha, beta := w.onlyTask("alpha"), w.onlyTask("beta")
		w.publish(resultEvent("x1", "alpha", "no-such-task", a2a.TaskStateCompleted, "?"))
		w.publish(resultEvent("x2", "beta", alpha, a2a.TaskStateCompleted, "forged"))
		w.publish(resultEvent("x3", "alpha", alpha, a2a.TaskStateWorking, "progress"))
		w.finish("alpha", alpha, "A")
		w.publish(resultEvent("x4", "alpha", alpha, a2a.TaskStateFailed, "changed my mind"))
		if got := w.orch.Stats().Ignored; got != 4 {
			t.Errorf("%d events ignored, want 4", got)
		}
		w.finish("beta", beta, "B")
		w.wantAnswer("m1", "alpha COMPLETED A; beta COMPLETED B; ")
		w.publish(resultEvent("x5", "beta", beta, a2a.TaskStateCompleted, "late"))
		if n := len(entries(t, w.store)); n != 3 {
			t.Errorf("%d entries, want 3", n)
		}
	})
}

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

// TestSpuriousTimer has the first deadline of two pass when its task is done: the second must still be kept.
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

func TestFailureIsAnswered(t *testing.T) {
	tests := map[string]struct {
		decide decideFunc
		want   string
	}{
		"error":   {func(context.Context, *llm.Turn, func(string)) (*llm.Decision, error) { return nil, llm.ErrUnavailable }, "model unavailable"},
		"panic":   {func(context.Context, *llm.Turn, func(string)) (*llm.Decision, error) { panic("boom") }, "the decider panicked: boom"},
		"nothing": {func(context.Context, *llm.Turn, func(string)) (*llm.Decision, error) { return nil, nil }, "invalid decision"},
		"no such": {simple(func(*llm.Turn) *llm.Decision { return delegate(llm.Delegation{ID: "1", Agent: "nobody", Task: "x"}) }), "nobody"},
		"never ready": {func(ctx context.Context, _ *llm.Turn, _ func(string)) (*llm.Decision, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, "no decision within 2m0s"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, decideFunc(func(ctx context.Context, turn *llm.Turn, s func(string)) (*llm.Decision, error) {
					if turn.User == "and now" {
						return respond("fine"), nil
					}
					return test.decide(ctx, turn, s)
				}))
				w.say("m1", "go")
				pass(3 * time.Minute)
				if got := w.answers()["m1"]; !strings.Contains(got, test.want) || strings.Contains(got, "\n") {
					t.Errorf("answer %q, want one line that contains %q", got, test.want)
				}
				w.say("m2", "and now") // the conversation goes on
				w.wantAnswer("m2", "fine")
			})
		})
	}
}

func TestStepsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := 0
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if t.Last {
				last++
				return respond("enough")
			}
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: fmt.Sprint(len(t.Steps))})
		}))
		w.say("m1", "for ever")
		for i := range cortex.MaxSteps - 1 {
			tasks := w.tasksOf("alpha")
			if len(tasks) != i+1 {
				t.Fatalf("step %d: %d tasks", i, len(tasks))
			}
			w.finish("alpha", tasks[i].TaskID, "again")
		}
		w.wantAnswer("m1", "enough")
		if n := len(w.decisions()); n != cortex.MaxSteps || last != 1 {
			t.Errorf("%d decisions, %d of them as the last; want %d and 1", n, last, cortex.MaxSteps)
		}
	})
}

func TestOpenTurnsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(*llm.Turn) *llm.Decision {
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"})
		}))
		for i := range cortex.MaxOpenTurns + 1 {
			w.say(fmt.Sprintf("m%d", i), "go")
		}
		answers := w.answers()
		if got := answers[fmt.Sprintf("m%d", cortex.MaxOpenTurns)]; len(answers) != 1 || !strings.Contains(got, "open requests") {
			t.Errorf("answers %v, want only that there are too many open requests", answers)
		}
	})
}

func TestCancelTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(*llm.Turn) *llm.Decision {
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}, llm.Delegation{ID: "2", Agent: "beta", Task: "b"})
		}))
		w.say("m1", "go")
		w.finish("beta", w.onlyTask("beta"), "B")
		w.publish(cancelEvent("x1", &transport.Cancel{Turn: "m1"}))
		w.wantAnswer("m1", cortex.Canceled)
		if got := w.stopped(); !slices.Equal(got, []a2a.TaskID{w.onlyTask("alpha")}) {
			t.Errorf("told to stop: %v, want alpha's task only", got)
		}
		w.publish(cancelEvent("x2", &transport.Cancel{Turn: "m1"}))
		w.finish("alpha", w.onlyTask("alpha"), "late")
		if n := len(entries(t, w.store)); n != 3 {
			t.Errorf("%d entries, want 3: nothing was left to cancel", n)
		}
	})
}

func cancelEvent(id string, c *transport.Cancel) *transport.Event {
	return &transport.Event{ID: id, Time: time.Now(), From: "user", ContextID: conversation, TaskID: c.TaskID, Payload: c}
}

func TestCancelTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}, llm.Delegation{ID: "2", Agent: "beta", Task: "b"})
			}
			return respond(results(t))
		}))
		w.say("m1", "go")
		w.publish(cancelEvent("x1", &transport.Cancel{TaskID: w.onlyTask("alpha"), Reason: "not needed"}))
		w.finish("beta", w.onlyTask("beta"), "B")
		w.wantAnswer("m1", "alpha CANCELED not needed; beta COMPLETED B; ")
	})
}

// TestCancelWhileDeciding interrupts the decider: the conversation's events come one at a time, so the Cancel in the inbox
// waits for the decision, and the one on the control topic must end it.
func TestCancelWhileDeciding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, decideFunc(func(ctx context.Context, _ *llm.Turn, _ func(string)) (*llm.Decision, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		w.say("m1", "go")
		if err := w.bus.Publish(t.Context(), transport.Control("", transport.Cortex), cancelEvent("x1", &transport.Cancel{Turn: "m1"})); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wantAnswer("m1", cortex.Canceled)
	})
}

func TestInputRequired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			switch {
			case len(t.Steps) > 0 && t.Steps[0].Tasks[0].State == a2a.TaskStateInputRequired:
				return &llm.Decision{Kind: llm.KindClarify, Say: t.Steps[0].Tasks[0].Result}
			case len(t.Steps) > 0:
				return respond(results(t))
			case len(t.Waiting) > 0:
				return delegate(llm.Delegation{ID: string(t.Waiting[0].ID), Agent: "alpha", Task: t.User})
			}
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "book"})
		}))
		w.say("m1", "book a table")
		task := w.onlyTask("alpha")
		w.publish(resultEvent("q1", "alpha", task, a2a.TaskStateInputRequired, "for how many?"))
		w.wantAnswer("m1", "for how many?")
		w.stop()
		w.start(cortex.Config{Decider: simple(func(t *llm.Turn) *llm.Decision { // the reply may come after a restart
			if len(t.Waiting) > 0 {
				return delegate(llm.Delegation{ID: string(t.Waiting[0].ID), Agent: "alpha", Task: t.User})
			}
			return respond(results(t))
		})})
		w.say("m2", "four")
		tasks := w.tasksOf("alpha")
		if len(tasks) != 2 || tasks[1].TaskID != task || transport.Text(tasks[1].Payload.(*a2a.Message).Parts) != "four" {
			t.Fatalf("alpha got %d messages, want the reply under the same task id", len(tasks))
		}
		w.publish(resultEvent("r1", "alpha", task, a2a.TaskStateCompleted, "booked"))
		w.wantAnswer("m2", "alpha COMPLETED booked; ")
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
		conv, err := cortex.Load(t.Context(), w.store, "", conversation)
		if err != nil || len(conv.Waiting()) != 0 {
			t.Errorf("waiting %v, %v; want nothing", conv.Waiting(), err)
		}
	})
}

func TestUnknownKindBecomesADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(*llm.Turn) *llm.Decision { return respond("ok") }))
		w.publish(&transport.Event{ID: "o1", From: "user", ContextID: conversation, Payload: &transport.Opaque{Kind: "hologram", Version: "9", Data: []byte("x")}})
		w.say("m1", "still there?")
		w.wantAnswer("m1", "ok")
		if got := w.orch.Stats().Refused; got != 1 {
			t.Errorf("%d events refused, want 1", got)
		}
		var dead []string
		for d, err := range w.bus.(transport.DeadLetters).DeadLetters(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			dead = append(dead, d.Event.ID+": "+d.Reason)
		}
		if len(dead) != 1 || !strings.Contains(dead[0], `o1: unknown kind of event "hologram"`) {
			t.Errorf("dead letters %q", dead)
		}
	})
}

func TestSlowConversationDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, decideFunc(func(ctx context.Context, turn *llm.Turn, _ func(string)) (*llm.Decision, error) {
			if turn.User == "slow" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return respond("quick"), nil
		}))
		slow := userEvent("m0", "slow")
		slow.ContextID = "another"
		w.publish(slow)
		w.say("m1", "quick")
		w.wantAnswer("m1", "quick")
	})
}

// TestAgentAsks has an agent ask for something itself: it gets the answer into its inbox, and the request cannot come back
// to it or go round for ever.
func TestAgentAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var offers []string
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			offers = nil
			for _, a := range t.Agents {
				offers = append(offers, a.ID)
			}
			return respond("for you")
		}))
		ask := func(id string, hops int) {
			e := userEvent(id, "help me")
			e.From = "alpha"
			m := e.Payload.(*a2a.Message)
			m.SetMeta(transport.MetaHops, hops)
			m.SetMeta(transport.MetaAncestors, []string{"beta"})
			w.publish(e)
		}
		ask("m1", 1)
		if !slices.Equal(offers, []string{"gamma"}) {
			t.Errorf("offered %v, want only gamma: alpha asks, beta is its ancestor", offers)
		}
		got := w.tasksOf("alpha")
		if len(got) != 1 || transport.Text(got[0].Payload.(*a2a.Message).Parts) != "for you" {
			t.Errorf("alpha's inbox has %d events, want the answer", len(got))
		}
		ask("m2", cortex.MaxHops)
		if a := w.answers()["m2"]; !strings.Contains(a, "handed on") {
			t.Errorf("answer at depth %d = %q, want a refusal", cortex.MaxHops, a)
		}
	})
}

func TestDraftIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, decideFunc(func(_ context.Context, _ *llm.Turn, stream func(string)) (*llm.Decision, error) {
			for _, word := range []string{"one ", "two ", "three"} {
				stream(word)
				pass(100 * time.Millisecond)
			}
			return respond("one two three"), nil
		}))
		w.say("m1", "count")
		pass(time.Second)
		text, attempts := "", map[string]bool{}
		for _, e := range w.watched() {
			if d, ok := e.Payload.(*transport.Delta); ok {
				text += d.Text
				attempts[d.Attempt] = true
				if d.Turn != "m1" {
					t.Errorf("delta of turn %q", d.Turn)
				}
			}
		}
		if text != "one two three" || len(attempts) != 1 {
			t.Errorf("streamed %q in %d attempts", text, len(attempts))
		}
	})
}

// conflicting lets another writer append first, once.
type conflicting struct {
	cortex.Store
	other *cortex.Entry
}

func (s *conflicting) Append(ctx context.Context, tenant, contextID string, after cortex.Version, e *cortex.Entry) (cortex.Version, error) {
	if other := s.other; other != nil {
		s.other = nil
		if _, err := s.Store.Append(ctx, tenant, contextID, after, other); err != nil {
			return 0, err
		}
	}
	return s.Store.Append(ctx, tenant, contextID, after, e)
}

func TestConflictIsResolvedByTheLog(t *testing.T) {
	decider := simple(func(t *llm.Turn) *llm.Decision { return respond(fmt.Sprintf("after %d others", len(t.History))) })
	t.Run("another event", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, decider)
			w.stop()
			other := &cortex.Entry{Seq: 1, Time: time.Now(), Cause: userEvent("m0", "first"), Turn: "m0", Decision: respond("yes")}
			w.start(cortex.Config{Decider: decider, Store: &conflicting{w.store, other}})
			w.say("m1", "second")
			w.wantAnswer("m0", "yes")
			w.wantAnswer("m1", "after 1 others")
			if got := w.orch.Stats().Conflicts; got != 1 {
				t.Errorf("%d conflicts, want 1", got)
			}
		})
	})
	t.Run("the same event", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, decider)
			w.stop()
			other := &cortex.Entry{Seq: 1, Time: time.Now(), Cause: userEvent("m1", "same"), Turn: "m1", Decision: respond("by the other")}
			w.start(cortex.Config{Decider: decider, Store: &conflicting{w.store, other}})
			w.say("m1", "same")
			w.wantAnswer("m1", "by the other")
			if got := w.liveAnswers(); !slices.Contains(got, "by the other") {
				t.Errorf("shown %q, want the logged answer", got)
			}
		})
	})
}

// TestStaleCacheAcknowledgesNothing has a result come whose task another replica sent: the fold in the cache does not know
// it, the log does.
func TestStaleCacheAcknowledgesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if t.User == "mine" {
				return respond("ok")
			}
			return respond(results(t))
		}))
		w.say("m1", "mine")
		conv, err := cortex.Load(t.Context(), w.store, "", conversation)
		if err != nil {
			t.Fatal(err)
		}
		theirs := &cortex.Entry{
			Seq: 2, Time: time.Now(), Cause: userEvent("m2", "theirs"), Turn: "m2", Deadline: time.Now().Add(time.Hour),
			Decision: delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}),
		}
		if _, err := w.store.Append(t.Context(), "", conversation, conv.Version, theirs); err != nil {
			t.Fatal(err)
		}
		if err := conv.Apply(theirs); err != nil {
			t.Fatal(err)
		}
		w.finish("alpha", conv.Running()[0].ID, "A")
		w.wantAnswer("m2", "alpha COMPLETED A; ")
	})
}

func TestLoadErrorIsNotTheEndOfTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"})
			}
			return respond(results(t))
		}))
		w.say("m1", "go")
		task := w.onlyTask("alpha")
		w.stop()
		w.start(cortex.Config{Store: &shortReads{Store: w.store, left: 3}, Decider: simple(func(t *llm.Turn) *llm.Decision { return respond(results(t)) })})
		w.finish("alpha", task, "A")
		pass(time.Minute)
		w.wantAnswer("m1", "alpha COMPLETED A; ")
	})
}

// shortReads ends the first loads early, with an error as the contract asks.
type shortReads struct {
	cortex.Store
	left int
}

func (s *shortReads) Load(ctx context.Context, tenant, contextID string, after cortex.Version) iter.Seq2[*cortex.Entry, error] {
	if s.left == 0 {
		return s.Store.Load(ctx, tenant, contextID, after)
	}
	s.left--
	return func(yield func(*cortex.Entry, error) bool) { yield(nil, errors.New("the read ended early")) }
}

// TestSnapshotOfAnotherLog has the store lose a log but not its snapshot: the conversation begins anew, and is not stuck.
func TestSnapshotOfAnotherLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(*llm.Turn) *llm.Decision { return respond("ok") }))
		old := cortex.NewConversation("", conversation)
		if err := old.Apply(&cortex.Entry{Version: 7, Seq: 1, Cause: userEvent("m0", "lost"), Turn: "m0", Decision: respond("yes")}); err != nil {
			t.Fatal(err)
		}
		if err := cortex.PutSnapshot(t.Context(), w.store.(cortex.Snapshots), old); err != nil {
			t.Fatal(err)
		}
		w.say("m1", "still there?")
		conv := cortex.NewConversation("", conversation)
		for _, e := range entries(t, w.store) {
			if err := conv.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		if m, ok := conv.AnswerOf("m1"); !ok || transport.Text(m.Parts) != "ok" {
			t.Errorf("answer %v, want ok", m)
		}
	})
}

// TestEntryThatDoesNotFit has a store that cannot keep an entry of this size: the event is given up, not repeated for ever.
func TestEntryThatDoesNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(*llm.Turn) *llm.Decision { return respond("ok") }))
		w.stop()
		w.start(cortex.Config{Decider: simple(func(*llm.Turn) *llm.Decision { return respond("ok") }), Store: tooSmall{w.store}})
		w.say("m1", "big")
		n := 0
		for d, err := range w.bus.(transport.DeadLetters).DeadLetters(t.Context(), "") {
			if err != nil || !strings.Contains(d.Reason, "too large") {
				t.Errorf("dead letter %v, %v", d, err)
			}
			n++
		}
		if n != 1 {
			t.Errorf("%d dead letters, want 1", n)
		}
	})
}

// tooSmall keeps nothing.
type tooSmall struct{ cortex.Store }

func (tooSmall) Append(context.Context, string, string, cortex.Version, *cortex.Entry) (cortex.Version, error) {
	return 0, transport.ErrTooLarge
}

// TestResultIsShownBeforeItIsDecided has a model that takes its time: people see meanwhile that the agent is done.
func TestResultIsShownBeforeItIsDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, decideFunc(func(_ context.Context, turn *llm.Turn, _ func(string)) (*llm.Decision, error) {
			if len(turn.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}), nil
			}
			<-time.After(time.Minute)
			return respond(results(turn)), nil
		}))
		w.say("m1", "go")
		w.finish("alpha", w.onlyTask("alpha"), "A")
		shown := func() (ids []string) {
			for _, e := range w.watched() {
				if u, ok := e.Payload.(*a2a.TaskStatusUpdateEvent); ok && u.Status.State == a2a.TaskStateCompleted {
					ids = append(ids, e.ID)
				}
			}
			return ids
		}
		if n := len(shown()); n != 1 || len(w.liveAnswers()) != 0 {
			t.Errorf("while the model thinks: %d results and %d answers shown, want 1 and 0", n, len(w.liveAnswers()))
		}
		pass(time.Minute)
		if ids := shown(); len(slices.Compact(ids)) != 1 {
			t.Errorf("the result was shown as %v, want one id", ids)
		}
	})
}

// refusing takes nothing for an agent's inbox, for a while.
type refusing struct {
	transport.Transport
	left atomic.Int32
}

func (r *refusing) Publish(ctx context.Context, topic transport.Topic, e *transport.Event) error {
	if topic == transport.Inbox("", "alpha") && r.left.Add(-1) >= 0 {
		return transport.ErrUnavailable
	}
	return r.Transport.Publish(ctx, topic, e)
}

// TestTaskThatCannotBeSentYet has the event come again until its task is sent; it is decided once.
func TestTaskThatCannotBeSentYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"})
			}
			return respond(results(t))
		})
		w := newWorld(t, decider)
		w.stop()
		bus := &refusing{Transport: w.bus}
		bus.left.Store(3)
		w.start(cortex.Config{Transport: bus, Decider: decider})
		w.say("m1", "go")
		pass(time.Minute)
		w.finish("alpha", w.onlyTask("alpha"), "A")
		w.wantAnswer("m1", "alpha COMPLETED A; ")
		if n := len(w.decisions()); n != 2 {
			t.Errorf("%d decisions, want 2", n)
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

// TestStoppedWhileDeciding ends the orchestrator while the model thinks: that is no failure of the request, and the next
// orchestrator decides it.
func TestStoppedWhileDeciding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, decideFunc(func(ctx context.Context, _ *llm.Turn, _ func(string)) (*llm.Decision, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		w.say("m1", "go")
		w.stop()
		if n := len(entries(t, w.store)); n != 0 {
			t.Errorf("%d entries, want none: nothing was decided", n)
		}
		w.start(cortex.Config{Decider: simple(func(*llm.Turn) *llm.Decision { return respond("done") })})
		pass(time.Second)
		w.wantAnswer("m1", "done")
	})
}

func TestQuestionThatIsAskedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) > 0 {
				return &llm.Decision{Kind: llm.KindClarify, Say: "for how many?"}
			}
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "book"})
		}))
		w.say("m1", "book a table")
		for _, id := range []string{"q1", "q2"} {
			w.publish(resultEvent(id, "alpha", w.onlyTask("alpha"), a2a.TaskStateInputRequired, "for how many?"))
		}
		if n := len(entries(t, w.store)); n != 2 {
			t.Errorf("%d entries, want 2: the message and the question", n)
		}
	})
}

// TestDeadlineOfAnother has somebody else than Cortex, and a clock that is ahead, say that a deadline has come.
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
				ID: "d-" + from, Time: time.Now(), From: from, ContextID: conversation,
				Payload: &transport.Deadline{At: time.Now().Add(time.Hour)},
			})
		}
		if a := w.answers(); len(a) != 0 {
			t.Fatalf("answered %q long before the deadline", a)
		}
		pass(6 * time.Minute)
		w.wantAnswer("m1", "alpha FAILED no result within 5m0s; ")
	})
}

// TestAgentsCancelOnlyTheirOwn has an agent cancel what a person asked for, and then what it asked for itself.
func TestAgentsCancelOnlyTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(*llm.Turn) *llm.Decision {
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"})
		}))
		w.say("m1", "go")
		mine := userEvent("m2", "for me")
		mine.From = "beta"
		w.publish(mine)
		for i, c := range []*transport.Cancel{{Turn: "m1"}, {TaskID: w.tasksOf("alpha")[0].TaskID}, {}} {
			x := cancelEvent(fmt.Sprint("x", i), c)
			x.From = "beta"
			w.publish(x)
		}
		a := w.answers()
		if _, ok := a["m1"]; ok || a["m2"] != cortex.Canceled {
			t.Errorf("answers %v, want only that m2 was canceled", a)
		}
	})
}

// TestSmallStore has a store that keeps messages, but not long ones: the user is told in either case.
func TestSmallStore(t *testing.T) {
	for name, test := range map[string]struct{ user, say, want string }{
		"the answer does not fit":  {"hello", strings.Repeat("x", 100<<10), "What came of this does not fit into the conversation's log."},
		"the message does not fit": {strings.Repeat("x", 100<<10), "hello", "The message is too large to be kept."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				decider := simple(func(*llm.Turn) *llm.Decision { return respond(test.say) })
				w := newWorld(t, decider)
				w.stop()
				w.start(cortex.Config{Decider: decider, Store: small{w.store}})
				w.say("m1", test.user)
				if got := w.liveAnswers(); !slices.Equal(got, []string{test.want}) {
					t.Errorf("told %.100q, want %q", got, test.want)
				}
			})
		})
	}
}

// small is a store that keeps entries up to 64 KiB.
type small struct{ cortex.Store }

func (s small) Append(ctx context.Context, tenant, contextID string, after cortex.Version, e *cortex.Entry) (cortex.Version, error) {
	if b, err := json.Marshal(e); err != nil || len(b) > 64<<10 {
		return 0, transport.ErrTooLarge
	}
	return s.Store.Append(ctx, tenant, contextID, after, e)
}

// TestManyArtifacts has a task need more than fits into a message: it gets what fits, and the turn goes on.
func TestManyArtifacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}, llm.Delegation{ID: "2", Agent: "beta", Task: "b", DependsOn: []string{"1"}})
			}
			return respond("done")
		}))
		w.say("m1", "go")
		e := resultEvent("r1", "alpha", w.onlyTask("alpha"), a2a.TaskStateCompleted, "here")
		for i := range 40 {
			e.Payload.(*a2a.Task).Artifacts = append(e.Payload.(*a2a.Task).Artifacts, &a2a.Artifact{
				ID: a2a.ArtifactID(fmt.Sprint(i)), Parts: a2a.ContentParts{a2a.NewTextPart(strings.Repeat("x", 60<<10))},
			})
		}
		w.publish(e)
		w.finish("beta", w.onlyTask("beta"), "B")
		w.wantAnswer("m1", "done")
		conv, err := cortex.Load(t.Context(), w.store, "", conversation)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := json.Marshal(conv); err != nil || len(b) > 2<<20 {
			t.Errorf("the fold of one turn is %d bytes, want at most 2 MiB", len(b))
		}
	})
}

// TestFailedTasksFailTheTurn holds that scripts can tell: nothing of what was asked was done.
func TestFailedTasksFailTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}, llm.Delegation{ID: "2", Agent: "beta", Task: "b"})
			}
			return respond(results(t))
		}))
		for i, beta := range []a2a.TaskState{a2a.TaskStateFailed, a2a.TaskStateCompleted} {
			turn := fmt.Sprint("m", i)
			w.say(turn, "go")
			w.publish(resultEvent(fmt.Sprint("a", i), "alpha", w.tasksOf("alpha")[i].TaskID, a2a.TaskStateFailed, "no"))
			w.publish(resultEvent(fmt.Sprint("b", i), "beta", w.tasksOf("beta")[i].TaskID, beta, "so"))
			conv, err := cortex.Load(t.Context(), w.store, "", conversation)
			if err != nil {
				t.Fatal(err)
			}
			m, ok := conv.AnswerOf(turn)
			if want := beta != a2a.TaskStateCompleted; !ok || m.Metadata[transport.MetaFailed] != want {
				t.Errorf("beta %s: failed = %v, want %v", beta, m.Metadata[transport.MetaFailed], want)
			}
		}
	})
}

// TestSnapshotAheadOfTheLog has a snapshot of entries that the log lost and then wrote anew.
func TestSnapshotAheadOfTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := simple(func(t *llm.Turn) *llm.Decision { return respond("you said " + t.User) })
		w := newWorld(t, decider)
		w.say("m1", "one")
		ahead, err := cortex.Load(t.Context(), w.store, "", conversation)
		if err != nil {
			t.Fatal(err)
		}
		if err := ahead.Apply(&cortex.Entry{Version: ahead.Version, Seq: 2, Cause: userEvent("lost", "lost"), Turn: "lost", Decision: respond("lost")}); err != nil {
			t.Fatal(err)
		}
		if err := cortex.PutSnapshot(t.Context(), w.store.(cortex.Snapshots), ahead); err != nil {
			t.Fatal(err)
		}
		w.say("m2", "two")
		w.stop()
		w.start(cortex.Config{Decider: decider})
		w.say("m3", "three")
		conv := cortex.NewConversation("", conversation)
		for _, e := range entries(t, w.store) {
			if err := conv.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		for id, want := range map[string]string{"m2": "you said two", "m3": "you said three"} {
			if m, ok := conv.AnswerOf(id); !ok || transport.Text(m.Parts) != want {
				t.Errorf("answer to %s = %v, want %q", id, m, want)
			}
		}
	})
}
