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
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
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
		w.publish(cancelEvent("x1", &transport.Cancel{Turn: turnOf("m1")}))
		w.wantAnswer("m1", conversation.AnswerCanceled)
		if got := w.stopped(); !slices.Equal(got, []a2a.TaskID{w.onlyTask("alpha")}) {
			t.Errorf("told to stop: %v, want alpha's task only", got)
		}
		w.publish(cancelEvent("x2", &transport.Cancel{Turn: turnOf("m1")}))
		w.finish("alpha", w.onlyTask("alpha"), "late")
		if n := len(entries(t, w.store)); n != 3 {
			t.Errorf("%d entries, want 3: nothing was left to cancel", n)
		}
	})
}

func cancelEvent(id string, c *transport.Cancel) *transport.Event {
	return &transport.Event{ID: id, Time: time.Now(), From: "user", ContextID: theContext, TaskID: c.TaskID, Payload: c}
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

// TestCancelWhileDeciding interrupts the decider: a conversation's events are handled one at a time, so the Cancel in the inbox
// waits for the decision, and the one on the control topic must end it.
func TestCancelWhileDeciding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, decideFunc(func(ctx context.Context, _ *llm.Turn, _ func(string)) (*llm.Decision, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		w.say("m1", "go")
		if err := w.bus.Publish(t.Context(), transport.Control("", transport.Cortex), cancelEvent("x1", &transport.Cancel{Turn: turnOf("m1")})); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wantAnswer("m1", conversation.AnswerCanceled)
	})
}

// TestLateInterrupt delivers a Cancel's copy on the control topic after the Cancel has been handled and the next turn has begun: it ends nothing.
func TestLateInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, decideFunc(func(ctx context.Context, turn *llm.Turn, _ func(string)) (*llm.Decision, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Minute):
				return respond("done"), nil
			}
		}))
		synctest.Wait() // it has subscribed
		cancel := cancelEvent("x1", &transport.Cancel{})
		control := func() {
			if err := w.bus.Publish(t.Context(), transport.Control("", transport.Cortex), cancel); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		w.say("m1", "go")
		control()
		if err := w.bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), cancel); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.wantAnswer("m1", conversation.AnswerCanceled)
		w.say("m2", "go on")
		control()
		pass(2 * time.Minute)
		w.wantAnswer("m2", "done")
	})
}

// TestCancelBeforeDeciding cancels a turn before its decision begins: the control topic is not stored. An agent that knows the turn's id can
// neither do the same nor keep the user from it.
func TestCancelBeforeDeciding(t *testing.T) {
	for name, c := range map[string]struct {
		by   []string
		want string
	}{
		"by the user":               {[]string{"user"}, conversation.AnswerCanceled},
		"by an agent":               {[]string{"beta"}, "done"},
		"by an agent and the user":  {[]string{"beta", "user"}, conversation.AnswerCanceled},
		"of another turn":           {nil, "done"},
		"by the user and an agent":  {[]string{"user", "beta"}, conversation.AnswerCanceled},
		"by the user, a while back": {[]string{"user", "", ""}, conversation.AnswerCanceled},
		"by the user, before an agent cancels all that it can": {[]string{"user", "beta*"}, conversation.AnswerCanceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, decideFunc(func(ctx context.Context, _ *llm.Turn, _ func(string)) (*llm.Decision, error) {
					select {
					case <-ctx.Done():
						return nil, ctx.Err()
					case <-time.After(time.Minute):
						return respond("done"), nil
					}
				}))
				synctest.Wait() // it has subscribed
				cancel := func(i int, by, turn string) {
					x := cancelEvent(fmt.Sprint("x", i), &transport.Cancel{Turn: turnOf(turn)})
					x.From = by
					if err := w.bus.Publish(t.Context(), transport.Control("", transport.Cortex), x); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				for i, by := range c.by {
					switch by {
					case "":
						cancel(i, "user", fmt.Sprint("another", i))
					case "beta*":
						for j := range 1100 {
							cancel(j, "beta", fmt.Sprint("another", j))
						}
					default:
						cancel(i, by, "m1")
					}
				}
				cancel(len(c.by), "user", "m0")
				w.say("m1", "go")
				pass(2 * time.Minute)
				w.wantAnswer("m1", c.want)
			})
		})
	}
}

// TestInterruptsAreBounded cancels many turns that do not exist.
func TestInterruptsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, decideFunc(func(ctx context.Context, _ *llm.Turn, _ func(string)) (*llm.Decision, error) {
			return respond("done"), ctx.Err()
		}))
		synctest.Wait() // it has subscribed
		for i := range 3000 {
			x := cancelEvent(fmt.Sprint("x", i), &transport.Cancel{Turn: turnOf(fmt.Sprint("m", i))})
			if err := w.bus.Publish(t.Context(), transport.Control("", transport.Cortex), x); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		w.say("m10", "go")
		w.say("m2990", "go")
		if a := w.answers(); a["m10"] != "done" || a["m2990"] != conversation.AnswerCanceled {
			t.Errorf("answers are %v, want the oldest of 3000 interrupts forgotten and the newest kept", a)
		}
	})
}

// TestStoppedWhileDeciding stops the orchestrator while the model is busy: the request does not fail, and the next
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

// TestAgentsCancelOnlyTheirOwn has an agent cancel a person's request, and then its own.
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
		if _, ok := a["m1"]; ok || a["m2"] != conversation.AnswerCanceled {
			t.Errorf("answers %v, want only that m2 was canceled", a)
		}
	})
}

// TestCancelOfWhatWaits cancels the task of an agent that is not running: it does not get the task when it starts.
func TestCancelOfWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(func(*llm.Turn) *llm.Decision { return delegate(llm.Delegation{ID: "1", Agent: "delta", Task: "a"}) })
		w := newWorld(t, d)
		w.restart(cortex.Config{Decider: d, Agents: func(string) []prompt.Agent { return append(offered(""), actor("delta", "sleeps")) }})
		w.say("m1", "go")
		w.publish(cancelEvent("x1", &transport.Cancel{Turn: turnOf("m1")}))
		w.say("m2", "go")
		var got []string
		w.listen(transport.Inbox("", "delta"), func(e *transport.Event) {
			got = append(got, transport.MetaString(message(e), transport.MetaTurn))
		})
		synctest.Wait()
		if !slices.Equal(got, []string{turnOf("m2")}) {
			t.Errorf("delta got the tasks of %q, want that of m2", got)
		}
	})
}
