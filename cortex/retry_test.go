package cortex_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// withdrawing is a transport that can withdraw events, and records the requests for that.
type withdrawing struct {
	transport.Transport
	mu    sync.Mutex
	asked []string // "agent id"
}

func (w *withdrawing) Withdraw(_ context.Context, t transport.Topic, contextID, from, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if contextID != theContext || from != transport.Cortex {
		return fmt.Errorf("withdraw from %s in %s: not Cortex's", from, contextID)
	}
	w.asked = append(w.asked, t.ID+" "+id)
	return transport.ErrUnavailable // best effort
}

func (w *withdrawing) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

func message(e *transport.Event) *a2a.Message { return e.Payload.(*a2a.Message) }

// lines returns the texts of the live updates of tasks in this state, in order.
func (w *world) lines(state a2a.TaskState) []string {
	var lines []string
	for _, e := range w.watched() {
		if u, ok := e.Payload.(*a2a.TaskStatusUpdateEvent); ok && u.Status.State == state && u.Status.Message != nil {
			lines = append(lines, transport.Text(u.Status.Message.Parts))
		}
	}
	return lines
}

// TestRetryAtAnother has an agent stay silent until the deadline: another one with the same skill gets the task, and its result
// counts; later events of the first one do not.
func TestRetryAtAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := once(toAlpha)
		w := newWorld(t, d)
		bus := &withdrawing{Transport: w.bus}
		w.restart(cortex.Config{Transport: bus, Decider: d})
		w.say("m1", "go")
		id := w.onlyTask("alpha")
		first := w.tasksOf("alpha")[0]
		pass(5*time.Minute - time.Second)
		w.wantTasks("beta", 0)
		pass(time.Second)
		w.wantTasks("gamma", 0)
		if w.onlyTask("beta") != id {
			t.Fatalf("beta has the task %s, want %s", w.onlyTask("beta"), id)
		}
		second := w.tasksOf("beta")[0]
		if first.ID == second.ID || message(first).ID == message(second).ID || transport.Text(message(second).Parts) != "find lamps" {
			t.Errorf("alpha got %s with %s, beta %s with %s", first.ID, message(first).ID, second.ID, message(second).ID)
		}
		want := time.Now().Add(5 * time.Minute).UTC().Format(time.RFC3339Nano)
		if m := message(second).Metadata; m[transport.MetaAttempt] != 2.0 || m[transport.MetaAgentID] != "beta" || m[transport.MetaDeadline] != want {
			t.Errorf("beta was told %v", m)
		}
		if got := w.stopped(); !slices.Equal(got, []a2a.TaskID{id}) || w.ctl[0].Payload.(*transport.Cancel).Reason != "no result within 5m0s" {
			t.Errorf("told to stop: %v", got)
		}
		if got := bus.list(); !slices.Equal(got, []string{"alpha " + first.ID}) {
			t.Errorf("taken back: %q, want alpha's task", got)
		}
		if got := w.lines(a2a.TaskStateSubmitted); !slices.Equal(got, []string{"beta instead of alpha: no result within 5m0s"}) {
			t.Errorf("shown: %q", got)
		}
		n, ignored := len(entries(t, w.store)), w.orch.Stats().Ignored
		w.publish(resultEvent("late", "alpha", id, a2a.TaskStateCompleted, "late"))
		if len(entries(t, w.store)) != n || w.orch.Stats().Ignored != ignored+1 || w.orch.Stats().Retries != 1 {
			t.Errorf("the late result was not ignored and counted: %+v", w.orch.Stats())
		}
		w.publish(resultEvent("r1", "beta", id, a2a.TaskStateCompleted, "B"))
		w.wantAnswer("m1", "beta COMPLETED B; ")
		if n := len(w.decisions()); n != 2 {
			t.Errorf("%d decisions, want 2", n)
		}
		w.wantFold()
	})
}

// TestRetriesEnd has no agent do the task: the model sees all attempts.
func TestRetriesEnd(t *testing.T) {
	for name, test := range map[string]struct {
		agents int
		policy string
		want   string
	}{
		"nobody is left": {3, "", "a2 FAILED no result within 5m0s, and the task still waits to be fetched (tried before: a0: no result within 5m0s, and the task still waits to be fetched; a1: no result within 5m0s, and the task still waits to be fetched); "},
		"often enough":   {9, "", "a4 FAILED no result within 5m0s, and the task still waits to be fetched (tried before: " + strings.Repeat("; aN: no result within 5m0s, and the task still waits to be fetched", 4)[2:] + "); "},
		"the rules say so": {
			9, "rules: [{agents: [a0], retry: {attempts: 2}}]",
			"a1 FAILED no result within 5m0s, and the task still waits to be fetched (tried before: a0: no result within 5m0s, and the task still waits to be fetched); ",
		},
		"the second's rules say so": {
			9, "rules: [{agents: [a1], retry: {others: false}}]",
			"a1 FAILED no result within 5m0s, and the task still waits to be fetched (tried before: a0: no result within 5m0s, and the task still waits to be fetched); ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := once(llm.Delegation{ID: "1", Agent: "a0", Skill: "skill", Task: "a"})
				w := newWorld(t, d)
				cfg := cortex.Config{Decider: d, Agents: skilled(test.agents)}
				if test.policy != "" {
					cfg.Policy = rules(t, test.policy)
				}
				w.restart(cfg)
				w.say("m1", "go")
				pass(time.Hour)
				want := test.want
				for i := range 4 {
					want = strings.Replace(want, "aN", fmt.Sprint("a", i), 1)
				}
				w.wantAnswer("m1", want)
				w.wantFold()
			})
		})
	}
}

// skilled returns agents a0, a1 … with the same skill.
func skilled(n int) func(string) []prompt.Agent {
	var list []prompt.Agent
	for i := range n {
		id := fmt.Sprint("a", i)
		list = append(list, prompt.Agent{ID: id, Seen: true, Card: &a2a.AgentCard{Name: id, Skills: []a2a.AgentSkill{{ID: "skill", Name: "Skill"}}}})
	}
	return func(string) []prompt.Agent { return list }
}

// TestWhoTriesAgain has alpha stay silent: beta gets its task unless something prevents that.
func TestWhoTriesAgain(t *testing.T) {
	input := json.RawMessage(`{"q":"lamps"}`)
	takes := func(schema string) *agentcard.Spec {
		return &agentcard.Spec{Abilities: map[string]agentcard.Ability{"skill": {InputSchema: json.RawMessage(schema)}}}
	}
	sure := func(c float64) *agentcard.Spec {
		return &agentcard.Spec{Abilities: map[string]agentcard.Ability{"skill": {Confidence: &c}}}
	}
	spec := func(at int, s *agentcard.Spec) func([]prompt.Agent) {
		return func(list []prompt.Agent) { list[at].Card = agentcard.Attach(list[at].Card, s) }
	}
	for name, test := range map[string]struct {
		change func([]prompt.Agent)
		policy string
		from   string
		task   llm.Delegation
		want   string
	}{
		"the first":              {want: "beta"},
		"not running":            {change: func(l []prompt.Agent) { l[1].Seen = false }, want: "gamma"},
		"another skill":          {change: func(l []prompt.Agent) { l[1].Card.Skills[0].ID = "other" }, want: "gamma"},
		"its skill has a name":   {change: func(l []prompt.Agent) { l[1].Card.Skills[0] = a2a.AgentSkill{Name: "skill"} }, want: "beta"},
		"another input":          {change: spec(1, takes(`{"type":"object","required":["city"]}`)), want: "gamma"},
		"the same input":         {change: spec(1, takes(`{"type":"object","required":["q"]}`)), want: "beta"},
		"surer":                  {change: spec(2, sure(0.9)), want: "gamma"},
		"it has its effect once": {change: spec(0, &agentcard.Spec{Abilities: map[string]agentcard.Ability{"skill": {Once: true}}}), want: ""},
		"its card asks for one":  {change: spec(1, &agentcard.Spec{Abilities: map[string]agentcard.Ability{"skill": {Confirm: true}}}), want: "gamma"},
		"less sure":              {change: spec(1, sure(0.1)), want: "gamma"},
		"denied":                 {policy: "{agents: [beta], allow: false}", want: "gamma"},
		"denied this asker":      {policy: "{agents: [beta], only_from: ['user:alice']}", want: "gamma"},
		"denied this skill":      {policy: "{agents: [beta], skills: [skill], allow: false}", want: "gamma"},
		"needs a yes":            {policy: "{agents: [beta], confirm: true}", want: "gamma"},
		"nobody may":             {policy: "{agents: [beta, gamma], confirm: true}", want: ""},
		"no others":              {policy: "{agents: [alpha], retry: {others: false}}", want: ""},
		"no others of this":      {policy: "{agents: [alpha], skills: [skill], retry: {others: false}}", want: ""},
		"once":                   {policy: "{agents: [alpha], retry: {attempts: 1}}", want: ""},
		"for others":             {policy: "{agents: [alpha], from: ['user:bob'], retry: {attempts: 1}}", want: "beta"},
		"an agent asks":          {from: "beta", want: "gamma"},
		"for one agent":          {task: llm.Delegation{Agent: "alpha", Task: "a"}, want: ""},
		"rules for somebody":     {policy: "{agents: [zeta], allow: false}", want: "beta"},
		"agents without a card":  {change: func(l []prompt.Agent) { l[1].Card = &a2a.AgentCard{Name: "beta"} }, want: "gamma"},
		"the tenant is not more": {policy: "", want: "beta"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				list := offered("")
				if test.change != nil {
					test.change(list)
				}
				del := test.task
				if del.Agent == "" {
					del = llm.Delegation{Agent: "alpha", Skill: "skill", Task: "find", Input: input}
				}
				del.ID = "1"
				w := newWorld(t, once(del))
				cfg := cortex.Config{Decider: once(del), Agents: func(string) []prompt.Agent { return list }}
				if test.policy != "" {
					cfg.Policy = rules(t, "rules: ["+test.policy+"]")
				}
				w.restart(cfg)
				e := userEvent("m1", "go")
				if test.from != "" {
					e.From = test.from
				}
				w.publish(e)
				w.wantTasks("alpha", 1)
				pass(5 * time.Minute)
				got := ""
				for _, id := range []string{"beta", "gamma"} {
					for _, e := range w.tasksOf(id) {
						if e.TaskID != "" { // else it is the answer
							got += id
						}
					}
				}
				if got != test.want {
					t.Errorf("tried again by %q, want %q", got, test.want)
				}
			})
		})
	}
}

// retrying returns the Spec of an alpha with max_retries n.
func retrying(n int) map[string]agentcard.Spec {
	return map[string]agentcard.Spec{"alpha": {Limits: agentcard.Limits{MaxRetries: &n}}}
}

// failedAt is an agent's report that the attempt begun by e has failed.
func failedAt(id, agent string, e *transport.Event, why string) *transport.Event {
	r := resultEvent(id, agent, e.TaskID, a2a.TaskStateFailed, why)
	r.Payload.(*a2a.Task).SetMeta(transport.MetaOriginalMessage, message(e).ID)
	return r
}

// TestRetryAtTheSame has an agent fail whose card allows retries.
func TestRetryAtTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := once(toAlpha)
		w := newWorld(t, d)
		bus := &withdrawing{Transport: w.bus}
		w.restart(cortex.Config{Transport: bus, Decider: d, Agents: specified(retrying(1))})
		w.say("m1", "go")
		first := w.tasksOf("alpha")[0]
		w.publish(failedAt("f1", "alpha", first, "broken"))
		w.wantTasks("alpha", 2)
		second := w.tasksOf("alpha")[1]
		if second.TaskID != first.TaskID || second.ID == first.ID || message(second).Metadata[transport.MetaAttempt] != 2.0 {
			t.Fatalf("the second attempt is %+v", second)
		}
		if got := w.lines(a2a.TaskStateSubmitted); !slices.Equal(got, []string{"alpha once more: it failed: broken"}) {
			t.Errorf("shown: %q", got)
		}
		if len(w.stopped()) != 0 || !slices.Equal(bus.list(), []string{"alpha " + first.ID}) {
			t.Errorf("told to stop: %v, taken back %q; want nobody, and the first attempt", w.stopped(), bus.list())
		}
		w.publish(failedAt("f2", "alpha", first, "the first attempt once more"))
		if running := w.load().Running(); len(running) != 1 || running[0].Attempt != 2 {
			t.Fatal("what the first attempt said after the second had begun counts")
		}
		w.publish(failedAt("f3", "alpha", second, "broken again"))
		w.wantTasks("beta", 1)
		w.finish("beta", first.TaskID, "B")
		w.wantAnswer("m1", "beta COMPLETED B; ")
		w.wantFold()
	})
}

// TestDeadlineAtTheSame has an agent with one retry miss its deadline, and then do the task.
func TestDeadlineAtTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := once(toAlpha)
		w := newWorld(t, d)
		w.restart(cortex.Config{Decider: d, Agents: specified(retrying(1))})
		w.say("m1", "go")
		pass(5 * time.Minute)
		w.wantTasks("alpha", 2)
		w.wantTasks("beta", 0)
		w.finish("alpha", w.tasksOf("alpha")[0].TaskID, "A") // for either attempt
		w.wantAnswer("m1", "alpha COMPLETED A; ")
	})
}

// TestSameAgentMustBeThere has the agent leave, or be denied, before it fails.
func TestSameAgentMustBeThere(t *testing.T) {
	d := once(toAlpha)
	for name, cfg := range map[string]cortex.Config{
		"away":   {Decider: d, Agents: func(string) []prompt.Agent { return offered("")[1:] }},
		"denied": {Decider: d, Agents: specified(retrying(1)), Policy: rules(t, "rules: [{agents: [alpha], allow: false}]")},
		"yes":    {Decider: d, Agents: specified(retrying(1)), Policy: rules(t, alphaConfirms)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, d)
				w.restart(cortex.Config{Decider: d, Agents: specified(retrying(1))})
				w.say("m1", "go")
				w.restart(cfg)
				w.publish(failedAt("f1", "alpha", w.tasksOf("alpha")[0], "broken"))
				w.wantTasks("alpha", 1)
				w.wantTasks("beta", 1)
			})
		})
	}
}

// TestDeniedTenantIsNotTriedAgain has the tenant denied while an agent works.
func TestDeniedTenantIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := once(toAlpha)
		w := newWorld(t, d)
		w.say("m1", "go")
		w.restart(cortex.Config{Decider: d, Policy: rules(t, "tenants: {deny: ['*']}")})
		pass(5 * time.Minute)
		w.wantTasks("beta", 0)
		w.wantAnswer("m1", "This tenant is not served.")
	})
}

// TestFailureIsNotTriedAgain checks that the failure of an agent without retries is its result.
func TestFailureIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(toAlpha))
		w.say("m1", "go")
		w.publish(failedAt("f1", "alpha", w.tasksOf("alpha")[0], "broken"))
		w.wantTasks("beta", 0)
		w.wantAnswer("m1", "alpha FAILED broken; ")
	})
}

// TestFailureAtTheDeadline has an agent fail at its deadline, and the failure handled before the deadline: the task is tried again,
// as in the other order.
func TestFailureAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(toAlpha))
		w.say("m1", "go")
		w.stop()
		w.publish(failedAt("f1", "alpha", w.tasksOf("alpha")[0], "the agent was not done at the deadline"))
		pass(6 * time.Minute)
		w.start(cortex.Config{Decider: once(toAlpha)})
		pass(time.Second)
		w.wantTasks("beta", 1)
		w.finish("beta", w.onlyTask("beta"), "B")
		w.wantAnswer("m1", "beta COMPLETED B; ")
	})
}

// TestRetryOfTwo has two tasks of a decision go to one other agent, neither of them to the other silent one. A third depends on the
// first of them.
func TestRetryOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toGamma := toAlpha
		toGamma.ID, toGamma.Agent, toGamma.Task = "2", "gamma", "second"
		then := llm.Delegation{ID: "3", Agent: "alpha", Task: "third", DependsOn: []string{"1"}}
		w := newWorld(t, once(toAlpha, toGamma, then))
		w.say("m1", "go")
		pass(5 * time.Minute)
		w.wantTasks("alpha", 1)
		w.wantTasks("gamma", 1)
		beta := w.tasksOf("beta")
		if len(beta) != 2 {
			t.Fatalf("beta got %d tasks, want both", len(beta))
		}
		w.finish("beta", beta[0].TaskID, "B")
		w.wantTasks("alpha", 2)
		if got := transport.Text(message(w.tasksOf("alpha")[1]).Parts); got != "third\nB" {
			t.Errorf("what waited got %q, want the result of the second attempt", got)
		}
		w.finish("beta", beta[1].TaskID, "B2")
		w.finish("alpha", w.tasksOf("alpha")[1].TaskID, "A")
		w.wantAnswer("m1", "beta COMPLETED B; beta COMPLETED B2; alpha COMPLETED A; ")
		w.wantFold()
	})
}

// TestRetryOfTwoWithOnePlace has another agent with room for only one of two tasks.
func TestRetryOfTwoWithOnePlace(t *testing.T) {
	for _, limit := range []string{"per_turn", "at_once"} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				toGamma := toAlpha
				toGamma.ID, toGamma.Agent = "2", "gamma"
				w := governed(t, once(toAlpha, toGamma), "rules: [{agents: [beta], "+limit+": 1}]")
				w.say("m1", "go")
				pass(5 * time.Minute)
				w.wantTasks("beta", 1)
				w.finish("beta", w.onlyTask("beta"), "B")
				w.wantAnswer("m1", "beta COMPLETED B; gamma FAILED no result within 5m0s; ")
			})
		})
	}
}

// TestRetryHasAPlace checks in-flight limits: the other agent has room, and the task counts no longer for the first one.
func TestRetryHasAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := "rules: [{agents: [alpha, beta], at_once: 1}, {agents: [gamma], per_turn: 1}]"
		d := simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) > 0 {
				return respond(results(t))
			}
			for _, u := range t.Unavailable {
				if u.ID == t.User {
					return respond(u.Why)
				}
			}
			return delegate(llm.Delegation{ID: "1", Agent: t.User, Skill: "skill", Task: "x"})
		})
		w := governed(t, d, text)
		w.say("m1", "alpha")
		w.say("m2", "beta")
		pass(time.Second) // m1's deadline first
		w.say("m3", "alpha")
		w.wantAnswer("m3", "it has 1 of 1 tasks under way")
		w.finish("beta", w.onlyTask("beta"), "B")
		pass(time.Minute)
		w.say("m4", "beta")
		pass(4 * time.Minute)
		// beta has m4's, so alpha's goes to gamma.
		w.wantTasks("gamma", 1)
		w.say("m5", "alpha")
		w.wantTasks("alpha", 2)
		w.say("m6", "beta")
		w.wantAnswer("m6", "it has 1 of 1 tasks under way")
	})
}

// TestQuestionIsNotTriedAgain has an agent ask back: no other agent would understand the reply.
func TestQuestionIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simple(func(t *llm.Turn) *llm.Decision {
			switch {
			case len(t.Steps) > 0 && t.Steps[0].Tasks[0].State == a2a.TaskStateInputRequired:
				return &llm.Decision{Kind: llm.KindClarify, Say: "how many?"}
			case len(t.Steps) > 0:
				return respond(results(t))
			case len(t.Waiting) > 0:
				return delegate(llm.Delegation{ID: string(t.Waiting[0].ID), Agent: "alpha", Skill: "skill", Task: t.User})
			}
			return delegate(toAlpha)
		}))
		w.say("m1", "book")
		w.publish(resultEvent("q", "alpha", w.onlyTask("alpha"), a2a.TaskStateInputRequired, "how many?"))
		w.say("m2", "four")
		w.wantTasks("alpha", 2)
		pass(5 * time.Minute)
		w.wantTasks("beta", 0)
		w.wantAnswer("m2", "alpha FAILED no result within 5m0s; ")
	})
}

// TestYesIsForOneAgent has the user confirm one agent's task: no other agent gets it.
func TestYesIsForOneAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consenting(t, once(toAlpha))
		w.say("m1", "pay Bob")
		w.say("m2", "yes")
		w.wantTasks("alpha", 1)
		pass(5 * time.Minute)
		w.wantTasks("beta", 0)
		w.wantAnswer("m2", "alpha FAILED no result within 5m0s; ")
	})
}

// TestRetryTeaches checks that the agent that did the task gets evidence, and the one that did not gets none.
func TestRetryTeaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := learning(t, cortex.Config{})
		w.mu.Lock()
		w.diligent = false
		w.mu.Unlock()
		w.tell("m1", "alpha: find the best lamps")
		pass(5 * time.Minute)
		w.finish("beta", w.onlyTask("beta"), "B")
		pass(time.Second)
		if got := w.learned(); len(got["beta"]) != 1 || len(got["alpha"]) != 0 {
			t.Errorf("learned of %v, want of beta only", got)
		}
	})
}

// TestOldLog folds a log from before retries: it keeps its meaning.
func TestOldLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(toAlpha))
		w.stop()
		began := time.Now()
		deadline := began.Add(time.Minute)
		log := []*conversation.Entry{
			{Seq: 1, Time: began, Cause: userEvent("m1", "go"), Turn: "m1", Decision: delegate(toAlpha), Deadline: deadline},
			{
				Seq: 2, Time: deadline, Turn: "m1", Decision: respond("done"),
				Cause: &transport.Event{ID: "d", Time: deadline, From: transport.Cortex, ContextID: theContext, Payload: &transport.Deadline{At: deadline}},
			},
		}
		conv := conversation.NewConversation("", theContext)
		for _, e := range log {
			if err := conv.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		past := conv.Turns[0].Past.Steps[0].Tasks[0]
		if past.State != a2a.TaskStateFailed || past.Result != "no result within 1m0s" || past.Agent != "alpha" {
			t.Errorf("the task is %+v", past)
		}
	})
}
