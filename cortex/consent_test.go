package cortex_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// rules returns a Config's Policy with these rules.
func rules(t *testing.T, text string) func() *policy.Policy {
	t.Helper()
	p, err := policy.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return func() *policy.Policy { return p }
}

const alphaConfirms = "rules: [{agents: [alpha], confirm: true}]"

const alphaQuestion = `alpha is to: "pay Bob". Do it? Answer yes or no.`

// payer gives "pay …" to alpha and "work …" to gamma, and answers with the results; it repeats everything else.
var payer = simple(func(t *llm.Turn) *llm.Decision {
	switch {
	case len(t.Steps) > 0:
		return respond(results(t))
	case strings.HasPrefix(t.User, "pay "):
		return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: t.User})
	case strings.HasPrefix(t.User, "work "):
		return delegate(llm.Delegation{ID: "1", Agent: "gamma", Task: t.User})
	}
	return respond("model: " + t.User)
})

// consenting is a world in which every task for alpha needs a yes.
func consenting(t *testing.T, d llm.Decider) *world {
	t.Helper()
	w := newWorld(t, d)
	w.restart(cortex.Config{Decider: d, Policy: rules(t, alphaConfirms)})
	return w
}

func (w *world) restart(cfg cortex.Config) {
	w.stop()
	w.start(cfg)
	synctest.Wait()
}

// sayAs is say with another sender.
func (w *world) sayAs(from, id, text string) {
	w.t.Helper()
	e := userEvent(id, text)
	e.From = from
	w.publish(e)
}

func (w *world) wantTasks(agent string, n int) {
	w.t.Helper()
	if got := len(w.tasksOf(agent)); got != n {
		w.t.Errorf("%s got %d tasks, want %d", agent, got, n)
	}
}

// wantStates checks the states and results of the tasks in the fold.
func (w *world) wantStates(want ...string) {
	w.t.Helper()
	got := []string{}
	for _, t := range w.load().TaskList() {
		got = append(got, strings.TrimSuffix(fmt.Sprintf("%s %s: %s", t.Agent, strings.TrimPrefix(string(t.State()), "TASK_STATE_"), t.Result), ": "))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		w.t.Errorf("tasks (-want +got):\n%s", diff)
	}
}

// TestYes has a decision of three tasks wait for a yes, restarts, and checks that the tasks are sent as they were shown.
func TestYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) > 0 {
				return respond(results(t))
			}
			return delegate(
				llm.Delegation{ID: "1", Agent: "alpha", Skill: "skill", Task: "pay Bob", Input: json.RawMessage(`{"amount":5}`)},
				llm.Delegation{ID: "2", Agent: "beta", Task: "tell Bob", DependsOn: []string{"1"}},
				llm.Delegation{ID: "3", Agent: "gamma", Task: "write it down"})
		})
		w := consenting(t, d)
		w.say("m1", "I owe Bob five")
		w.wantAnswer("m1", `This needs your yes:
1. alpha, skill "skill", is to: "pay Bob", with {"amount":5}
2. beta is to: "tell Bob"
3. gamma is to: "write it down"

Do all of it? Answer yes or no.`)
		for _, id := range agentIDs {
			w.wantTasks(id, 0)
		}
		w.wantStates("alpha AUTH_REQUIRED", "beta AUTH_REQUIRED", "gamma AUTH_REQUIRED")
		c := w.load()
		if len(c.Asking()) != 0 || len(c.Held()) != 3 || c.Turns[0].Kind != llm.KindClarify || c.Turns[0].Failed {
			t.Errorf("waiting %v, asked %v, the turn is %+v", c.Asking(), c.Held(), c.Turns[0])
		}
		w.wantFold()

		w.restart(cortex.Config{Decider: d, Policy: rules(t, alphaConfirms)})
		before := len(w.decisions())
		w.say("m2", " Yes. ")
		if n := len(w.decisions()); n != before {
			t.Errorf("the decider was asked about the yes")
		}
		w.wantTasks("beta", 0)
		w.wantTasks("gamma", 1)
		work := w.tasksOf("alpha")
		if len(work) != 1 {
			t.Fatalf("alpha got %d tasks, want 1", len(work))
		}
		m := work[0].Payload.(*a2a.Message)
		if got := transport.MetaString(m, transport.MetaUserText); got != "I owe Bob five" {
			t.Errorf("the agent reads that the user said %q", got)
		}
		if got := transport.Text(m.Parts[:1]); got != "pay Bob" || len(m.Parts) != 2 {
			t.Errorf("the agent is to do %q, with %d parts", got, len(m.Parts))
		}
		if e := entries(t, w.store)[2]; e.Decision.Model != "policy" || e.Decision.Reason != "the user said yes" {
			t.Errorf("decided by %q: %q", e.Decision.Model, e.Decision.Reason)
		}
		w.finish("alpha", work[0].TaskID, "paid")
		w.wantTasks("beta", 1)
		w.finish("gamma", w.onlyTask("gamma"), "written")
		w.finish("beta", w.onlyTask("beta"), "told")
		w.wantAnswer("m2", "alpha COMPLETED paid; beta COMPLETED told; gamma COMPLETED written; ")
		w.wantFold()
	})
}

// TestReplies closes a question in every way.
func TestReplies(t *testing.T) {
	for name, test := range map[string]struct {
		say    func(w *world)
		tasks  int    // for alpha
		answer string // to m2; "" while it is open
		state  string
	}{
		"yes":         {func(w *world) { w.say("m2", "yes") }, 1, "", "SUBMITTED"},
		"in German":   {func(w *world) { w.say("m2", "Ja!") }, 1, "", "SUBMITTED"},
		"in Spanish":  {func(w *world) { w.say("m2", "SÍ") }, 1, "", "SUBMITTED"},
		"politely":    {func(w *world) { w.say("m2", "Yes, please.") }, 1, "", "SUBMITTED"},
		"no":          {func(w *world) { w.say("m2", "No.") }, 0, "All right: nothing was done.", "CANCELED: the user said no"},
		"stop":        {func(w *world) { w.say("m2", "STOP!") }, 0, "All right: nothing was done.", "CANCELED: the user said no"},
		"a doubt":     {func(w *world) { w.say("m2", "ok?") }, 0, "That is neither yes nor no. " + alphaQuestion, "AUTH_REQUIRED"},
		"yes and":     {func(w *world) { w.say("m2", "yes but only 3") }, 0, "model: yes but only 3", "CANCELED: not confirmed"},
		"else":        {func(w *world) { w.say("m2", "what time is it") }, 0, "model: what time is it", "CANCELED: not confirmed"},
		"nothing":     {func(w *world) { w.say("m2", "...") }, 0, "model: ...", "CANCELED: not confirmed"},
		"another":     {func(w *world) { w.sayAs("user:eve", "m2", "yes") }, 0, "model: yes", "AUTH_REQUIRED"},
		"an agent":    {func(w *world) { w.sayAs("beta", "m2", "yes") }, 0, "model: yes", "AUTH_REQUIRED"},
		"the agent":   {func(w *world) { w.publish(resultEvent("r", "alpha", w.asked(), a2a.TaskStateCompleted, "done")) }, 0, "", "AUTH_REQUIRED"},
		"its end":     {func(*world) { pass(24 * time.Hour) }, 0, "", "CANCELED: nobody said yes in time"},
		"after that":  {func(w *world) { pass(24 * time.Hour); w.say("m2", "yes") }, 0, "model: yes", ""},
		"cancel":      {func(w *world) { w.publish(cancelEvent("x", &transport.Cancel{})) }, 0, "", "CANCELED: by the user"},
		"cancel task": {func(w *world) { w.publish(cancelEvent("x", &transport.Cancel{TaskID: w.asked()})) }, 0, "", "CANCELED: by the user"},
		"then no":     {func(w *world) { w.say("m2", "hello"); w.say("m3", "yes") }, 0, "model: hello", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := consenting(t, payer)
				w.say("m1", "pay Bob")
				w.wantAnswer("m1", alphaQuestion)
				test.say(w)
				w.wantTasks("alpha", test.tasks)
				w.wantAnswer("m2", test.answer)
				if test.state != "" {
					w.wantStates("alpha " + test.state)
				}
				w.wantFold()
			})
		})
	}
}

// asked returns the task that waits for a yes.
func (w *world) asked() a2a.TaskID {
	w.t.Helper()
	asked := w.load().Held()
	if len(asked) != 1 {
		w.t.Fatalf("%d tasks wait for a yes, want 1", len(asked))
	}
	return asked[0].ID
}

// TestYesOnce delivers a yes twice, as the same event and as another one: the tasks are sent once.
func TestYesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consenting(t, payer)
		w.say("m1", "pay Bob")
		w.say("m2", "yes")
		id := w.onlyTask("alpha")
		w.restart(cortex.Config{Decider: payer, Policy: rules(t, alphaConfirms)})
		pass(3 * time.Minute) // longer than the transport remembers ids
		w.say("m1", "pay Bob")
		w.say("m2", "yes")
		for _, e := range w.watched() { // the repeated question is about the task as it was then
			if u, ok := e.Payload.(*a2a.TaskStatusUpdateEvent); ok && u.Status.State != a2a.TaskStateAuthRequired {
				t.Errorf("it is told that the task is %s", u.Status.State)
			}
		}
		w.say("m3", "yes")
		for _, e := range w.tasksOf("alpha") {
			if e.TaskID != id {
				t.Errorf("another task %s was made", e.TaskID)
			}
		}
		w.wantAnswer("m3", "model: yes")
		w.finish("alpha", id, "paid")
		w.wantAnswer("m2", "alpha COMPLETED paid; ")
	})
}

// TestYesByAClockThatIsAhead checks that a question expires at its deadline even if the Deadline event is late.
func TestYesByAClockThatIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consenting(t, payer)
		w.say("m1", "pay Bob")
		w.restart(cortex.Config{Decider: payer, Policy: rules(t, alphaConfirms), Now: func() time.Time { return time.Now().Add(24 * time.Hour) }})
		w.say("m2", "yes")
		w.wantTasks("alpha", 0)
		w.wantAnswer("m2", "model: yes")
		w.wantStates("alpha CANCELED: nobody said yes in time")
	})
}

// TestYesByAnotherClock checks that the clock of a sender does not decide whether a yes counts.
func TestYesByAnotherClock(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"behind": -time.Hour, "ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := consenting(t, slowPayer)
				say := func(id, text string) {
					e := userEvent(id, text)
					e.Time = e.Time.Add(ahead)
					w.publish(e)
				}
				say("m1", "pay Bob")
				say("m2", "yes") // before the question
				pass(time.Second)
				w.wantAnswer("m2", unsure)
				w.wantTasks("alpha", 0)
				w.restart(cortex.Config{Decider: slowPayer, Policy: rules(t, alphaConfirms)})
				say("m3", "yes")
				w.wantTasks("alpha", 1)
				w.wantFold()
			})
		})
	}
}

// slowPayer is payer with a delay of a second.
var slowPayer = decideFunc(func(ctx context.Context, t *llm.Turn, stream func(string)) (*llm.Decision, error) {
	<-time.After(time.Second)
	return payer(ctx, t, stream)
})

// TestYesTwiceBeforeTheQuestion checks that the second yes does not answer the question that the first one led to either.
func TestYesTwiceBeforeTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consenting(t, slowPayer)
		w.say("m1", "pay Bob")
		w.say("m2", "yes")
		w.say("m3", "yes")
		pass(time.Second)
		w.wantAnswer("m3", unsure)
		w.wantTasks("alpha", 0)
		w.say("m4", "yes")
		w.wantTasks("alpha", 1)
		w.wantFold()
	})
}

// TestTimersTellNothing checks that of the events that Cortex sends itself only the receipt marks a question as delivered.
func TestTimersTellNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consenting(t, slowPayer)
		w.say("m1", "pay Bob")
		w.publish(&transport.Event{ID: "timer", Time: time.Now(), From: transport.Cortex, ContextID: theContext, Payload: &transport.Deadline{At: time.Now()}})
		w.say("m2", "yes")
		pass(time.Second)
		w.wantAnswer("m2", unsure)
		w.wantTasks("alpha", 0)
	})
}

// TestYesAfterALongTalk checks that a question stays open however much others say meanwhile.
func TestYesAfterALongTalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consenting(t, payer)
		w.say("m1", "pay Bob")
		for i := range 70 {
			w.sayAs("user:eve", fmt.Sprintf("e%d", i), "hello")
		}
		w.say("m2", "yes")
		w.wantTasks("alpha", 1)
		w.wantFold()
	})
}

const unsure = "I am not sure what the yes was for. " + alphaQuestion

// TestYesBeforeTheQuestion checks that a message sent before the question was delivered is no reply to it.
func TestYesBeforeTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consenting(t, slowPayer)
		w.say("m1", "pay Bob")
		w.say("m2", "yes")
		pass(time.Second)
		w.wantAnswer("m1", alphaQuestion)
		w.wantAnswer("m2", unsure)
		w.wantTasks("alpha", 0)
		pass(time.Second)
		w.say("m3", "yes")
		w.wantTasks("alpha", 1)
		w.wantFold()
	})
}

// TestYesAfterAnotherAnswer checks that the question is asked again when the person got another answer meanwhile, and only a yes to
// that counts. Answers to others do not matter.
func TestYesAfterAnotherAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consenting(t, payer)
		w.say("m0", "work hard")
		w.say("m1", "pay Bob")
		id := w.asked()
		w.finish("gamma", w.onlyTask("gamma"), "Shall I go on?")
		w.say("m2", "yes")
		w.wantAnswer("m2", unsure)
		w.wantTasks("alpha", 0)
		if got := w.asked(); got != id {
			t.Errorf("it was asked about another task: %s, want %s", got, id)
		}
		w.sayAs("user:eve", "m3", "hello")
		w.say("m4", "yes")
		if got := w.onlyTask("alpha"); got != id {
			t.Errorf("task %s, want %s", got, id)
		}
		w.finish("alpha", id, "paid")
		w.wantAnswer("m4", "alpha COMPLETED paid; ")
		if m := w.tasksOf("alpha")[0].Payload.(*a2a.Message); transport.MetaString(m, transport.MetaUserText) != "pay Bob" {
			t.Errorf("the agent reads that the user said %q", transport.MetaString(m, transport.MetaUserText))
		}
		w.wantFold()
	})
}

// TestLaterQuestion checks that a question replaces the open one of the same person, and of nobody else.
func TestLaterQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) == 0 && strings.HasPrefix(t.User, "work") {
				return delegate(llm.Delegation{ID: "1", Agent: "gamma", Task: "find out"})
			}
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: t.User})
		})
		w := consenting(t, d)
		w.say("m0", "work it out")
		w.sayAs("user:eve", "m1", "pay Eve")
		w.say("m2", "pay Bob")
		w.finish("gamma", w.onlyTask("gamma"), "found out")
		w.wantAnswer("m0", `alpha is to: "work it out". Do it? Answer yes or no.`)
		w.wantStates("alpha AUTH_REQUIRED", "alpha AUTH_REQUIRED")
		for _, turn := range w.load().Turns {
			if task := turn.Past.Steps[0].Tasks[0]; turn.Message == "m2" && task.Result != "not confirmed before something else was asked" {
				t.Errorf("the earlier question's task is %s: %q", task.State, task.Result)
			}
		}
		w.say("m3", "yes")
		w.sayAs("user:eve", "m4", "yes")
		var texts []string
		for _, e := range w.tasksOf("alpha") {
			texts = append(texts, transport.Text(e.Payload.(*a2a.Message).Parts))
		}
		if diff := cmp.Diff([]string{"work it out", "pay Eve"}, texts); diff != "" {
			t.Errorf("what alpha was given (-want +got):\n%s", diff)
		}
		w.wantFold()
	})
}

// TestYesIsCheckedAgain checks that a yes does not release a task that is denied or impossible by now.
func TestYesIsCheckedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		rules  string
		agents []prompt.Agent
		want   string
	}{
		"denied": {"rules: [{agents: [alpha], allow: false}]", offered(""), "alpha cannot be given work any more"},
		"skill":  {"rules: [{agents: [alpha], skills: [skill], allow: false}, {agents: [alpha], per_turn: 9}]", append(offered("")[1:], prompt.Agent{}), ""},
		"gone":   {alphaConfirms, offered("")[1:], "alpha cannot be given work any more"},
	} {
		if test.want == "" { // the agent has another skill left
			alpha := prompt.Agent{ID: "alpha", Seen: true, Card: &a2a.AgentCard{Name: "alpha", Skills: []a2a.AgentSkill{{ID: "skill"}, {ID: "other"}}}}
			test.agents = append([]prompt.Agent{alpha}, offered("")[1:]...)
			test.want = `alpha has to be asked for a skill by its id, since it has a skill "skill" that it may not be asked for`
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := consenting(t, payer)
				w.say("m1", "pay Bob")
				w.restart(cortex.Config{Decider: payer, Policy: rules(t, test.rules), Agents: func(string) []prompt.Agent { return test.agents }})
				w.say("m2", "yes")
				w.wantTasks("alpha", 0)
				w.wantAnswer("m2", "Nothing was done: "+test.want+".")
				w.wantStates("alpha CANCELED: not done: " + test.want)
				w.wantFold()
			})
		})
	}
}

// TestYesWithoutAPlace checks that the question stays open when the agent is at its in-flight limit.
func TestYesWithoutAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consenting(t, payer)
		w.restart(cortex.Config{Decider: payer, Policy: rules(t, "rules: [{agents: [alpha], confirm: true, at_once: 1}]")})
		w.say("m1", "pay Eve")
		w.sayAs("user:bob", "m2", "pay Bob") // a question does not count
		w.wantAnswer("m2", alphaQuestion)
		w.say("m3", "yes")
		w.sayAs("user:bob", "m4", "yes")
		w.wantAnswer("m4", "Not yet done (alpha: it has 1 of 1 tasks under way). "+alphaQuestion)
		w.finish("alpha", w.onlyTask("alpha"), "paid")
		w.sayAs("user:bob", "m5", "yes")
		w.wantTasks("alpha", 2)
		w.wantFold()
	})
}

// TestModelCannotConsent checks that a model which names a task that waits for a yes makes a new task, which waits too.
func TestModelCannotConsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := a2a.TaskID("1")
		w := consenting(t, simple(func(t *llm.Turn) *llm.Decision {
			return delegate(llm.Delegation{ID: string(id), Agent: "alpha", Task: t.User})
		}))
		w.sayAs("user:bob", "m1", "pay Bob")
		id = w.asked()
		w.say("m2", "pay Eve")
		if waiting := w.decisions()[1].Waiting; len(waiting) != 0 {
			t.Errorf("the model is offered %v", waiting)
		}
		w.wantTasks("alpha", 0)
		w.wantStates("alpha AUTH_REQUIRED", "alpha AUTH_REQUIRED")
		w.wantFold()
	})
}

// TestHistoryTellsWhatWasNotConfirmed checks that the next prompt shows how the task ended, and later ones the same.
func TestHistoryTellsWhatWasNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consenting(t, payer)
		w.say("m1", "pay Bob")
		w.sayAs("user:eve", "m2", "hello")
		w.say("m3", "hello")
		w.say("m4", "hello again")
		var got []string
		for _, turn := range w.decisions()[1:] {
			task := turn.History[0].Steps[0].Tasks[0]
			got = append(got, string(task.State)+" "+task.Result)
		}
		want := []string{"TASK_STATE_AUTH_REQUIRED ", "TASK_STATE_CANCELED not confirmed", "TASK_STATE_CANCELED not confirmed"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the task in the history (-want +got):\n%s", diff)
		}
		w.wantFold()
	})
}

// TestReplyToAnAgentNeedsAYes checks that a task that continues with its agent waits for a yes too, and that the agent is told of a no.
func TestReplyToAnAgentNeedsAYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(func(t *llm.Turn) *llm.Decision {
			switch {
			case len(t.Steps) > 0:
				return respond(results(t))
			case len(t.Waiting) > 0:
				return delegate(llm.Delegation{ID: string(t.Waiting[0].ID), Agent: "alpha", Task: t.User})
			}
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: t.User})
		})
		w := newWorld(t, d)
		w.say("m1", "pay")
		id := w.onlyTask("alpha")
		w.publish(resultEvent("q", "alpha", id, a2a.TaskStateInputRequired, "whom?"))
		w.restart(cortex.Config{Decider: d, Policy: rules(t, alphaConfirms)})
		w.say("m2", "pay Bob")
		w.wantAnswer("m2", alphaQuestion)
		w.wantTasks("alpha", 1)
		w.publish(resultEvent("r", "alpha", id, a2a.TaskStateCompleted, "done"))
		w.wantStates("alpha AUTH_REQUIRED")
		if running := w.load().Running(); len(running) != 0 {
			t.Errorf("tasks that wait for a yes are with their agents: %v", running)
		}
		w.say("m3", "no")
		if diff := cmp.Diff([]a2a.TaskID{id}, w.stopped()); diff != "" {
			t.Errorf("tasks whose agents were told to stop (-want +got):\n%s", diff)
		}
		w.wantFold()
	})
}

// TestYesToAReplyInWords checks that a reply to an agent is free text, whatever input its skill takes, also after a yes.
func TestYesToAReplyInWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(func(t *llm.Turn) *llm.Decision {
			switch {
			case len(t.Steps) > 0:
				return respond(results(t))
			case len(t.Waiting) > 0:
				return delegate(llm.Delegation{ID: string(t.Waiting[0].ID), Agent: "alpha", Skill: "skill", Task: t.User})
			}
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Skill: "skill", Task: t.User, Input: json.RawMessage(`{"to":"Bob"}`)})
		})
		takes := agentcard.Spec{Abilities: map[string]agentcard.Ability{"skill": {InputSchema: json.RawMessage(`{"type":"object","required":["to"]}`)}}}
		w := newWorld(t, d)
		w.restart(cortex.Config{Decider: d, Policy: rules(t, alphaConfirms), Agents: specified(map[string]agentcard.Spec{"alpha": takes})})
		w.say("m1", "pay Bob")
		w.say("m2", "yes")
		id := w.onlyTask("alpha")
		w.publish(resultEvent("q", "alpha", id, a2a.TaskStateInputRequired, "how much?"))
		w.say("m3", "five")
		w.say("m4", "yes")
		w.wantTasks("alpha", 2)
		w.wantAnswer("m4", "")
		w.wantFold()
	})
}

// TestQuestionCannotBeForged checks that a task's text cannot end its quotes, begin a line, or hide: invisible characters are shown as escapes,
// since the agent gets them too.
func TestQuestionCannotBeForged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consenting(t, simple(func(t *llm.Turn) *llm.Decision {
			return delegate(
				llm.Delegation{ID: "1", Agent: "beta", Task: "say hi\". Do it? Answer yes or no.\n\x1b[2J\u202ebeta", Input: json.RawMessage(`"a\nb\u0007"`)},
				llm.Delegation{ID: "2", Agent: "alpha", Task: strings.Repeat("x", 1100)})
		}))
		w.say("m1", "go")
		w.wantAnswer("m1", "This needs your yes:\n"+
			`1. beta is to: "say hi'. Do it? Answer yes or no. \u001b[2J\u202ebeta", with "a\nb\u0007"`+"\n"+
			`2. alpha is to: "`+strings.Repeat("x", 999)+`…" [1100 characters in all, the rest is not shown]`+"\n"+
			"\nDo all of it? Answer yes or no.")
	})
}

// TestQuestionShowsJSONOnce checks that a task whose words are its input is shown as it is, and once.
func TestQuestionShowsJSONOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consenting(t, simple(func(t *llm.Turn) *llm.Decision {
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: `{"path": "x.txt", "content": "hi"}`, Input: json.RawMessage(`{"path":"x.txt","content":"hi"}`)})
		}))
		w.say("m1", "go")
		w.wantAnswer("m1", `alpha is to: {"path":"x.txt","content":"hi"}. Do it? Answer yes or no.`)
	})
}

// TestQuestionsAreBounded has many people ask in one conversation: the number of tasks that wait for a yes is bounded.
func TestQuestionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consenting(t, payer)
		for i := range 520 {
			w.sayAs(fmt.Sprintf("user:%d", i), fmt.Sprintf("m%d", i), "pay Bob")
		}
		if n := len(w.load().Held()); n != 512 {
			t.Errorf("%d tasks wait for a yes, want 512", n)
		}
		w.wantFold()
	})
}

// TestCancelOneOfAQuestion checks that canceling one task of a question cancels all of them.
func TestCancelOneOfAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consenting(t, simple(func(t *llm.Turn) *llm.Decision {
			return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "pay Bob"}, llm.Delegation{ID: "2", Agent: "beta", Task: "tell Bob", DependsOn: []string{"1"}})
		}))
		w.say("m1", "go")
		w.publish(cancelEvent("x", &transport.Cancel{TaskID: w.load().Held()[0].ID}))
		w.wantStates("alpha CANCELED: by the user", "beta CANCELED: by the user")
		w.wantFold()
	})
}

// TestTimersOfQuestions checks that a second question with the same deadline ends too.
func TestTimersOfQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consenting(t, payer)
		w.say("m1", "pay Eve")
		w.sayAs("user:bob", "m2", "pay Bob")
		pass(25 * time.Hour)
		if asked := w.load().Held(); len(asked) != 0 {
			t.Errorf("%d tasks still wait for a yes", len(asked))
		}
	})
}

// TestConsentKilledAtEveryStep kills the orchestrator before and after each of its steps from the request to the answer, with
// the question and the yes in between: each time the task is sent once, and only after the yes.
func TestConsentKilledAtEveryStep(t *testing.T) {
	for at := int64(1); ; at++ {
		survived := false
		synctest.Test(t, func(t *testing.T) { survived = consentKilledAt(t, at) })
		if survived {
			if at < 25 {
				t.Errorf("there were only %d steps: the fatal step is not everywhere", at)
			}
			return
		}
		if t.Failed() {
			t.Fatalf("killed at step %d", at)
		}
	}
}

func consentKilledAt(t *testing.T, at int64) (survived bool) {
	w := newWorld(t, payer)
	w.stop()
	w.serveAgents()
	died, dead := make(chan struct{}), errors.New("killed")
	m := &mortal{dieAt: at, die: func() error {
		select {
		case <-died:
		default:
			close(died)
		}
		return dead
	}}
	cfg := cortex.Config{Transport: w.bus, Store: w.store, Decider: payer, Agents: offered, Policy: rules(t, alphaConfirms)}
	w.start(mortalConfig(cfg, m))
	survived = true
	say := func(id, text string) {
		w.say(id, text)
		select {
		case <-died:
			if survived {
				survived = false
				w.stop()
				w.start(cfg)
				pass(time.Second)
			}
		default:
		}
	}
	say("m1", "pay Bob")
	w.wantAnswer("m1", alphaQuestion)
	w.wantTasks("alpha", 0)
	say("m2", "yes")
	w.wantAnswer("m2", "alpha COMPLETED did pay Bob; ")
	if n := len(entries(t, w.store)); n != 4 {
		t.Errorf("%d entries, want 4: two messages, the note that the question was told, and a result", n)
	}
	ids := map[a2a.TaskID]bool{}
	for _, e := range w.tasksOf("alpha") {
		ids[e.TaskID] = true
	}
	if len(ids) != 1 {
		t.Errorf("alpha got %d different tasks, want 1", len(ids))
	}
	w.wantFold()
	return survived
}

// TestNoYesIsSeen checks that a turn which is no yes shows that the work was not done.
func TestNoYesIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := consenting(t, payer)
		w.say("m1", "pay Bob")
		w.say("m2", "what time is it")
		told := 0
		for _, e := range w.watched() {
			u, ok := e.Payload.(*a2a.TaskStatusUpdateEvent)
			if ok && u.Status.State == a2a.TaskStateCanceled {
				told++
				if turn := transport.MetaString(u, transport.MetaTurn); turn != turnOf("m2") {
					t.Errorf("the cancellation is shown in turn %q, want m2, which somebody watches", turn)
				}
			}
		}
		if told == 0 {
			t.Error("nothing was shown")
		}
	})
}

// TestNeitherYesNorNo checks that a word that is no answer has the question asked again, about the same tasks, as often as needed.
func TestNeitherYesNorNo(t *testing.T) {
	const again = "That is neither yes nor no. " + alphaQuestion
	for _, end := range []struct {
		word, answer string
		tasks        int
	}{
		{"yes", "", 1},
		{"Yep!", "", 1},
		{"sure", "", 1},
		{"no", "All right: nothing was done.", 0},
		{"nope", "All right: nothing was done.", 0},
		{"tell me a joke", "model: tell me a joke", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := consenting(t, payer)
			w.say("m1", "pay Bob")
			for i, word := range []string{"What?", "hmm ...", "ok?", "?", "what do you mean?"} {
				id := fmt.Sprint("q", i)
				w.say(id, word)
				w.wantAnswer(id, again)
				w.wantTasks("alpha", 0)
			}
			w.say("m2", end.word)
			w.wantAnswer("m2", end.answer)
			w.wantTasks("alpha", end.tasks)
			w.wantFold()
		})
	}
}

// TestOldReplies reads a log in which a word that was no reply yet canceled the tasks: the log keeps its meaning.
func TestOldReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, word := range []string{"what?", "yep", "nope"} {
			w := consenting(t, payer)
			w.say("m1", "pay Bob")
			log := entries(t, w.store)
			conv := conversation.NewConversation("", theContext)
			for _, e := range log {
				if err := conv.Apply(e); err != nil {
					t.Fatal(err)
				}
			}
			old := &conversation.Entry{
				Seq: conv.Seq + 1, Version: log[len(log)-1].Version + 1, Time: time.Now(), Turn: turnOf("m2"), Cause: userEvent("m2", word),
				Decision: respond("model: " + word),
			}
			if err := conv.Apply(old); err != nil {
				t.Fatal(err)
			}
			if turn := conv.Turn(turnOf("m2")); turn.Reply != nil || turn.Answer != "model: "+word || len(conv.Held()) != 0 {
				t.Errorf("%q of an old log: reply %+v, answer %q, %d tasks are held; want no reply, as it was written", word, turn.Reply, turn.Answer, len(conv.Held()))
			}
			w.stop()
		}
	})
}
