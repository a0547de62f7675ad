package cortex_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/fake"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestFullConversation has a log of the maximum length: open turns end, and no new one begins.
func TestFullConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := once(toAlpha)
		w := newWorld(t, d)
		const before = 40 // so many that a snapshot is looked for
		last := conversation.Version(0)
		for i := range before {
			e := &conversation.Entry{Seq: uint64(i + 1), Time: time.Now(), Turn: fmt.Sprint("old", i), Cause: userEvent(fmt.Sprint("old", i), "hi"), Failure: "no"}
			var err error
			if last, err = w.store.Append(t.Context(), "", theContext, last, e); err != nil {
				t.Fatal(err)
			}
		}
		w.say("m1", "go")
		conv := w.load()
		conv.Seq = conversation.MaxEntries
		b, err := conv.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if err := w.store.(storage.Snapshots).PutSnapshot(t.Context(), "", theContext, conv.Version, b); err != nil {
			t.Fatal(err)
		}
		w.restart(cortex.Config{Decider: d})
		full := "This conversation is full. Begin another one with /new, and say it again there."
		for _, id := range []string{"m2", "m3"} {
			w.say(id, "more")
		}
		if got := w.liveAnswers(); !slices.Equal(got, []string{full, full}) {
			t.Errorf("told %q, want %q twice", got, full)
		}
		for d, err := range w.bus.(transport.DeadLetters).DeadLetters(t.Context(), "") {
			t.Errorf("dead letter %v, %v; want none, which would displace others", d, err)
		}
		if n := len(entries(t, w.store)) - before; n != 1 || len(w.decisions()) != 1 {
			t.Errorf("%d entries, %d decisions; want 1 of each", n, len(w.decisions()))
		}
		w.publish(resultEvent("r1", "alpha", w.onlyTask("alpha"), a2a.TaskStateCompleted, "A"))
		if m, ok := w.load().AnswerOf("user", "m1"); !ok || transport.Text(m.Parts) != "alpha COMPLETED A; " {
			t.Errorf("what was open is answered with %v", m)
		}
		if err := storage.KeepErased(t.Context(), w.store, "", theContext); err != nil {
			t.Fatal(err)
		}
		if err := w.store.(storage.Eraser).Erase(t.Context(), "", theContext); err != nil {
			t.Fatal(err)
		}
		w.say("m4", "begin anew")
		if n := len(w.tasksOf("alpha")); n != 2 {
			t.Errorf("alpha got %d tasks, want another one: the conversation that was full is no more", n)
		}
	})
}

// TestPartialResults has one of several agents fail: the results of the others reach the model, and, with the fake decider, the user.
func TestPartialResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := fake.New(nil)
		d := simple(func(turn *llm.Turn) *llm.Decision {
			if len(turn.Steps) == 0 {
				return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "a"}, llm.Delegation{ID: "2", Agent: "beta", Task: "b"},
					llm.Delegation{ID: "3", Agent: "gamma", Task: "c"})
			}
			d, err := answer.Decide(t.Context(), turn, nil)
			if err != nil {
				t.Error(err)
			}
			return d
		})
		w := newWorld(t, d)
		w.say("m1", "go")
		w.finish("alpha", w.onlyTask("alpha"), "sunny")
		w.publish(resultEvent("f", "beta", w.onlyTask("beta"), a2a.TaskStateFailed, "no train"))
		pass(5 * time.Minute)
		w.wantAnswer("m1", "alpha: sunny\nbeta could not do it: no train\ngamma could not do it: no result within 5m0s")
		if m, ok := w.load().AnswerOf("user", "m1"); !ok || m.Metadata[transport.MetaFailed] != false {
			t.Errorf("the answer is %v, want one that is no failure", m)
		}
		w.say("m2", "and now")
		if h := w.decisions()[2].History; len(h) != 1 || h[0].Steps[0].Tasks[0].Result != "sunny" {
			t.Errorf("the history has %+v", h)
		}
	})
}

// TestTooManyQuestions has so many agents ask that the oldest question is canceled: its agent is told to stop.
func TestTooManyQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) > 0 {
				return &llm.Decision{Kind: llm.KindClarify, Say: "how many?"}
			}
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "book"})
		}))
		for i := range 33 {
			id := string(rune('A' + i))
			w.say("m"+id, "book")
			w.publish(resultEvent("q"+id, "alpha", w.tasksOf("alpha")[i].TaskID, a2a.TaskStateInputRequired, "how many?"))
		}
		if got := w.stopped(); !slices.Equal(got, []a2a.TaskID{w.tasksOf("alpha")[0].TaskID}) {
			t.Errorf("told to stop: %v, want the first task", got)
		}
	})
}
