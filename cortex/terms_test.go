package cortex_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

const foundSchema = `{"type":"object","properties":{"results":{"type":"array"},"total":{"type":"integer"}},"required":["results"]}`

// newSpecWorld is a world whose agents have these Specs, and do not stand in for each other.
func newSpecWorld(t *testing.T, d llm.Decider, specs map[string]agentcard.Spec) *world {
	w := newWorld(t, d)
	w.stop()
	w.start(cortex.Config{Decider: d, Agents: specified(specs), Policy: rules(t, alone)})
	return w
}

const alone = "rules: [{agents: ['*'], retry: {others: false}}]"

func specified(specs map[string]agentcard.Spec) func(string) []prompt.Agent {
	list := offered("")
	for i := range list {
		if s, ok := specs[list[i].ID]; ok {
			list[i].Card = agentcard.Attach(list[i].Card, &s)
		}
	}
	return func(string) []prompt.Agent { return list }
}

func promising(output string) agentcard.Spec {
	return agentcard.Spec{Abilities: map[string]agentcard.Ability{"skill": {OutputSchema: json.RawMessage(output)}}}
}

func within(d time.Duration) agentcard.Spec {
	return agentcard.Spec{Limits: agentcard.Limits{TaskTimeout: d}}
}

// once is a decider that makes these delegations, and then answers with the results.
func once(ds ...llm.Delegation) decideFunc {
	return simple(func(t *llm.Turn) *llm.Decision {
		if len(t.Steps) == 0 {
			return delegate(ds...)
		}
		return respond(results(t))
	})
}

var toAlpha = llm.Delegation{ID: "1", Agent: "alpha", Skill: "skill", Task: "find lamps"}

func data(v any) *a2a.Part      { return a2a.NewDataPart(v) }
func text(s string) *a2a.Part   { return a2a.NewTextPart(s) }
func object(list any) *a2a.Part { return data(map[string]any{"results": list}) }

// completed is a result with a text, and artifacts of one part each.
func completed(artifacts, words []*a2a.Part) func(a2a.TaskID) transport.Payload {
	return func(id a2a.TaskID) transport.Payload {
		p := &a2a.Task{ID: id, ContextID: theContext, Status: a2a.TaskStatus{State: a2a.TaskStateCompleted}}
		for i, part := range artifacts {
			p.Artifacts = append(p.Artifacts, &a2a.Artifact{ID: a2a.ArtifactID(fmt.Sprint("a", i)), Name: fmt.Sprint("a", i), Parts: a2a.ContentParts{part}})
		}
		if words != nil {
			p.Status.Message = &a2a.Message{ID: "w", Role: a2a.MessageRoleAgent, Parts: words}
		}
		return p
	}
}

func parts(ps ...*a2a.Part) []*a2a.Part { return ps }

// TestOutput checks that the task fails when its result breaks the schema of its skill, with the reason for the
// decider and the user. The log keeps what the agent sent.
func TestOutput(t *testing.T) {
	const broken = "alpha FAILED the result breaks the output schema of skill skill: "
	for _, c := range []struct {
		name   string
		schema string
		result func(a2a.TaskID) transport.Payload
		want   string // the beginning of the answer
	}{
		{"data", foundSchema, completed(parts(object([]any{1})), parts(text("found 1"))), "alpha COMPLETED found 1"},
		{"wrong data", foundSchema, completed(parts(object("lamp")), parts(text("found 1"))), broken + "/results"},
		{"data among the words", foundSchema, completed(nil, parts(text("found"), object([]any{}))), "alpha COMPLETED found\n{"},
		{"wrong data among the words", foundSchema, completed(nil, parts(text("found"), object(7))), broken + "/results"},
		{"artifacts before words", foundSchema, completed(parts(object([]any{})), parts(object(7))), "alpha COMPLETED"},
		{"artifacts before words, wrong", foundSchema, completed(parts(object(7)), parts(object([]any{}))), broken + "/results"},
		{"data before JSON", foundSchema, completed(parts(text(`{"results":7}`)), parts(object([]any{}))), "alpha COMPLETED"},
		{"the first artifact with data", foundSchema, completed(parts(text("log"), object(7), object([]any{})), nil), broken + "/results"},
		{"JSON", foundSchema, completed(nil, parts(text(" {\"results\":[]}\n"))), "alpha COMPLETED"},
		{"JSON in an artifact", foundSchema, completed(parts(text("log"), text(`{"results":[]}`)), parts(text("done"))), "alpha COMPLETED done"},
		{"wrong JSON", foundSchema, completed(nil, parts(text(`{"results":7}`))), broken + "/results"},
		{"words", foundSchema, completed(nil, parts(text("no lamps here"))), broken + "it is not JSON"},
		{"nothing", foundSchema, completed(nil, nil), broken + "it is not JSON"},
		{"words where a text is promised", `{"type":"string"}`, completed(nil, parts(text("no lamps here"))), "alpha COMPLETED no lamps here"},
		{"words where anything is promised", `{}`, completed(nil, parts(text("no lamps here"))), "alpha COMPLETED no lamps here"},
		{"words where no type is said", `{"required":["results"]}`, completed(nil, parts(text("no lamps here"))), broken + "it is not JSON"},
		{"words too long", `{"type":"string","maxLength":3}`, completed(nil, parts(text("no lamps here"))), broken + "it is not JSON"},
		{"words with white space", `{"enum":["yes","no"]}`, completed(nil, parts(text("yes\n"))), "alpha COMPLETED yes"},
		{"schema that is none", `{"type":"nonsense"}`, completed(nil, parts(text("no lamps here"))), "alpha COMPLETED no lamps here"},
		{"no schema", "", completed(nil, parts(text("no lamps here"))), "alpha COMPLETED no lamps here"},
		{"status update", foundSchema, func(id a2a.TaskID) transport.Payload {
			return &a2a.TaskStatusUpdateEvent{TaskID: id, ContextID: theContext, Status: a2a.TaskStatus{
				State: a2a.TaskStateCompleted, Message: &a2a.Message{ID: "w", Role: a2a.MessageRoleAgent, Parts: parts(object(7))},
			}}
		}, broken + "/results"},
		{"message", foundSchema, func(id a2a.TaskID) transport.Payload {
			return &a2a.Message{ID: "w", Role: a2a.MessageRoleAgent, TaskID: id, Parts: parts(object(7))}
		}, broken + "/results"},
		{"failed", foundSchema, func(id a2a.TaskID) transport.Payload {
			return resultEvent("", "", id, a2a.TaskStateFailed, "out of lamps").Payload
		}, "alpha FAILED out of lamps"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSpecWorld(t, once(toAlpha), map[string]agentcard.Spec{"alpha": promising(c.schema)})
				w.say("m1", "find lamps")
				task := w.onlyTask("alpha")
				w.publish(&transport.Event{ID: "r", Time: time.Now(), From: "alpha", ContextID: theContext, TaskID: task, Payload: c.result(task)})
				if got := w.answers()["m1"]; !strings.HasPrefix(got, c.want) || len(got) > len("alpha FAILED ; ")+300 {
					t.Errorf("answer %q, want %q", got, c.want)
				}
				if terms := entries(t, w.store)[0].Terms; (terms == nil) != (c.schema == "" || strings.Contains(c.schema, "nonsense")) {
					t.Errorf("the task was given under the terms %v", terms)
				}
				if e := entries(t, w.store)[1]; (e.Rejected != "") != strings.HasPrefix(c.want, broken) || e.Cause.ID != "r" {
					t.Errorf("the entry of %s rejects it with %q", e.Cause.ID, e.Rejected)
				}
				w.wantFold()
			})
		})
	}
}

// TestOutputReasonIsBounded has an agent with oversized names for its skill and its result.
func TestOutputReasonIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("ü\x1b[2J\n\u202e\u200b", 200)
		schema, err := json.Marshal(map[string]any{"required": []string{long}, "properties": map[string]any{"a": map[string]any{"const": long}}})
		if err != nil {
			t.Fatal(err)
		}
		skill := "\x1b[2J" + strings.Repeat("😀", 100)
		agents := offered("")
		agents[0].Card.Skills[0].ID = skill
		agents[0].Card = agentcard.Attach(agents[0].Card, &agentcard.Spec{Abilities: map[string]agentcard.Ability{skill: {OutputSchema: schema}}})
		decider := once(llm.Delegation{ID: "1", Agent: "alpha", Skill: skill, Task: "find lamps"})
		w := newWorld(t, decider)
		w.stop()
		w.start(cortex.Config{Decider: decider, Agents: func(string) []prompt.Agent { return agents }})
		w.say("m1", "find lamps")
		task := w.onlyTask("alpha")
		w.publish(&transport.Event{
			ID: "r", Time: time.Now(), From: "alpha", ContextID: theContext, TaskID: task,
			Payload: completed(parts(data(map[string]any{"a": long})), nil)(task),
		})
		why := entries(t, w.store)[1].Rejected
		if why == "" || len(why) > 300 || strings.ContainsAny(why, "\x1b\n\u202e\u200b") {
			t.Errorf("%d bytes: %q", len(why), why)
		}
	})
}

// TestOutputOfOthers checks that only the result that would count is validated: not that of another agent, and not a second one.
func TestOutputOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after := llm.Delegation{ID: "2", Agent: "beta", Task: "buy it", DependsOn: []string{"1"}}
		apart := llm.Delegation{ID: "3", Agent: "gamma", Task: "wait"}
		w := newSpecWorld(t, once(toAlpha, after, apart), map[string]agentcard.Spec{"alpha": promising(foundSchema)})
		w.say("m1", "find lamps and buy one")
		task, gamma := w.onlyTask("alpha"), w.onlyTask("gamma")
		w.publish(resultEvent("forged", "beta", task, a2a.TaskStateCompleted, "rubbish"))
		if n := len(entries(t, w.store)); n != 1 {
			t.Fatalf("%d entries, want 1: the result of another agent counts for nothing", n)
		}
		w.finish("alpha", task, "rubbish")
		w.publish(resultEvent("second", "alpha", task, a2a.TaskStateCompleted, `{"results":[]}`))
		if n := len(w.tasksOf("beta")); n != 0 {
			t.Errorf("beta got %d tasks that need what was not done", n)
		}
		w.finish("gamma", gamma, "waited")
		w.wantAnswer("m1", "alpha FAILED the result breaks the output schema of skill skill: it is not JSON; "+
			"beta FAILED not started, because the work of alpha that it needs was not done; gamma COMPLETED waited; ")
	})
}

// TestOutputOfAnOnlySkill has the decision name no skill.
func TestOutputOfAnOnlySkill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSpecWorld(t, once(llm.Delegation{ID: "1", Agent: "alpha", Task: "find lamps"}), map[string]agentcard.Spec{"alpha": promising(foundSchema)})
		w.say("m1", "find lamps")
		w.finish("alpha", w.onlyTask("alpha"), "rubbish")
		w.wantAnswer("m1", "alpha FAILED the result breaks the agent's output schema: it is not JSON; ")
	})
}

// TestOutputOfAQuestion checks that a question is not validated as a result, and that the task keeps its terms after the reply,
// whatever the agent's card says by then.
func TestOutputOfAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := simple(func(t *llm.Turn) *llm.Decision {
			switch {
			case len(t.Steps) > 0:
				return respond(results(t))
			case len(t.Waiting) > 0:
				return delegate(llm.Delegation{ID: string(t.Waiting[0].ID), Agent: "alpha", Task: t.User})
			}
			return delegate(toAlpha)
		})
		w := newSpecWorld(t, decider, map[string]agentcard.Spec{"alpha": promising(foundSchema)})
		w.say("m1", "find lamps")
		task := w.onlyTask("alpha")
		w.publish(resultEvent("q", "alpha", task, a2a.TaskStateInputRequired, "which colour?"))
		w.wantAnswer("m1", "alpha INPUT_REQUIRED which colour?; ")
		w.stop()
		w.start(cortex.Config{Decider: decider, Agents: specified(map[string]agentcard.Spec{"alpha": promising(`{"type":"string"}`)})})
		w.say("m2", "red")
		if terms := entries(t, w.store)[2].Terms; terms != nil {
			t.Errorf("the task goes on under the terms %v", terms)
		}
		w.finish("alpha", task, "rubbish")
		if got := w.answers()["m2"]; !strings.HasPrefix(got, "alpha FAILED the result breaks") {
			t.Errorf("answer %q, want the promise of the card of then to hold", got)
		}
		w.wantFold()
	})
}

// TestRejectedIsInTheLog checks that the log alone says whether a result counts: it is not validated again.
func TestRejectedIsInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ result, rejected, want string }{
			{"rubbish", "", "alpha COMPLETED rubbish"},
			{`{"results":[]}`, "so it was", "alpha FAILED so it was"},
		} {
			w := newSpecWorld(t, once(toAlpha), map[string]agentcard.Spec{"alpha": promising(foundSchema)})
			w.say("m1", "find lamps")
			w.finish("alpha", w.onlyTask("alpha"), c.result)
			conv := conversation.NewConversation("", theContext)
			for _, e := range entries(t, w.store) {
				if e.Cause.From == "alpha" {
					e.Rejected = c.rejected
				}
				if err := conv.Apply(e); err != nil {
					t.Fatal(err)
				}
			}
			task := conv.Turns[0].Past.Steps[0].Tasks[0]
			if got := task.Agent + " " + strings.TrimPrefix(string(task.State), "TASK_STATE_") + " " + task.Result; got != c.want {
				t.Errorf("the log with %q rejected as %q says %q, want %q", c.result, c.rejected, got, c.want)
			}
		}
	})
}

func TestTaskType(t *testing.T) {
	for _, c := range []struct{ name, skill, key, want string }{
		{"skill", "skill", "", "skill"},
		{"dispatch key", "skill", "tasks.skill", "tasks.skill"},
		{"the same", "skill", "skill", "skill"},
		{"of the only skill", "", "tasks.skill", "tasks.skill"},
		{"none", "", "", ""},
		{"a key that is none", "skill", "red\x1b[2J", "skill"},
		{"a long key", "skill", strings.Repeat("k", 300), "skill"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spec := agentcard.Spec{Abilities: map[string]agentcard.Ability{"skill": {DispatchKey: c.key}}}
				w := newSpecWorld(t, once(llm.Delegation{ID: "1", Agent: "alpha", Skill: c.skill, Task: "a"}), map[string]agentcard.Spec{"alpha": spec})
				w.say("m1", "go")
				m := w.tasksOf("alpha")[0].Payload.(*a2a.Message)
				given := w.watched()[0].Payload.(*a2a.Task)
				if got := [2]any{m.Metadata[transport.MetaTaskType], given.Metadata[transport.MetaTaskType]}; got != [2]any{c.want, c.want} {
					t.Errorf("task_type of the task and of what is shown = %q, want %q", got, c.want)
				}
				w.finish("alpha", m.TaskID, "done")
				w.wantAnswer("m1", "alpha COMPLETED done; ")
				w.wantFold()
			})
		})
	}
}

// TestTermsAreOfTheirSkill checks that each delegation of a decision has the terms of its own agent and skill.
func TestTermsAreOfTheirSkill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agents := offered("")
		agents[1].Card.Skills = append(agents[1].Card.Skills, a2a.AgentSkill{ID: "other", Name: "Other"})
		agents[1].Card = agentcard.Attach(agents[1].Card, &agentcard.Spec{
			Limits: agentcard.Limits{TaskTimeout: time.Minute, MaxRetries: new(2)},
			Abilities: map[string]agentcard.Ability{
				"skill": {DispatchKey: "beta.skill", OutputSchema: json.RawMessage(`{ "type": "string" }`)},
				"other": {DispatchKey: "beta.other", OutputSchema: json.RawMessage(`{"description":"` + strings.Repeat("x", 16<<10) + `"}`)},
			},
		})
		decider := once(toAlpha, llm.Delegation{ID: "2", Agent: "beta", Skill: "skill", Task: "b"},
			llm.Delegation{ID: "3", Agent: "beta", Skill: "other", Task: "c"}, llm.Delegation{ID: "4", Agent: "beta", Task: "d"})
		w := newWorld(t, decider)
		w.stop()
		w.start(cortex.Config{Decider: decider, Agents: func(string) []prompt.Agent { return agents }})
		w.say("m1", "go")
		want := map[string]conversation.Terms{
			"2": {Type: "beta.skill", Timeout: time.Minute, Output: json.RawMessage(`{"type":"string"}`), Retries: 2},
			"3": {Type: "beta.other", Timeout: time.Minute, Retries: 2},
			"4": {Timeout: time.Minute, Retries: 2},
		}
		if diff := cmp.Diff(want, entries(t, w.store)[0].Terms); diff != "" {
			t.Errorf("terms (-want +got):\n%s", diff)
		}
	})
}

// TestTaskTimeout checks that an agent has the time that its card names, at least a second.
func TestTaskTimeout(t *testing.T) {
	for _, c := range []struct{ said, want time.Duration }{
		{0, 5 * time.Minute},
		{10 * time.Second, 10 * time.Second},
		{2 * time.Hour, 2 * time.Hour},
		{time.Millisecond, time.Second},
		{1000 * time.Hour, 24 * time.Hour},
	} {
		t.Run(c.said.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSpecWorld(t, once(toAlpha), map[string]agentcard.Spec{"alpha": within(c.said)})
				w.say("m1", "go")
				m := w.tasksOf("alpha")[0].Payload.(*a2a.Message)
				if got, want := m.Metadata[transport.MetaDeadline], time.Now().Add(c.want).UTC().Format(time.RFC3339Nano); got != want {
					t.Errorf("deadline %v, want %v", got, want)
				}
				pass(c.want - time.Millisecond)
				if a := w.answers(); len(a) != 0 {
					t.Fatalf("answered %q before the deadline", a)
				}
				pass(2 * time.Millisecond)
				w.wantAnswer("m1", fmt.Sprintf("alpha FAILED no result within %v; ", c.want))
				w.wantFold()
			})
		})
	}
}

// TestTaskTimeoutsOfOneDecision has tasks that end at different times, the later ones after the timer of the first has fired.
func TestTaskTimeoutsOfOneDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := once(toAlpha, llm.Delegation{ID: "2", Agent: "beta", Task: "b"}, llm.Delegation{ID: "3", Agent: "gamma", Task: "c"})
		w := newSpecWorld(t, decider, map[string]agentcard.Spec{"alpha": within(20 * time.Minute), "gamma": within(10 * time.Second)})
		w.say("m1", "go")
		for _, step := range []struct {
			pass time.Duration
			left int
		}{{9 * time.Second, 3}, {2 * time.Second, 2}, {4 * time.Minute, 2}, {time.Minute, 1}, {14 * time.Minute, 1}} {
			pass(step.pass)
			if conv := w.load(); len(conv.Running()) != step.left || !conv.Open("user", "m1") {
				t.Fatalf("at %v: %d tasks run, want %d", time.Since(conv.Turns[0].Began), len(conv.Running()), step.left)
			}
		}
		pass(time.Minute)
		w.wantAnswer("m1", "alpha FAILED no result within 20m0s; beta FAILED no result within 5m0s; gamma FAILED no result within 10s; ")
	})
}

// TestTaskTimeoutOfTwoTurns has a later turn's task end before, or after, that of an earlier one.
func TestTaskTimeoutOfTwoTurns(t *testing.T) {
	specs := map[string]agentcard.Spec{"alpha": within(time.Minute), "beta": within(10 * time.Second)}
	for _, order := range [][2]string{{"alpha", "beta"}, {"beta", "alpha"}} {
		t.Run(order[0], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSpecWorld(t, simple(func(t *llm.Turn) *llm.Decision {
					if len(t.Steps) == 0 {
						return delegate(llm.Delegation{ID: "1", Agent: t.User, Task: "x"})
					}
					return respond(results(t))
				}), specs)
				w.say("m-"+order[0], order[0])
				w.say("m-"+order[1], order[1])
				pass(11 * time.Second)
				w.wantAnswer("m-beta", "beta FAILED no result within 10s; ")
				w.wantAnswer("m-alpha", "")
				pass(50 * time.Second)
				w.wantAnswer("m-alpha", "alpha FAILED no result within 1m0s; ")
			})
		})
	}
}

// TestTaskTimeoutBeginsWithTheTask has a task depend on another one: its time begins when it is sent.
func TestTaskTimeoutBeginsWithTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := once(toAlpha, llm.Delegation{ID: "2", Agent: "beta", Task: "b", DependsOn: []string{"1"}})
		w := newSpecWorld(t, decider, map[string]agentcard.Spec{"alpha": within(time.Minute), "beta": within(10 * time.Second)})
		w.say("m1", "go")
		pass(50 * time.Second)
		w.finish("alpha", w.onlyTask("alpha"), "A")
		pass(9 * time.Second)
		w.wantAnswer("m1", "")
		pass(2 * time.Second)
		w.wantAnswer("m1", "alpha COMPLETED A; beta FAILED no result within 10s; ")
		w.wantFold()
	})
}

// TestTaskTimeoutAfterRestart has an agent's time pass while no orchestrator runs, and the agent gone afterwards.
func TestTaskTimeoutAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decider := once(toAlpha, llm.Delegation{ID: "2", Agent: "beta", Task: "b"})
		w := newSpecWorld(t, decider, map[string]agentcard.Spec{"alpha": within(10 * time.Second), "beta": within(time.Hour)})
		w.say("m1", "go")
		w.stop()
		pass(10 * time.Minute)
		w.start(cortex.Config{Decider: decider, Agents: func(string) []prompt.Agent { return nil }, Policy: rules(t, alone)})
		pass(time.Second)
		if conv := w.load(); len(conv.Running()) != 1 || conv.Running()[0].Agent != "beta" {
			t.Fatalf("running: %v, want beta's task", conv.Running())
		}
		w.stop()
		w.start(cortex.Config{Decider: decider})
		pass(50 * time.Minute)
		w.wantAnswer("m1", "alpha FAILED no result within 10s; beta FAILED no result within 1h0m0s; ")
	})
}

// TestTaskTimeoutOfARepeatedEvent repeats the message when its entry exists: the effects are the same.
func TestTaskTimeoutOfARepeatedEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSpecWorld(t, once(toAlpha), map[string]agentcard.Spec{"alpha": within(time.Hour)})
		e := userEvent("m1", "go")
		w.publish(e)
		pass(30 * time.Minute) // the bus has forgotten the ids of earlier events
		w.publish(e)
		tasks := w.tasksOf("alpha")
		if len(tasks) != 2 {
			t.Fatalf("alpha got %d tasks, want the one twice", len(tasks))
		}
		if diff := cmp.Diff(tasks[0].Payload, tasks[1].Payload); diff != "" || tasks[0].ID != tasks[1].ID {
			t.Errorf("sent again as %s, then %s (-first +second):\n%s", tasks[0].ID, tasks[1].ID, diff)
		}
		pass(31 * time.Minute)
		w.wantAnswer("m1", "alpha FAILED no result within 1h0m0s; ")
	})
}
