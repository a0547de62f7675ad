package cortex_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
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
			transport.MetaRequester: "user", transport.MetaUserText: "please do it", transport.MetaTurn: turnOf("m1"),
			transport.MetaHops: 1.0, transport.MetaAncestors: nil, transport.MetaDeadline: deadline,
			transport.MetaLatest: time.Now().Add(conversation.MaxExtension * 5 * time.Minute).UTC().Format(time.RFC3339Nano), transport.MetaAttempt: 1.0,
		}
		if diff := cmp.Diff(want, m.Metadata); diff != "" {
			t.Errorf("task metadata (-want +got):\n%s", diff)
		}
		if transport.Text(m.Parts) != "do it" || tasks[0].From != transport.Cortex || m.ContextID != theContext {
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
		w.start(cortex.Config{Decider: simple(func(t *llm.Turn) *llm.Decision { // the reply may arrive after a restart
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

func TestUnknownKindBecomesADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(*llm.Turn) *llm.Decision { return respond("ok") }))
		w.publish(&transport.Event{ID: "o1", From: "user", ContextID: theContext, Payload: &transport.Opaque{Kind: "hologram", Version: "9", Data: []byte("x")}})
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

// TestAgentAsks has an agent send a request of its own: it gets the answer in its inbox, and the request cannot come back
// to it or go in circles.
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
		ask("m2", conversation.MaxHops)
		if a := w.answers()["m2"]; !strings.Contains(a, "handed on") {
			t.Errorf("answer at depth %d = %q, want a refusal", conversation.MaxHops, a)
		}
	})
}

// TestAgentAsksByClient has an agent ask as people do: the answer is on Live and in the log, and no inbox fills with what nobody reads.
func TestAgentAsksByClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var offers []string
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			offers = nil
			for _, a := range t.Agents {
				offers = append(offers, a.ID)
			}
			return respond("for you")
		}))
		e := userEvent("m1", "help me")
		e.From = "alpha"
		e.Payload.(*a2a.Message).SetMeta(transport.MetaByClient, true)
		w.publish(e)
		w.publish(e) // again
		if slices.Contains(offers, "alpha") {
			t.Errorf("offered %v: alpha asks itself", offers)
		}
		if a := w.answers()["m1"]; a != "for you" {
			t.Errorf("answer %q on Live", a)
		}
		if got := w.tasksOf("alpha"); len(got) != 0 {
			t.Errorf("alpha's inbox has %d events, want none", len(got))
		}
	})
}

// TestAncestors has an agent ask for something that another one does: the task names the agents that handed the request on.
func TestAncestors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(llm.Delegation{ID: "1", Agent: "gamma", Task: "help"}))
		e := userEvent("m1", "help me")
		e.From = "alpha"
		e.Payload.(*a2a.Message).SetMeta(transport.MetaHops, 1)
		e.Payload.(*a2a.Message).SetMeta(transport.MetaAncestors, []string{"beta"})
		w.publish(e)
		w.wantTasks("gamma", 1)
		m := message(w.tasksOf("gamma")[0]).Metadata
		if diff := cmp.Diff([]any{"beta", "alpha"}, m[transport.MetaAncestors]); diff != "" || m[transport.MetaHops] != 2.0 {
			t.Errorf("hops %v, ancestors (-want +got):\n%s", m[transport.MetaHops], diff)
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
				if d.Turn != turnOf("m1") {
					t.Errorf("delta of turn %q", d.Turn)
				}
			}
		}
		if text != "one two three" || len(attempts) != 1 {
			t.Errorf("streamed %q in %d attempts", text, len(attempts))
		}
	})
}

// TestResultIsShownBeforeItIsDecided has a slow model: people see before its decision that the agent is done.
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
