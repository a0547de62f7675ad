package cortex_test

import (
	"context"
	"fmt"
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

// TestCancelOfWhatWaits cancels the task of an agent that is not running: when it starts, it does not get it.
func TestCancelOfWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(func(*llm.Turn) *llm.Decision { return delegate(llm.Delegation{ID: "1", Agent: "delta", Task: "a"}) })
		w := newWorld(t, d)
		w.restart(cortex.Config{Decider: d, Agents: func(string) []prompt.Agent { return append(offered(""), actor("delta", "sleeps")) }})
		w.say("m1", "go")
		w.publish(cancelEvent("x1", &transport.Cancel{Turn: "m1"}))
		w.say("m2", "go")
		var got []string
		w.listen(transport.Inbox("", "delta"), func(e *transport.Event) {
			got = append(got, transport.MetaString(message(e), transport.MetaTurn))
		})
		synctest.Wait()
		if !slices.Equal(got, []string{"m2"}) {
			t.Errorf("delta got the tasks of %q, want that of m2", got)
		}
	})
}
