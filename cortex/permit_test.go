package cortex_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/fake"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// giving gives a message to the agent that it begins with, as "alpha: do this" or "alpha/skill: do this", unless
// that agent is unavailable; then it says why.
var giving = simple(func(t *llm.Turn) *llm.Decision {
	if len(t.Steps) > 0 {
		return respond(results(t))
	}
	name, text, _ := strings.Cut(t.User, ": ")
	agent, skill, _ := strings.Cut(name, "/")
	for _, u := range t.Unavailable {
		if u.ID == agent {
			return respond(agent + ": " + u.Why)
		}
	}
	return delegate(llm.Delegation{ID: "1", Agent: agent, Skill: skill, Task: text})
})

func governed(t *testing.T, d llm.Decider, text string) *world {
	t.Helper()
	w := newWorld(t, d)
	w.restart(cortex.Config{Decider: d, Policy: rules(t, text)})
	return w
}

// TestDeniedIsNotThere checks that an agent is invisible to those who may not ask it: in what the decider sees, and in what
// it is told when it names the agent nevertheless.
func TestDeniedIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := governed(t, giving, "rules: [{agents: [alp*], only_from: [\"user:alice\"]}]")
		w.say("m1", "alpha: hello")
		w.restart(cortex.Config{Decider: giving, Agents: func(string) []prompt.Agent { return offered("")[1:] }})
		w.say("m2", "alpha: hello")
		got := w.decisions()
		for _, turn := range got {
			turn.History, turn.User, turn.ID, turn.Now, turn.Veto, turn.Open = nil, "", "", time.Time{}, nil, nil
		}
		if diff := cmp.Diff(got[1], got[0], cmpopts.IgnoreUnexported(llm.Turn{})); diff != "" {
			t.Errorf("the prompt shows that the agent is there (-not there +denied):\n%s", diff)
		}
		if a := w.answers(); a["m1"] != a["m2"] || !strings.Contains(a["m1"], `no agent "alpha"; there are "beta", "gamma"`) {
			t.Errorf("the answers are\n%q\n%q", a["m1"], a["m2"])
		}
		w.wantTasks("alpha", 0)
	})
}

// TestDeniedQuestion checks that the question of such an agent is not shown either, since it could not be answered.
func TestDeniedQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, giving)
		w.say("m1", "alpha: hello")
		w.publish(resultEvent("q", "alpha", w.onlyTask("alpha"), a2a.TaskStateInputRequired, "how?"))
		w.restart(cortex.Config{Decider: giving, Policy: rules(t, "rules: [{agents: [alpha], allow: false}]")})
		w.say("m2", "beta: hello")
		if waiting := w.decisions()[len(w.decisions())-1].Waiting; len(waiting) != 0 {
			t.Errorf("these wait for a reply: %v", waiting)
		}
	})
}

// TestNobodyRepliesForAnother checks that neither an agent nor another person is shown an agent's question, or can answer it, even if the model lets them;
// and that who is asked can.
func TestNobodyRepliesForAnother(t *testing.T) {
	for _, from := range []string{"beta", "user:bob"} {
		t.Run(from, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				id := a2a.TaskID("1")
				w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
					if len(t.Steps) > 0 {
						return respond(results(t))
					}
					return delegate(llm.Delegation{ID: string(id), Agent: "alpha", Task: t.User})
				}))
				w.say("m1", "pay Bob")
				id = w.onlyTask("alpha")
				w.publish(resultEvent("q", "alpha", id, a2a.TaskStateInputRequired, "Really?"))
				w.sayAs(from, "m2", "yes")
				if waiting := w.decisions()[2].Waiting; len(waiting) != 0 {
					t.Errorf("%s is offered to reply to %v", from, waiting)
				}
				w.wantAnswer("m2", foreignReply(id))
				w.wantTasks("alpha", 1)
				w.say("m3", "yes")
				if waiting := w.decisions()[3].Waiting; len(waiting) != 1 {
					t.Errorf("who was asked is offered to reply to %v", waiting)
				}
				w.wantTasks("alpha", 2)
			})
		})
	}
}

func foreignReply(id a2a.TaskID) string {
	return "Nothing was done: the reply that the task " + string(id) + " waits for is not this request's to give."
}

// TestDeniedTaskDoesNotGoOn checks that a task that waits with an agent denied by now does not continue on behalf of another agent.
func TestDeniedTaskDoesNotGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := a2a.TaskID("1")
		d := simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) > 0 {
				return respond(results(t))
			}
			return delegate(llm.Delegation{ID: string(id), Agent: strings.Fields(t.User)[0], Task: t.User})
		})
		w := newWorld(t, d)
		w.say("m1", "alpha pay Bob")
		id = w.onlyTask("alpha")
		w.publish(resultEvent("q", "alpha", id, a2a.TaskStateInputRequired, "Really?"))
		w.restart(cortex.Config{Decider: d, Policy: rules(t, "rules: [{agents: [alpha], allow: false}]")})
		w.say("m2", "beta says yes")
		w.wantTasks("alpha", 1)
		w.wantAnswer("m2", foreignReply(id))
		w.wantFold()
	})
}

// TestDeniedInTheMeantime checks that a task that depends on others is not sent if its agent is denied when they are done, nor are the tasks
// that depend on it.
func TestDeniedInTheMeantime(t *testing.T) {
	for rule, why := range map[string]string{
		"rules: [{agents: [beta], allow: false}]":                  `beta has to be asked for a skill by its id, since it has a skill "skill" that it may not be asked for`,
		"rules: [{agents: [beta], only_from: [\"user:alice\"]}]":   `beta has to be asked for a skill by its id, since it has a skill "skill" that it may not be asked for`,
		"{tenants: {deny: [\"*\"]}, rules: []}":                    "This tenant is not served.",
		"rules: [{agents: [beta, gamma], allow: false}]":           "beta may not be asked",
		"rules: [{agents: [alpha, gamma], allow: false}]":          "",
		"rules: [{agents: [beta], skills: [other], allow: false}]": "",
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := once(
					llm.Delegation{ID: "1", Agent: "alpha", Task: "look"},
					llm.Delegation{ID: "2", Agent: "beta", Task: "pay", DependsOn: []string{"1"}},
					llm.Delegation{ID: "3", Agent: "alpha", Task: "tell", DependsOn: []string{"2"}})
				w := newWorld(t, d)
				w.say("m1", "go")
				w.restart(cortex.Config{Decider: d, Policy: rules(t, rule), Agents: func(string) []prompt.Agent {
					if strings.HasSuffix(why, "may not be asked") {
						return offered("")[:1] // beta is absent
					}
					return offered("")
				}})
				w.finish("alpha", w.onlyTask("alpha"), "seen")
				if why == "" {
					w.wantTasks("beta", 1)
					return
				}
				w.wantTasks("beta", 0)
				if e := entries(t, w.store)[1]; len(e.Withheld) != 1 {
					t.Errorf("withheld is %v", e.Withheld)
				}
				for _, task := range w.load().TaskList() {
					if task.Agent == "beta" && task.Result != "not started: "+why {
						t.Errorf("beta's task is %s: %s", task.State(), task.Result)
					}
				}
				w.wantTasks("alpha", 1)
				if w.answers()["m1"] == "" {
					t.Error("the turn is not answered")
				}
				w.wantFold()
			})
		})
	}
}

// TestAllowedFrom checks that one person may ask and another may not, in the same conversation.
func TestAllowedFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := governed(t, giving, "rules: [{agents: [alpha], only_from: [\"user:alice\"]}]")
		w.sayAs("user:alice", "m1", "alpha: hello")
		w.wantTasks("alpha", 1)
		w.sayAs("user:eve", "m2", "alpha: hello")
		w.wantTasks("alpha", 1)
		last := w.decisions()[1]
		if slices.ContainsFunc(last.Agents, func(a prompt.Agent) bool { return a.ID == "alpha" }) || !slices.Contains(last.Update.Left, "alpha") {
			t.Errorf("eve is offered alpha: %+v", last.Input)
		}
	})
}

// TestDeniedAmongMany checks that a denied agent is neither in a shortlist nor found by a search.
func TestDeniedAmongMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		index, agents := router.New(nil), []prompt.Agent{}
		for i := range 60 {
			card := &a2a.AgentCard{Name: fmt.Sprintf("a%02d", i), Description: "Transfers money", Skills: []a2a.AgentSkill{{ID: "transfer", Name: "Transfer money"}}}
			agents = append(agents, prompt.Agent{ID: card.Name, Card: card, Seen: true})
			index.Put(card.Name, card)
		}
		d := simple(func(t *llm.Turn) *llm.Decision {
			_, found := t.Lookup("a07")
			named := func(a prompt.Agent) bool { return a.ID == "a07" }
			return respond(fmt.Sprint(found, slices.ContainsFunc(t.Agents, named), slices.ContainsFunc(t.Listed, named),
				slices.ContainsFunc(t.Search("a07 transfer money"), func(f llm.Found) bool { return f.ID == "a07" })))
		})
		w := newWorld(t, d)
		for i, text := range []string{"rules: []", "rules: [{agents: [a07], allow: false}]"} {
			w.restart(cortex.Config{Decider: d, Policy: rules(t, text), Router: index, Agents: func(string) []prompt.Agent { return agents }})
			e := userEvent(fmt.Sprint("m", i), "a07 transfer money")
			w.publish(e)
		}
		w.wantAnswer("m0", "true true true true")
		w.wantAnswer("m1", "false false true false") // the list is the one from before
	})
}

// TestSkills checks that a skill can be denied while others are allowed, and that naming no skill does not get around that.
func TestSkills(t *testing.T) {
	card := &a2a.AgentCard{Name: "alpha", Skills: []a2a.AgentSkill{{ID: "look"}, {Name: "move"}}}
	agents := func(string) []prompt.Agent { return []prompt.Agent{{ID: "alpha", Card: card, Seen: true}} }
	for name, test := range map[string]struct{ rule, from, text, want string }{
		"allowed":       {"skills: [move], allow: false", "user", "alpha/look: x", ""},
		"denied":        {"skills: [move], allow: false", "user", "alpha/move: x", `Nothing was done: alpha has a skill "move" that it may not be asked for.`},
		"open":          {"skills: [move], allow: false", "user", "alpha: x", `Nothing was done: alpha has to be asked for a skill by its id, since it has a skill "move" that it may not be asked for.`},
		"to others":     {`skills: [move], only_from: ["user:a"]`, "user:a", "alpha/move: x", ""},
		"all":           {"skills: [move, look], allow: false", "user", "alpha/look: x", `no agent "alpha"`},
		"confirm":       {"skills: [move], confirm: true", "user", "alpha/look: x", ""},
		"confirm it":    {"skills: [move], confirm: true", "user", "alpha/move: x", `alpha, skill "move", is to: "x". Do it? Answer yes or no.`},
		"confirm open":  {"skills: [move], confirm: true", "user", "alpha: x", `alpha is to: "x". Do it? Answer yes or no.`},
		"agent":         {"skills: [move], confirm: true", "beta", "alpha/look: x", ""},
		"agent, that":   {"skills: [move], confirm: true", "beta", "alpha/move: x", `Nothing was done: alpha has a skill "move" that a person has to agree to, and none asks.`},
		"agent, all":    {"confirm: true", "beta", "alpha/move: x", `no agent "alpha"`},
		"other confirm": {`confirm: true, from: ["user:a"]`, "user", "alpha/move: x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, giving)
				w.restart(cortex.Config{Decider: giving, Agents: agents, Policy: rules(t, "rules: [{agents: [alpha], "+test.rule+"}]")})
				w.sayAs(test.from, "m1", test.text)
				n := 0
				if test.want == "" {
					n = 1
				}
				w.wantTasks("alpha", n)
				if got := w.answers()["m1"]; !strings.Contains(got, test.want) {
					t.Errorf("answer %q, want %q", got, test.want)
				}
			})
		})
	}
}

// TestCardConfirms: a card asks for the user's yes to one of its skills, unless a rule does without it.
func TestCardConfirms(t *testing.T) {
	card := agentcard.Attach(&a2a.AgentCard{Name: "alpha", Skills: []a2a.AgentSkill{{ID: "look"}, {ID: "move"}}}, &agentcard.Spec{
		Abilities: map[string]agentcard.Ability{"move": {Confirm: true}},
	})
	agents := func(string) []prompt.Agent { return []prompt.Agent{{ID: "alpha", Card: card, Seen: true}} }
	const asks, refuses = `alpha, skill "move", is to: "x". Do it? Answer yes or no.`, `alpha has a skill "move" that a person has to agree to, and none asks.`
	for name, test := range map[string]struct{ rule, from, text, want string }{
		"another skill":        {"", "user", "alpha/look: x", ""},
		"it":                   {"", "user", "alpha/move: x", asks},
		"open":                 {"", "user", "alpha: x", `alpha is to: "x". Do it? Answer yes or no.`},
		"an agent":             {"", "beta", "alpha/move: x", refuses},
		"an agent, another":    {"", "beta", "alpha/look: x", ""},
		"waived":               {"confirm: false", "user", "alpha/move: x", ""},
		"waived, open":         {"confirm: false", "user", "alpha: x", ""},
		"waived for agents":    {"confirm: false", "beta", "alpha/move: x", ""},
		"waived for others":    {`confirm: false, from: ["user:a"]`, "user", "alpha/move: x", asks},
		"another skill waived": {"skills: [look], confirm: false", "user", "alpha/move: x", asks},
		"both":                 {"confirm: false}, {agents: [alpha], confirm: true", "user", "alpha/move: x", asks},
		"another rule":         {"per_turn: 3", "beta", "alpha/move: x", refuses},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, giving)
				cfg := cortex.Config{Decider: giving, Agents: agents}
				if test.rule != "" {
					cfg.Policy = rules(t, "rules: [{agents: [alpha], "+test.rule+"}]")
				}
				w.restart(cfg)
				w.sayAs(test.from, "m1", test.text)
				n := 0
				if test.want == "" {
					n = 1
				}
				w.wantTasks("alpha", n)
				if got := w.answers()["m1"]; !strings.Contains(got, test.want) {
					t.Errorf("answer %q, want %q", got, test.want)
				}
			})
		})
	}
}

// TestVetoIsTold checks that a model is told why a skill may not be used, and can correct itself.
func TestVetoIsTold(t *testing.T) {
	turn := &llm.Turn{Input: prompt.Input{Agents: offered("")}, Veto: func(agent, skill string) string { return "has a skill " + skill + " that is not for you" }}
	err := llm.Check(turn, delegate(llm.Delegation{ID: "1", Agent: "alpha", Skill: "skill", Task: "x"}))
	if err == nil || !strings.HasSuffix(err.Error(), `delegation "1": agent "alpha" has a skill skill that is not for you`) {
		t.Errorf("Check() = %v", err)
	}
}

// TestDeniedTenant checks that nothing is decided for a denied tenant.
func TestDeniedTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, giving)
		w.restart(cortex.Config{Decider: giving, Tenant: "evil-1", Policy: rules(t, "tenants: {deny: [\"evil-*\"]}")})
		e := userEvent("m1", "alpha: hello")
		e.Tenant = "evil-1"
		if err := w.bus.Publish(t.Context(), transport.Inbox("evil-1", transport.Cortex), e); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		conv, err := storage.Load(t.Context(), w.store, "evil-1", theContext)
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := conv.AnswerOf("user", "m1"); !ok || transport.Text(m.Parts) != "This tenant is not served." || len(w.decisions()) != 0 {
			t.Errorf("answered %v with %v after %d decisions", ok, m, len(w.decisions()))
		}
	})
}

// in is userEvent in another conversation.
func in(contextID, id, text string) *transport.Event {
	e := userEvent(id, text)
	e.ContextID = contextID
	e.Payload.(*a2a.Message).ContextID = contextID
	return e
}

func (w *world) answerIn(contextID, id string) string {
	w.t.Helper()
	return w.answerTo("user", contextID, id)
}

// answerTo returns the answer to a sender's message in a conversation.
func (w *world) answerTo(from, contextID, id string) string {
	w.t.Helper()
	conv, err := storage.Load(w.t.Context(), w.store, "", contextID)
	if err != nil {
		w.t.Fatal(err)
	}
	m, ok := conv.AnswerOf(from, id)
	if !ok {
		return ""
	}
	return transport.Text(m.Parts)
}

// TestAtOnce checks that the in-flight limit counts all conversations, and that a task stops counting however it ends.
func TestAtOnce(t *testing.T) {
	const busy = "alpha: it has 2 of 2 tasks under way"
	for name, end := range map[string]func(w *world, e *transport.Event){
		"result": func(w *world, e *transport.Event) {
			r := resultEvent("r", "alpha", e.TaskID, a2a.TaskStateCompleted, "done")
			r.ContextID = e.ContextID
			r.Payload.(*a2a.Task).ContextID = e.ContextID
			w.publish(r)
		},
		"question": func(w *world, e *transport.Event) {
			r := resultEvent("r", "alpha", e.TaskID, a2a.TaskStateInputRequired, "which?")
			r.ContextID = e.ContextID
			r.Payload.(*a2a.Task).ContextID = e.ContextID
			w.publish(r)
		},
		"cancel": func(w *world, e *transport.Event) {
			c := cancelEvent("x", &transport.Cancel{})
			c.ContextID = e.ContextID
			w.publish(c)
		},
		"deadline": func(*world, *transport.Event) { pass(5 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := governed(t, giving, "rules: [{agents: [alpha], at_once: 2}]")
				w.publish(in("c2", "m1", "alpha: one"))
				w.publish(in("c3", "m1", "alpha: two"))
				w.publish(in("c4", "m1", "alpha: three"))
				if got := w.answerIn("c4", "m1"); got != busy {
					t.Errorf("the third is answered %q, want %q", got, busy)
				}
				w.publish(in("c5", "m1", "beta: else"))
				w.wantTasks("beta", 1)
				w.wantTasks("alpha", 2)
				end(w, w.tasksOf("alpha")[0])
				w.publish(in("c4", "m2", "alpha: three"))
				w.wantTasks("alpha", 3)
			})
		})
	}
}

// slowStore takes a second to append an entry, during which other conversations go on.
type slowStore struct{ storage.Store }

func (s slowStore) Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error) {
	<-time.After(time.Second)
	return s.Store.Append(ctx, tenant, contextID, after, e)
}

// TestAtOnceInParallel has two concurrent decisions with room for one task: the second one is made again.
func TestAtOnceInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var both sync.WaitGroup
		both.Add(2)
		meet := map[string]*sync.Once{"c2": new(sync.Once), "c3": new(sync.Once)}
		d := simple(func(t *llm.Turn) *llm.Decision {
			meet[t.ContextID].Do(func() {
				both.Done()
				both.Wait()
			})
			d, _ := giving(context.Background(), t, nil)
			d.Usage = each
			return d
		})
		w := newWorld(t, d)
		w.restart(cortex.Config{Decider: d, Store: slowStore{w.store}, Policy: rules(t, "rules: [{agents: [alpha], at_once: 1}]")})
		w.publish(in("c2", "m1", "alpha: one"))
		w.publish(in("c3", "m1", "alpha: two"))
		pass(time.Minute)
		w.wantTasks("alpha", 1)
		answers := []string{w.answerIn("c2", "m1"), w.answerIn("c3", "m1")}
		slices.Sort(answers)
		if diff := cmp.Diff([]string{"", "alpha: it has 1 of 1 tasks under way"}, answers); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		var cost llm.Usage
		for _, id := range []string{"c2", "c3"} {
			conv, err := storage.Load(t.Context(), w.store, "", id)
			if err != nil {
				t.Fatal(err)
			}
			cost = cost.Add(conv.Usage)
		}
		if want := times(3, each); cost != want {
			t.Errorf("three decisions cost %+v, want %+v", cost, want)
		}
	})
}

// TestNoPlaceLeft gives up after two more attempts, with a text for the user.
func TestNoPlaceLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		w := governed(t, simple(func(t *llm.Turn) *llm.Decision {
			id := t.Agents[0].ID
			n++
			return delegate(llm.Delegation{ID: "1", Agent: id, Task: "a"}, llm.Delegation{ID: "2", Agent: id, Task: "b"})
		}), `rules: [{agents: ["*"], at_once: 1}]`)
		w.say("m1", "go")
		w.wantAnswer("m1", "Nothing was done, since agents have no room for it now (gamma: it has 0 of 1 tasks under way, and 2 more would be too many). Ask again in a while.")
		if n != 3 {
			t.Errorf("%d decisions, want 3", n)
		}
		w.say("m2", "go") // nothing counts any more
		w.wantAnswer("m2", w.answers()["m1"])
	})
}

// TestPlacesOfDependents checks that a task that depends on another one counts from the beginning, since it is sent without a decision.
func TestPlacesOfDependents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(func(t *llm.Turn) *llm.Decision {
			if strings.HasPrefix(t.User, "beta") {
				return delegate(llm.Delegation{ID: "1", Agent: "beta", Task: "a"}, llm.Delegation{ID: "2", Agent: "alpha", Task: "b", DependsOn: []string{"1"}})
			}
			d, _ := giving(context.Background(), t, nil)
			return d
		})
		w := governed(t, d, "rules: [{agents: [alpha], at_once: 1}]")
		w.publish(in("c2", "m1", "beta first"))
		w.publish(in("c3", "m1", "alpha: x"))
		w.wantTasks("alpha", 0)
		if got, want := w.answerIn("c3", "m1"), "alpha: it has 1 of 1 tasks under way"; got != want {
			t.Errorf("answer %q, want %q", got, want)
		}
	})
}

// TestPlacesAfterARestart checks that a conversation's tasks count again once it is loaded.
func TestPlacesAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := "rules: [{agents: [alpha], at_once: 1}]"
		w := governed(t, giving, text)
		w.publish(in("c2", "m1", "alpha: one"))
		pass(3 * time.Minute) // longer than the transport remembers ids
		w.restart(cortex.Config{Decider: giving, Policy: rules(t, text)})
		w.publish(in("c2", "m1", "alpha: one")) // it is in the log already
		w.publish(in("c3", "m1", "alpha: two"))
		if got, want := w.answerIn("c3", "m1"), "alpha: it has 1 of 1 tasks under way"; got != want {
			t.Errorf("answer %q, want %q", got, want)
		}
	})
}

// TestPerTurn counts the tasks of a turn, those of earlier steps included.
func TestPerTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := governed(t, simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Unavailable) > 0 {
				return respond(t.Unavailable[0].ID + ": " + t.Unavailable[0].Why)
			}
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "more"})
		}), "rules: [{agents: [alpha], per_turn: 2}]")
		w.serveAgents()
		w.say("m1", "go")
		w.wantAnswer("m1", "alpha: this turn gave it 2 of 2 tasks")
		w.say("m2", "go")
		w.wantTasks("alpha", 4)
	})
}

// TestPolicyIsRead checks that the policy is read anew for each decision.
func TestPolicyIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now *policy.Policy
		w := newWorld(t, giving)
		w.restart(cortex.Config{Decider: giving, Policy: func() *policy.Policy { return now }})
		w.say("m1", "alpha: x")
		now = rules(t, "rules: [{agents: [alpha], allow: false}]")()
		w.say("m2", "alpha: x")
		w.wantTasks("alpha", 1)
	})
}

// TestFakeAsksForAYes checks that confirmations work with the fake decider too.
func TestFakeAsksForAYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consenting(t, fake.New(nil))
		w.serveAgents()
		w.say("m1", "@alpha pay Bob")
		w.wantAnswer("m1", `alpha, skill "skill", is to: "pay Bob". Do it? Answer yes or no.`)
		w.say("m2", "yes")
		w.wantAnswer("m2", "did pay Bob")
	})
}
