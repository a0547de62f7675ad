package cortex_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	waited  = "it waited 15s and was never handed to a0, which has more to do than it can take"
	advised = waited + "; ask again later, raise the agent's max_concurrent_tasks, or start one more of it"
)

// TestWaitedUntilTheDeadline has tasks wait in the queue until their deadline, also while no Cortex runs: they differ from tasks that their agent
// got and did not do, the agent never gets them, and nothing of them stays.
func TestWaitedUntilTheDeadline(t *testing.T) {
	for name, over := range map[string]func(w *world, cfg cortex.Config){
		"one":     func(*world, cortex.Config) {},
		"two":     func(w *world, cfg cortex.Config) { w.start(cfg) },
		"another": func(w *world, cfg cortex.Config) { w.restart(cfg) },
		"none": func(w *world, cfg cortex.Config) {
			w.stop()
			pass(time.Minute)
			w.start(cfg)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nobodyDecides(t))
				cfg := cortex.Config{Decider: nobodyDecides(t), Agents: skilled(1), TaskTimeout: 15 * time.Second}
				w.restart(cfg)
				for i := range 6 {
					w.sayTo(fmt.Sprint("m", i), "go", transport.Direct{Agent: "a0"})
				}
				if n := depthOf(t, w.bus, transport.Queue); n != 2 {
					t.Fatalf("%d tasks wait, want 2", n)
				}
				over(w, cfg)
				pass(15 * time.Second)
				for _, id := range []string{"m0", "m1", "m2", "m3"} {
					w.wantAnswer(id, "a0 could not do it: no result within 15s, and the task still waits to be fetched")
				}
				for _, id := range []string{"m4", "m5"} {
					w.wantAnswer(id, "The task of a0 was canceled: "+advised)
				}
				if got := w.lines(a2a.TaskStateCanceled); !slices.Equal(got, []string{advised, advised}) {
					t.Errorf("shown: %q", got)
				}
				pass(5 * time.Second)
				if q, a := depthOf(t, w.bus, transport.Queue), depthOf(t, w.bus, "a0"); q != 0 || a != 0 {
					t.Errorf("%d tasks are in the queue and %d with the agent, want none", q, a)
				}
				if name != "two" { // else the other one may have it
					w.wantFold()
				}
			})
		})
	}
}

// TestWaitedIsGivenToOthers has a task wait for a0 until its deadline: it was never begun, so another agent with the skill gets it, however
// few attempts the rules allow, unless they reserve it for a0; without another agent, a0 gets it again as its card says.
func TestWaitedIsGivenToOthers(t *testing.T) {
	again := func(agents func(string) []prompt.Agent) func(string) []prompt.Agent {
		list := agents("")
		list[0].Card = agentcard.Attach(list[0].Card, &agentcard.Spec{Limits: agentcard.Limits{MaxRetries: new(1)}})
		return func(string) []prompt.Agent { return list }
	}
	for name, test := range map[string]struct {
		agents func(string) []prompt.Agent
		policy string
		shown  string // "": it is not tried again
	}{
		"another":              {skilled(2), "", "a1 instead of a0: " + waited},
		"not twice by a0":      {again(skilled(2)), "", "a1 instead of a0: " + waited},
		"a0 was not given it":  {skilled(2), "rules: [{agents: [a0], retry: {attempts: 1}}]", "a1 instead of a0: " + waited},
		"for a0 only":          {skilled(2), "rules: [{agents: [a0], retry: {others: false}}]", ""},
		"nobody else":          {skilled(1), "", ""},
		"a0 once more":         {again(skilled(1)), "", "a0 once more: " + waited},
		"a1 must not be asked": {skilled(2), "rules: [{agents: [a1], allow: false}]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := simple(func(turn *llm.Turn) *llm.Decision {
					if len(turn.Steps) == 0 {
						return delegate(llm.Delegation{ID: "1", Agent: "a0", Skill: "skill", Task: turn.User})
					}
					return respond(results(turn))
				})
				w := newWorld(t, d)
				cfg := cortex.Config{Decider: d, Agents: test.agents, TaskTimeout: 15 * time.Second}
				if test.policy != "" {
					cfg.Policy = rules(t, test.policy)
				}
				w.restart(cfg)
				for i := range 4 { // each in a new conversation
					e := userEvent("m", "go")
					e.ContextID = fmt.Sprint("other", i)
					w.publish(e)
				}
				w.publish(userEvent("m1", "go"))
				if n := depthOf(t, w.bus, transport.Queue); n != 1 {
					t.Fatalf("%d tasks wait, want 1", n)
				}
				pass(15 * time.Second)
				got := w.lines(a2a.TaskStateSubmitted)
				if test.shown == "" {
					if len(got) != 0 {
						t.Errorf("tried again: %q", got)
					}
					w.wantAnswer("m1", "a0 CANCELED "+advised+"; ")
				} else if !slices.Equal(got, []string{test.shown}) {
					t.Errorf("tried again: %q, want %q", got, test.shown)
				}
				w.wantFold()
			})
		})
	}
}

// TestWaitedCountsForNoRule has a task wait for a0, and then go to a1, whose rules allow two attempts: a2 gets it too.
func TestWaitedCountsForNoRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := once(llm.Delegation{ID: "1", Agent: "a0", Skill: "skill", Task: "go"})
		w := newWorld(t, d)
		w.restart(cortex.Config{
			Decider: d, Agents: skilled(4), TaskTimeout: 15 * time.Second, Policy: rules(t, "rules: [{agents: [a1], retry: {attempts: 2}}]"),
		})
		for i := range 4 {
			e := directEvent(t, "m", "go", transport.Direct{Agent: "a0"})
			e.ContextID = fmt.Sprint("other", i)
			w.publish(e)
		}
		w.publish(userEvent("m1", "go"))
		pass(time.Minute)
		w.wantAnswer("m1", "a2 FAILED no result within 15s, and the task still waits to be fetched (tried before: a0: "+waited+"; a1: no result within 15s, and the task still waits to be fetched); ")
	})
}

// TestWaitedIsInTheLog checks that the log determines which tasks waited, and that in an old log none did.
func TestWaitedIsInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nobodyDecides(t))
		w.restart(cortex.Config{Decider: nobodyDecides(t), Agents: skilled(1), TaskTimeout: 15 * time.Second})
		for i := range 5 {
			w.sayTo(fmt.Sprint("m", i), "go", transport.Direct{Agent: "a0"})
		}
		pass(15 * time.Second)
		for _, old := range []bool{false, true} {
			conv, states, n := conversation.NewConversation("", theContext), map[a2a.TaskState]int{}, 0
			for _, e := range entries(t, w.store) {
				n += len(e.Waited)
				if old {
					e.Waited = nil
				}
				if err := conv.Apply(e); err != nil {
					t.Fatal(err)
				}
			}
			for _, turn := range conv.Turns {
				states[turn.Past.Steps[0].Tasks[0].State]++
			}
			if want := map[bool]int{false: 1, true: 0}[old]; n != 1 || states[a2a.TaskStateCanceled] != want || states[a2a.TaskStateFailed] != 5-want {
				t.Errorf("old %v: %d have waited, states %v; want %d canceled and the others failed", old, n, states, want)
			}
		}
	})
}

// TestNotFetched checks that a task which waits in its agent's inbox to be fetched is told from one that the agent has, also when the log is read again.
// When the agent has fetched others, nobody knows which, and nothing is said.
func TestNotFetched(t *testing.T) {
	for name, test := range map[string]struct {
		takes int // tasks, which it does not do
		says  string
	}{
		"none": {0, ", and the task still waits to be fetched"}, "one of two": {1, ""}, "both": {2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nobodyDecides(t))
				cfg := cortex.Config{Decider: nobodyDecides(t), Agents: skilled(1), TaskTimeout: 15 * time.Second}
				w.restart(cfg)
				if test.takes > 0 {
					sub, err := w.bus.Subscribe(t.Context(), transport.Inbox("", "a0"), &transport.SubscribeOptions{Unordered: true, Concurrency: test.takes})
					if err != nil {
						t.Fatal(err)
					}
					go sub.Serve(t.Context(), func(ctx context.Context, _ *transport.Event) error { //nolint:errcheck // it ends with the test
						<-ctx.Done()
						return ctx.Err()
					})
					synctest.Wait()
				}
				for i := range 2 {
					w.sayTo(fmt.Sprint("m", i), "go", transport.Direct{Agent: "a0"})
				}
				pass(16 * time.Second)
				for i := range 2 {
					w.wantAnswer(fmt.Sprint("m", i), "a0 could not do it: no result within 15s"+test.says)
				}
				w.wantFold()
			})
		})
	}
}
