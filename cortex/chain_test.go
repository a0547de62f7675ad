package cortex_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// tireless is how often an agent asks that never stops: at every task and at every answer.
const tireless = 1000

// asking makes the n-th request of each agent, after an event that it got.
type asking map[string]func(n int, heard *transport.Event) *transport.Event

// insist has agents send a request for each event that they get, without anything that they know about the request behind it.
func (w *world) insist(ask asking) {
	asked := 0
	w.heed = func(agent string, heard *transport.Event) {
		if ask[agent] == nil || asked == tireless {
			return
		}
		asked++
		e := ask[agent](asked, heard)
		e.From = agent
		if err := w.bus.Publish(w.t.Context(), transport.Inbox("", transport.Cortex), e); err != nil {
			w.t.Error(err)
		}
	}
}

// TestAgentThatAsksOnAndOn checks that the requests of agents are bounded, in the course of a turn and by themselves, whatever
// they leave out of their messages, and in whatever conversation they ask.
func TestAgentThatAsksOnAndOn(t *testing.T) {
	in := func(contextID, text string) func(n int, heard *transport.Event) *transport.Event {
		return func(n int, heard *transport.Event) *transport.Event {
			e := userEvent(fmt.Sprint("a", n), text)
			switch contextID {
			case theContext:
			case "":
				e.ContextID = heard.ContextID
			default:
				e.ContextID = fmt.Sprint(contextID, n)
			}
			message(e).ContextID = e.ContextID
			return e
		}
	}
	for name, test := range map[string]struct {
		ask  asking
		most int // turns that are paid for
	}{
		"for an answer":           {asking{"alpha": in(theContext, "and then?")}, conversation.MaxChain},
		"for itself":              {asking{"alpha": in(theContext, "alpha: go on")}, conversation.MaxChain},
		"for each other":          {asking{"alpha": in(theContext, "beta: go on"), "beta": in(theContext, "alpha: go on")}, conversation.MaxChain},
		"in new conversations":    {asking{"alpha": in("new-", "and then?")}, 1 + 10},
		"for itself in new ones":  {asking{"alpha": in("new-", "alpha: go on")}, 1 + 10},
		"for each other in those": {asking{"alpha": in("new-", "beta: go on"), "beta": in("new-", "alpha: go on")}, 1 + 2*10},
		"with another's help":     {asking{"alpha": in("new-", "beta: go on"), "beta": in("", "and then?")}, 1 + 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, giving)
				w.insist(test.ask)
				w.say("m1", "alpha: go")
				if n := len(w.decisions()); n > test.most || n < 2 {
					t.Errorf("%d decisions, want 2 to %d", n, test.most)
				}
				if strings.HasPrefix(name, "for a") {
					refused := "Agents have asked for 63 things in the course of one request; more are not allowed."
					if a := w.shownTo("alpha", "a999"); a != refused || len(w.load().Turns) > conversation.MaxChain {
						t.Errorf("the last answer is %q, and there are %d turns", a, len(w.load().Turns))
					}
				}
				w.wantFold()
			})
		})
	}
}

// TestRequestsPerMinute checks that an agent's own requests are limited per minute, by a default or a rule; those of people are not.
func TestRequestsPerMinute(t *testing.T) {
	for rule, want := range map[string][2]int{ // at once, and a minute later
		"": {10, 40},
		"rules: [{agents: [alpha], requests_per_minute: 60}]": {20, 80},
		"rules: [{agents: [alpha], requests_per_minute: 1}]":  {1, 2},
		"rules: [{agents: [beta], requests_per_minute: 60}]":  {10, 40},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := simple(func(*llm.Turn) *llm.Decision { return respond("ok") })
				w := newWorld(t, d)
				if rule != "" {
					w.restart(cortex.Config{Decider: d, Policy: rules(t, rule)})
				}
				n, refused := 0, ""
				flood := func() (ok int) {
					for range 150 {
						n++
						w.sayAs("alpha", fmt.Sprint("m", n), "hello")
					}
					for _, a := range w.answers() {
						if a == "ok" {
							ok++
						} else {
							refused = a
						}
					}
					return ok
				}
				got := [2]int{flood()}
				for range 59 { // so that no token is lost
					pass(time.Second)
					n++
					w.sayAs("alpha", fmt.Sprint("m", n), "hello")
				}
				pass(time.Second)
				got[1] = flood()
				if got != want {
					t.Errorf("%d at once and %d in all were answered, want %d", got[0], got[1], want)
				}
				if !strings.HasPrefix(refused, "Too many requests: of itself, alpha may ask for ") {
					t.Errorf("the others were answered %q", refused)
				}
				for i := range 100 {
					w.say(fmt.Sprint("u", i), "hello")
				}
				if a := w.answers(); a["u99"] != "ok" {
					t.Errorf("the user was answered %q", a["u99"])
				}
			})
		})
	}
}

// TestRefusedOnceForAll repeats a message of an agent that was refused because of its rate: nothing changes, since the log has the refusal.
func TestRefusedOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(func(*llm.Turn) *llm.Decision { return respond("ok") })
		w := newWorld(t, d)
		for i := range 11 {
			w.sayAs("alpha", fmt.Sprint("m", i), "hello")
		}
		pass(5 * time.Minute) // the transport has forgotten the message, and the rate allows more
		w.restart(cortex.Config{Decider: d})
		w.sayAs("alpha", "m10", "hello")
		if a := w.answers()["m10"]; !strings.HasPrefix(a, "Too many requests") || len(w.decisions()) != 10 {
			t.Errorf("m10 is answered %q after %d decisions, want that it was refused, after 10", a, len(w.decisions()))
		}
		w.wantFold()
	})
}

// TestRequestsInAnothersLog checks that an agent's requests above its rate are logged only in a conversation that it began.
func TestRequestsInAnothersLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(*llm.Turn) *llm.Decision { return respond("ok") }))
		w.say("u1", "hello")
		const most = 1 + 10 // the user's, and the requests that an agent may make at once
		for i := range 100 {
			w.sayAs("alpha", fmt.Sprint("a", i), "hello")
		}
		if n := w.load().Seq; n != most {
			t.Errorf("the log of the user's conversation has %d entries, want %d", n, most)
		}
		if a := w.shownTo("alpha", "a99"); !strings.HasPrefix(a, "Too many requests") {
			t.Errorf("the last request is answered %q", a)
		}
		for i := range 20 {
			e := userEvent(fmt.Sprint("b", i), "hello")
			e.From, e.ContextID = "alpha", fmt.Sprint("new-", i)
			message(e).ContextID = e.ContextID
			w.publish(e)
			conv, err := storage.Load(t.Context(), w.store, "", e.ContextID)
			if err != nil || conv.Seq != 0 {
				t.Errorf("conversation %s has %d entries, %v, want none", e.ContextID, conv.Seq, err)
			}
		}
		w.say("u2", "hello")
		if a := w.answers()["u2"]; a != "ok" {
			t.Errorf("the user is answered %q", a)
		}
		w.wantFold()
	})
}

// TestChain checks that an agent's tasks determine which chain its request continues, and with which hops and ancestors.
func TestChain(t *testing.T) {
	for name, test := range map[string]struct {
		change    func(w *world, e *transport.Event)
		hops      float64
		ancestors []any
		root      string
	}{
		"says nothing":                {func(*world, *transport.Event) {}, 3, []any{"alpha", "beta"}, "m1"},
		"names the task of the event": {func(w *world, e *transport.Event) { e.TaskID = w.tasksOf("beta")[0].TaskID }, 2, []any{"beta"}, "m0"},
		"names it in the message":     {func(w *world, e *transport.Event) { message(e).TaskID = w.tasksOf("beta")[0].TaskID }, 2, []any{"beta"}, "m0"},
		"refers to it": {func(w *world, e *transport.Event) {
			message(e).ReferenceTasks = []a2a.TaskID{"nobody's", w.tasksOf("beta")[0].TaskID}
		}, 2, []any{"beta"}, "m0"},
		"names it as it was told": {func(w *world, e *transport.Event) {
			message(e).SetMeta(transport.MetaTaskID, string(w.tasksOf("beta")[0].TaskID))
		}, 2, []any{"beta"}, "m0"},
		"names another's": {func(w *world, e *transport.Event) { e.TaskID = w.tasksOf("alpha")[0].TaskID }, 3, []any{"alpha", "beta"}, "m1"},
		"claims less":     {func(_ *world, e *transport.Event) { message(e).SetMeta(transport.MetaHops, 0) }, 3, []any{"alpha", "beta"}, "m1"},
		"claims more": {func(_ *world, e *transport.Event) {
			message(e).SetMeta(transport.MetaHops, 3)
			message(e).SetMeta(transport.MetaAncestors, []string{"delta"})
		}, 4, []any{"alpha", "delta", "beta"}, "m1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, giving)
				w.say("m0", "beta: first")  // from the user: no hops
				w.say("m1", "alpha: first") // alpha asks for beta: one
				w.sayAs("alpha", "m2", "beta: second")
				e := userEvent("m3", "gamma: third")
				e.From = "beta"
				test.change(w, e)
				w.publish(e)
				got := w.tasksOf("gamma")
				if len(got) != 1 {
					t.Fatalf("gamma got %d tasks: %v", len(got), w.answers())
				}
				m := message(got[0]).Metadata
				if diff := cmp.Diff(test.ancestors, m[transport.MetaAncestors]); diff != "" || m[transport.MetaHops] != test.hops {
					t.Errorf("hops %v, want %v; ancestors (-want +got):\n%s", m[transport.MetaHops], test.hops, diff)
				}
				conv := w.load()
				if chain := conv.Chains[turnOf(test.root)]; chain == nil || chain.PerAgent["gamma"] != 1 {
					t.Errorf("the chain of %s is %+v, want it to have gamma's task", test.root, chain)
				}
				w.wantFold()
				w.publish(cancelEvent("x", &transport.Cancel{}))
				if conv := w.load(); len(conv.Chains) != 0 {
					t.Errorf("chains %v are left", conv.Chains)
				}
			})
		})
	}
}

// TestTaskThatIsDone checks that an agent whose task is done begins a chain of its own.
func TestTaskThatIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, giving)
		w.say("m1", "alpha: go")
		w.finish("alpha", w.onlyTask("alpha"), "A")
		w.sayAs("alpha", "m2", "beta: go")
		if i := slices.IndexFunc(w.load().Turns, func(turn *conversation.Turn) bool {
			return turn.Message == "m2" && turn.Root == turn.ID && turn.Hops == 0
		}); i < 0 {
			t.Errorf("m2 does not begin a chain")
		}
	})
}

// TestPerTurnOfAChain checks that the limit on tasks that a turn gives to an agent counts the whole chain.
func TestPerTurnOfAChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := governed(t, giving, "rules: [{agents: [gamma], per_turn: 2}]")
		w.say("m1", "alpha: go")
		for i := range 3 {
			w.sayAs("alpha", fmt.Sprint("a", i), "gamma: help")
		}
		w.wantTasks("gamma", 2)
		w.wantAnswer("a2", "gamma: this turn gave it 2 of 2 tasks")
		w.say("m2", "gamma: help") // another chain
		w.wantTasks("gamma", 3)
		w.wantFold()
	})
}

// TestBudgetOfAChain checks that a turn's budget counts the whole chain.
func TestBudgetOfAChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(func(t *llm.Turn) *llm.Decision {
			decided := respond("ok")
			if strings.HasPrefix(t.User, "alpha: ") {
				decided = delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "work"})
			}
			decided.Usage = llm.Usage{Input: 40}
			return decided
		})
		w := newWorld(t, d)
		w.restart(cortex.Config{Decider: d, Budget: budget.Limits{Turn: llm.Budget{Tokens: 100}}})
		w.say("m1", "alpha: go")
		for i := range 3 {
			w.sayAs("alpha", fmt.Sprint("a", i), "help")
		}
		if a := w.answers(); a["a0"] != "ok" || a["a1"] != "ok" || !strings.HasPrefix(a["a2"], "The budget for this request is used up (120 of 100 tokens)") {
			t.Errorf("answers %q", a)
		}
		w.say("m2", "and mine?")
		w.wantAnswer("m2", "ok")
		w.wantFold()
	})
}
