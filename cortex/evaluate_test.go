package cortex_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// judging is a decider whose model judges results.
type judging struct {
	decideFunc
	judge func(ctx context.Context, task, output string, criteria []string) (*llm.Verdict, error)
}

func (j judging) Judge(ctx context.Context, task, output string, criteria []string, _ llm.Budget) (*llm.Verdict, error) {
	return j.judge(ctx, task, output, criteria)
}

// checked has alpha's results checked.
const checked = `
rules: [{agents: ['*'], retry: {others: false}}, {agents: [alpha], evaluators: [no_pii, no_keys]}]
evaluators:
  no_keys: {rules: ['AKIA[0-9A-Z]{16}']}
  brief: {judge: "it is brief", threshold: 0.5}
`

// aKey is forbidden by the rules.
const aKey = "AKIAABCDEFGHIJKLMNOP"

// verdicts describes the verdicts of an entry.
func verdicts(e *conversation.Entry) string {
	var all []string
	for _, v := range e.Verdicts {
		all = append(all, strings.TrimSpace(fmt.Sprint(v.Evaluator, " ", v.Pass, " ", v.Score, " ", v.Action, " ", v.Advice)))
	}
	return strings.Join(all, "; ")
}

func (w *world) lastEntry() *conversation.Entry {
	w.t.Helper()
	log := entries(w.t, w.store)
	return log[len(log)-1]
}

// logText returns the log as it is stored.
func (w *world) logText() string {
	w.t.Helper()
	var b bytes.Buffer
	for _, e := range entries(w.t, w.store) {
		raw, err := json.Marshal(e)
		if err != nil {
			w.t.Fatal(err)
		}
		b.Write(raw)
	}
	return b.String()
}

// TestResultIsRedacted checks that nothing of what a rule matches comes into the log, in none of the places of a result.
func TestResultIsRedacted(t *testing.T) {
	const pii = "eve@example.com"
	file := func(text string) *a2a.Part { return &a2a.Part{Content: a2a.Raw(text), Filename: "list.csv"} }
	for name, test := range map[string]struct {
		parts    []*a2a.Part
		want     string
		rejected bool
	}{
		"text":       {[]*a2a.Part{a2a.NewTextPart("write to " + pii + " or +49 30 1234567")}, "write to [no_pii] or [no_pii]", false},
		"data":       {[]*a2a.Part{a2a.NewDataPart(map[string]any{"to": pii, "n": 1.0})}, `{"n":1,"to":"[no_pii]"}`, false},
		"number":     {[]*a2a.Part{a2a.NewDataPart(map[string]any{"card": json.Number("4111111111111111")})}, "the result is no JSON any more", true},
		"link":       {[]*a2a.Part{{Content: a2a.URL("mailto:" + pii)}}, "mailto:[no_pii]", false},
		"file":       {[]*a2a.Part{file("name,to\neve," + pii)}, "[list.csv is left out: the evaluator no_pii does not pass it]", false},
		"file name":  {[]*a2a.Part{{Content: a2a.Raw("x"), Filename: pii + ".txt"}}, "alpha COMPLETED [[no_pii]]; ", false},
		"other file": {[]*a2a.Part{{Content: a2a.Raw("\x00\xff"), Filename: "a.bin"}}, "[a.bin]", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, once(toAlpha))
				w.restart(cortex.Config{Decider: once(toAlpha), Policy: rules(t, checked)})
				w.say("m1", "go")
				e := resultEvent("r1", "alpha", w.onlyTask("alpha"), a2a.TaskStateCompleted, "")
				result := e.Payload.(*a2a.Task)
				result.Status.Message.Parts = test.parts
				result.Artifacts = []*a2a.Artifact{{ID: "a", Name: "of " + pii, Description: "for " + pii, Parts: a2a.ContentParts{a2a.NewTextPart("by " + pii)}}}
				result.History = []*a2a.Message{{ID: "h", Parts: a2a.ContentParts{a2a.NewTextPart("said by " + pii)}}}
				w.publish(e)
				w.wantFold()
				if got := w.answers()["m1"]; !strings.Contains(got, test.want) {
					t.Errorf("answer %q, want %q in it", got, test.want)
				}
				last := w.lastEntry()
				if (last.Rejected != "") != test.rejected {
					t.Errorf("rejected: %q", last.Rejected)
				}
				if got := verdicts(last); !strings.HasPrefix(got, "no_pii false 0 redact ") || !strings.HasSuffix(got, "; no_keys true 1") {
					t.Errorf("verdicts %s", got)
				}
				if text := w.logText(); !test.rejected && strings.Contains(text, pii) {
					t.Errorf("the log has it: %s", text)
				}
				w.publish(e) // again
				if n := len(w.decisions()); n != 2 {
					t.Errorf("%d decisions", n)
				}
			})
		})
	}
}

// TestNothingIsPassedBesideTheRules checks that what a rule matches comes neither into the log nor to people and models, wherever an agent puts it, and
// also when the result is rejected for another reason, which may quote it.
func TestNothingIsPassedBesideTheRules(t *testing.T) {
	const pii = "eve@example.com"
	parts := func(parts ...*a2a.Part) func(*world, *a2a.Task) {
		return func(_ *world, r *a2a.Task) { r.Status.Message.Parts = parts }
	}
	stored := func(content string, say func(*transport.FileRef), name string) func(*world, *a2a.Task) {
		return func(w *world, r *a2a.Task) {
			ref, err := transport.PutFile(w.t.Context(), w.bus.(transport.Files), "", theContext, "alpha", strings.NewReader(content), 1<<25)
			if err != nil {
				w.t.Fatal(err)
			}
			say(&ref)
			r.Status.Message.Parts = a2a.ContentParts{ref.Part(name, "")}
		}
	}
	meta := map[string]any{"by": pii, pii: 1.0}
	for name, test := range map[string]struct {
		put    func(w *world, r *a2a.Task)
		answer string
	}{
		"name of a file that is left out": {parts(&a2a.Part{Content: a2a.Raw("to " + pii), Filename: pii + ".csv"}), "[[no_pii] is left out"},
		"name of a file that is not there": {
			parts(&a2a.Part{Content: a2a.URL("cortex-file:nonsense"), Filename: pii + ".csv"}), "FAILED [no_pii] is named by a reference that is broken",
		},
		"metadata of a file":        {parts(&a2a.Part{Content: a2a.Raw("x"), Filename: "a.csv", Metadata: meta}), "[a.csv]"},
		"media type":                {parts(&a2a.Part{Content: a2a.Raw("x"), Filename: "a.csv", MediaType: `text/x; a="` + pii + `"`}), "[a.csv]"},
		"head of a forgotten file":  {parts(&a2a.Part{Content: a2a.URL("cortex-file:"), Filename: "a.csv", Metadata: map[string]any{"file_head": pii}}), "[a.csv]"},
		"head that is not the file": {stored("harmless", func(r *transport.FileRef) { r.Head = pii }, "a.csv"), "[a.csv]"},
		"head of no text":           {stored("\x00", func(r *transport.FileRef) { r.Head = pii }, "a.csv"), "[a.csv]"},
		"file that is said to be no text": {
			stored("to "+pii, func(r *transport.FileRef) { r.Head = "" }, "a.csv"), "[a.csv is left out: the evaluator no_pii does not pass it]",
		},
		"file with a zero behind its head": {parts(&a2a.Part{Content: a2a.Raw(strings.Repeat("a ", 250) + "\x00 " + pii), Filename: "a.csv"}), "a.csv is left out"},
		"invisible characters":             {parts(a2a.NewTextPart("to eve\u200b@exam\x1b[0mple.com")), "COMPLETED to [no_pii];"},
		"hidden by an escape sequence":     {parts(a2a.NewTextPart("to \x1b]" + pii + "\a me")), "COMPLETED to \x1b][no_pii]\a me;"},
		"number on a line in data":         {parts(a2a.NewDataPart(map[string]any{"a": "card:\n4111111111111111 of " + pii})), `COMPLETED {"a":"card:\n[no_pii] of [no_pii]"};`},
		"keys in data":                     {parts(a2a.NewDataPart(map[string]any{pii: map[string]any{"\n" + pii: []any{pii}}})), `{"[no_pii]":{"\n[no_pii]":["[no_pii]"]}}`},
		"metadata":                         {func(_ *world, r *a2a.Task) { r.Metadata, r.Status.Message.Metadata = meta, meta }, "COMPLETED ;"},
		"number in metadata": {
			func(_ *world, r *a2a.Task) { r.Metadata = map[string]any{"by": pii, "n": 4111111111111111.0} }, "COMPLETED ;",
		},
		"artifact": {func(_ *world, r *a2a.Task) {
			r.Artifacts = []*a2a.Artifact{{ID: pii, Metadata: meta, Extensions: []string{pii}, Parts: a2a.ContentParts{a2a.NewTextPart("x")}}}
		}, "COMPLETED ;"},
		"message": {func(_ *world, r *a2a.Task) {
			m := r.Status.Message
			m.ID, m.Extensions, m.ReferenceTasks = pii, []string{pii}, []a2a.TaskID{pii}
		}, "COMPLETED ;"},
		"history": {func(_ *world, r *a2a.Task) {
			r.History = []*a2a.Message{{ID: "h", Parts: a2a.ContentParts{a2a.NewTextPart(pii)}}}
		}, "COMPLETED ;"},
		"schema": {parts(a2a.NewDataPart(map[string]any{"kind": pii})), `FAILED the result breaks the output schema of skill skill: /kind must be "a", not "[no_pii]";`},
		"too long": {
			stored(strings.Repeat("a ", 9<<20), func(*transport.FileRef) {}, pii+".txt"),
			"FAILED the file [no_pii] cannot be checked: too large: of one result at most 16777216 bytes are checked",
		},
		"too long together": {func(w *world, r *a2a.Task) {
			half := stored(strings.Repeat("a ", 5<<20), func(*transport.FileRef) {}, "a.txt")
			half(w, r)
			first := r.Status.Message.Parts
			half(w, r)
			r.Status.Message.Parts = append(first, r.Status.Message.Parts...)
		}, "FAILED the file a.txt cannot be checked: too large: of one result at most 16777216 bytes are checked"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := toAlpha
				cfg := cortex.Config{Policy: rules(t, checked)}
				if name == "schema" {
					to.Skill = "skill"
					schema := json.RawMessage(`{"type":"object","properties":{"kind":{"enum":["a"]}}}`)
					cfg.Agents = specified(map[string]agentcard.Spec{"alpha": {Abilities: map[string]agentcard.Ability{"skill": {OutputSchema: schema}}}})
				}
				cfg.Decider = once(to)
				w := newWorld(t, cfg.Decider)
				w.restart(cfg)
				w.say("m1", "go")
				e := resultEvent("r1", "alpha", w.onlyTask("alpha"), a2a.TaskStateCompleted, "")
				test.put(w, e.Payload.(*a2a.Task))
				w.publish(e)
				w.wantFold()
				if got := w.answers()["m1"]; !strings.Contains(got, test.answer) {
					t.Errorf("answer %q, want %q in it", got, test.answer)
				}
				said, err := json.Marshal(w.watched())
				if err != nil {
					t.Fatal(err)
				}
				turns := w.decisions()
				steps, err := json.Marshal(turns[len(turns)-1].Steps)
				if err != nil {
					t.Fatal(err)
				}
				for where, text := range map[string]string{"live": string(said), "prompt": string(steps), "log": w.logText()} {
					if strings.Contains(text, pii) || strings.Contains(text, "4111111111111111") {
						t.Errorf("%s: %s", where, text)
					}
				}
			})
		})
	}
}

// TestFormsOfAResult checks that rules see a result in each form that A2A allows.
func TestFormsOfAResult(t *testing.T) {
	const pii = "eve@example.com"
	meta := map[string]any{"by": pii}
	said := func(task a2a.TaskID) *a2a.Message {
		return &a2a.Message{ID: "m", TaskID: task, Role: a2a.MessageRoleAgent, Metadata: meta, Parts: a2a.ContentParts{
			a2a.NewTextPart("to " + pii), {Content: a2a.URL("https://example.org/?of=" + pii), MediaType: "x/y"},
		}}
	}
	for name, form := range map[string]func(a2a.TaskID) a2a.Event{
		"message": func(id a2a.TaskID) a2a.Event { return said(id) },
		"update": func(id a2a.TaskID) a2a.Event {
			return &a2a.TaskStatusUpdateEvent{
				TaskID: id, ContextID: theContext, Metadata: meta, Status: a2a.TaskStatus{State: a2a.TaskStateCompleted, Message: said(id)},
			}
		},
		"task": func(id a2a.TaskID) a2a.Event {
			return &a2a.Task{ID: id, ContextID: theContext, Metadata: meta, Status: a2a.TaskStatus{State: a2a.TaskStateCompleted, Message: said(id)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, once(toAlpha))
				w.restart(cortex.Config{Decider: once(toAlpha), Policy: rules(t, checked)})
				w.say("m1", "go")
				id := w.onlyTask("alpha")
				w.publish(&transport.Event{ID: "r1", Time: time.Now(), From: "alpha", ContextID: theContext, TaskID: id, Payload: form(id).(transport.Payload)})
				w.wantAnswer("m1", "alpha COMPLETED to [no_pii]\nhttps://example.org/?of=[no_pii]; ")
				w.wantFold()
				if text := w.logText(); strings.Contains(text, pii) {
					t.Errorf("the log has it: %s", text)
				}
			})
		})
	}
}

// TestIDsFailNothing checks that a rule which matches an id or metadata by chance fails no result.
func TestIDsFailNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, once(toAlpha))
		w.restart(cortex.Config{Decider: once(toAlpha), Policy: rules(t, checked)})
		w.say("m1", "go")
		e := resultEvent("r1", "alpha", w.onlyTask("alpha"), a2a.TaskStateCompleted, "done")
		r := e.Payload.(*a2a.Task)
		r.Metadata, r.Status.Message.ID = map[string]any{"trace": aKey, "n": 1.0}, aKey
		w.publish(e)
		w.wantAnswer("m1", "alpha COMPLETED done; ")
		if text := w.logText(); strings.Contains(text, aKey) || !strings.Contains(text, `"n":1`) {
			t.Errorf("log: %s", text)
		}
		if got := verdicts(w.lastEntry()); got != "no_pii true 1; no_keys true 1" {
			t.Errorf("verdicts %s", got)
		}
	})
}

// TestTooLongToBeJudged checks that nothing passes of which the judge would see the beginning only.
func TestTooLongToBeJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := judging{once(toAlpha), func(context.Context, string, string, []string) (*llm.Verdict, error) {
			return &llm.Verdict{Score: 1}, nil
		}}
		w := newWorld(t, d)
		w.restart(cortex.Config{Decider: d, Policy: rules(t, "rules: [{agents: [alpha], evaluators: [brief]}]\nevaluators: {brief: {judge: it is brief}}")})
		w.say("m1", "go")
		w.finish("alpha", w.onlyTask("alpha"), strings.Repeat("a", llm.MaxJudged+1))
		w.wantAnswer("m1", "alpha FAILED the evaluator brief cannot judge: the result has 65537 bytes, and a model judges at most 65536; ")
	})
}

// TestResultDoesNotPass checks that a task fails whose result does not pass, and that no other agent gets it.
func TestResultDoesNotPass(t *testing.T) {
	for name, test := range map[string]struct {
		state  a2a.TaskState
		text   string
		answer string
	}{
		"completed": {a2a.TaskStateCompleted, "the key is " + aKey, "alpha FAILED the evaluator no_keys does not pass the result: a rule matches it; "},
		"failed":    {a2a.TaskStateFailed, "wrong key " + aKey, "alpha FAILED the evaluator no_keys does not pass the result: a rule matches it; "},
		"asks":      {a2a.TaskStateInputRequired, "use " + aKey + "?", "alpha FAILED the evaluator no_keys does not pass the result: a rule matches it; "},
		"passes":    {a2a.TaskStateFailed, "for eve@example.com", "alpha FAILED for [no_pii]; "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, once(toAlpha))
				w.restart(cortex.Config{Decider: once(toAlpha), Policy: rules(t, checked)})
				w.say("m1", "go")
				w.publish(resultEvent("r1", "alpha", w.onlyTask("alpha"), test.state, test.text))
				w.wantAnswer("m1", test.answer)
				w.wantFold()
				if got := verdicts(w.lastEntry()); !strings.HasPrefix(got, "no_pii ") {
					t.Errorf("verdicts %s", got)
				}
			})
		})
	}
}

// TestRetriedWithoutWhatIsRedacted checks that the reason of another attempt is redacted, too, and that there is none after what does not pass.
func TestRetriedWithoutWhatIsRedacted(t *testing.T) {
	for text, want := range map[string]int{"no mail to eve@example.com": 2, aKey + " of eve@example.com": 1} {
		synctest.Test(t, func(t *testing.T) {
			n := 1
			w := newWorld(t, once(toAlpha))
			w.restart(cortex.Config{
				Decider: once(toAlpha), Policy: rules(t, checked), Agents: specified(map[string]agentcard.Spec{"alpha": {Limits: agentcard.Limits{MaxRetries: &n}}}),
			})
			w.say("m1", "go")
			w.publish(resultEvent("r1", "alpha", w.onlyTask("alpha"), a2a.TaskStateFailed, text))
			if got := len(w.tasksOf("alpha")); got != want || strings.Contains(w.logText(), "eve@") || (w.lastEntry().Retries != nil) != (want == 2) {
				t.Errorf("%d attempts of %q; log:\n%s", got, text, w.logText())
			}
		})
	}
}

// TestCardNamesEvaluators checks that the names on a card count when the policy has such evaluators.
func TestCardNamesEvaluators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := llm.Delegation{ID: "1", Agent: "beta", Task: "t"}
		w := newWorld(t, once(to))
		w.restart(cortex.Config{
			Decider: once(to), Policy: rules(t, checked),
			Agents: specified(map[string]agentcard.Spec{"beta": {Extra: map[string]any{"evaluators": []any{"factuality", "no_pii", 7}}}}),
		})
		w.say("m1", "go")
		w.finish("beta", w.onlyTask("beta"), "eve@example.com "+aKey)
		w.wantAnswer("m1", "beta COMPLETED [no_pii] "+aKey+"; ")
	})
}

// TestModelJudges checks what a judge sees, costs and decides.
func TestModelJudges(t *testing.T) {
	const byModel = "rules: [{agents: ['*'], retry: {others: false}}, {agents: [alpha], evaluators: [no_pii, brief]}]\nevaluators:\n  brief: {judge: it is brief, threshold: 0.5}\n  no_pii: {}"
	for name, test := range map[string]struct {
		verdict *llm.Verdict
		err     error
		answer  string
		log     string
	}{
		"pass":     {&llm.Verdict{Score: 0.5, Advice: "fine", Usage: each}, nil, "alpha COMPLETED a [no_pii]\n{\"n\":1}; ", "no_pii false 0 redact a rule matches it; brief true 0.5"},
		"fail":     {&llm.Verdict{Score: 0.4, Advice: "too\nlong", Usage: each}, nil, "alpha FAILED the evaluator brief does not pass the result: too long; ", "no_pii false 0 redact a rule matches it; brief false 0.4 fail too long"},
		"no judge": {&llm.Verdict{Usage: each}, errors.New("it does not answer"), "alpha FAILED the evaluator brief cannot judge: it does not answer; ", "no_pii false 0 redact a rule matches it"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := ""
				d := judging{once(toAlpha), func(_ context.Context, task, output string, criteria []string) (*llm.Verdict, error) {
					asked = fmt.Sprintf("%s|%s|%s", task, output, criteria)
					return test.verdict, test.err
				}}
				w := newWorld(t, d)
				w.restart(cortex.Config{Decider: d, Policy: rules(t, byModel)})
				w.say("m1", "go")
				e := resultEvent("r1", "alpha", w.onlyTask("alpha"), a2a.TaskStateCompleted, "a eve@example.com")
				m := e.Payload.(*a2a.Task).Status.Message
				m.Parts = append(m.Parts, a2a.NewDataPart(map[string]any{"n": 1}))
				w.publish(e)
				w.wantAnswer("m1", test.answer)
				w.wantFold()
				if got := verdicts(w.lastEntry()); got != test.log {
					t.Errorf("verdicts %s", got)
				}
				if want := toAlpha.Task + "|a [no_pii]\n{\"n\":1}|[it is brief]"; asked != want {
					t.Errorf("the judge was asked %q, want %q", asked, want)
				}
				if got := w.load().Usage; got != each {
					t.Errorf("usage %+v, want that of the judge", got)
				}
				pass(time.Minute)
				if got, err := w.store.(storage.SpendLog).Spent(t.Context(), "", time.Now().UTC().Format(time.DateOnly)); err != nil || got != each {
					t.Errorf("spent today %+v, %v, want what the judge has cost", got, err)
				}
			})
		})
	}
}

// TestJudgedForLong has a model judge for longer than a task may take: the next attempt has all its time.
func TestJudgedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := judging{once(toAlpha), func(context.Context, string, string, []string) (*llm.Verdict, error) {
			pass(time.Minute)
			return &llm.Verdict{Score: 0, Advice: "too long"}, nil
		}}
		w := newWorld(t, d)
		w.restart(cortex.Config{Decider: d, TaskTimeout: 10 * time.Second, Policy: rules(t, "rules: [{agents: [alpha], evaluators: [brief]}]\nevaluators: {brief: {judge: it is brief}}")})
		w.say("m1", "go")
		first := w.onlyTask("alpha")
		w.finish("alpha", first, "a")
		for _, task := range w.load().Tasks {
			if time.Until(task.Deadline) != 10*time.Second {
				t.Errorf("the next attempt is sent at %v with %v left", task.Sent, time.Until(task.Deadline))
			}
		}
	})
}

// TestOnlyWorkIsJudged checks that a model is not asked about a question or a failure, nor when the budget is spent.
func TestOnlyWorkIsJudged(t *testing.T) {
	const byModel = "rules: [{agents: ['*'], retry: {others: false}}, {agents: [alpha], evaluators: [brief]}]\nevaluators: {brief: {judge: it is brief}}"
	for name, test := range map[string]struct {
		state  a2a.TaskState
		budget budget.Limits
		judged int
		answer string
	}{
		"completed": {a2a.TaskStateCompleted, budget.Limits{}, 1, "alpha COMPLETED A; "},
		"failed":    {a2a.TaskStateFailed, budget.Limits{}, 0, "alpha FAILED A; "},
		"spent":     {a2a.TaskStateCompleted, budget.Limits{Turn: llm.Budget{Tokens: 100}}, 0, "budget"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				d := judging{costing(once(toAlpha)), func(context.Context, string, string, []string) (*llm.Verdict, error) {
					n++
					return &llm.Verdict{Score: 1}, nil
				}}
				w := newWorld(t, d)
				w.restart(cortex.Config{Decider: d, Policy: rules(t, byModel), Budget: test.budget})
				w.say("m1", "go")
				w.publish(resultEvent("r1", "alpha", w.onlyTask("alpha"), test.state, "A"))
				if got := w.answers()["m1"]; n != test.judged || !strings.Contains(got, test.answer) {
					t.Errorf("judged %d times, answer %q, want %d, %q", n, got, test.judged, test.answer)
				}
				if e := w.lastEntry(); (e.Rejected != "") != (name == "spent") {
					t.Errorf("rejected: %q", e.Rejected)
				}
			})
		})
	}
}

// TestDayCountsJudges checks that what judges cost is spent of the day's budget, which ends with it, and once only if the entry is stored late.
func TestDayCountsJudges(t *testing.T) {
	const byModel = "rules: [{agents: [alpha], evaluators: [brief]}]\nevaluators: {brief: {judge: it is brief}}"
	for name, through := range map[string]func(w *world) storage.Store{
		"stored": func(w *world) storage.Store { return w.store },
		"late": func(w *world) storage.Store {
			return accounting{&absent{Store: w.store, left: 2}, w.store.(storage.SpendLog)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := judging{once(toAlpha), func(context.Context, string, string, []string) (*llm.Verdict, error) {
					return &llm.Verdict{Score: 1, Usage: each}, nil
				}}
				w := newWorld(t, d)
				cfg := cortex.Config{Decider: d, Policy: rules(t, byModel), Budget: budget.Limits{Day: llm.Budget{Tokens: 150, Cost: 9}}}
				w.restart(cfg)
				w.say("m1", "go")
				cfg.Store = through(w)
				w.restart(cfg)
				w.finish("alpha", w.onlyTask("alpha"), "A")
				pass(time.Minute)
				w.wantAnswer("m1", "alpha COMPLETED A; ")
				cfg.Store = nil
				w.restart(cfg)
				w.say("m2", "go on")
				all := w.decisions()
				if got, want := all[len(all)-1].Budget, (llm.Budget{Tokens: 40, Cost: 8.75}); got != want {
					t.Errorf("after a judge was paid, a decision may spend %+v, want %+v", got, want)
				}
			})
		})
	}
}

// TestJudgedOnce checks that a judge is not asked, nor paid, again when the entry comes second, or cannot be stored at first.
func TestJudgedOnce(t *testing.T) {
	const byModel = "rules: [{agents: [alpha, beta], evaluators: [brief, no_keys]}]\nevaluators:\n  brief: {judge: it is brief}\n  no_keys: {rules: [AKIA], action: redact}"
	for name, between := range map[string]func(w *world) storage.Store{
		"conflict": func(w *world) storage.Store {
			return &conflicting{w.store, &conversation.Entry{Seq: 2, Time: time.Now(), Cause: userEvent("m0", "hm"), Turn: turnOf("m0"), Decision: respond("yes")}}
		},
		"no store": func(w *world) storage.Store { return &absent{Store: w.store, left: 2} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				d := judging{once(toAlpha, llm.Delegation{ID: "2", Agent: "beta", Task: "t"}), func(context.Context, string, string, []string) (*llm.Verdict, error) {
					n++
					return &llm.Verdict{Score: 1, Usage: each}, nil
				}}
				w := newWorld(t, d)
				w.restart(cortex.Config{Decider: d, Policy: rules(t, byModel)})
				w.say("m1", "go")
				w.restart(cortex.Config{Decider: d, Policy: rules(t, byModel), Store: between(w)})
				w.finish("alpha", w.onlyTask("alpha"), "A AKIA")
				pass(time.Minute)
				if last := w.lastEntry(); n != 1 || last.Usage != each || verdicts(last) != "no_keys false 0 redact a rule matches it; brief true 1" {
					t.Errorf("judged %d times, usage %+v, verdicts %s", n, last.Usage, verdicts(last))
				}
				w.finish("beta", w.onlyTask("beta"), "B")
				w.wantAnswer("m1", "alpha COMPLETED A [no_keys]; beta COMPLETED B; ")
				w.wantFold()
			})
		})
	}
}

// absent is a store that is not there for some attempts to append.
type absent struct {
	storage.Store
	left int
}

func (s *absent) Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error) {
	if s.left--; s.left >= 0 {
		return 0, transport.ErrUnavailable
	}
	return s.Store.Append(ctx, tenant, contextID, after, e)
}

// TestJudgeIsStopped checks that the end of the orchestrator while a model judges loses nothing.
func TestJudgeIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const byModel = "rules: [{agents: [alpha], evaluators: [brief]}]\nevaluators: {brief: {judge: it is brief}}"
		both := once(toAlpha, llm.Delegation{ID: "2", Agent: "beta", Task: "t"}) // nothing is decided after the first result
		d := judging{both, func(ctx context.Context, _, _ string, _ []string) (*llm.Verdict, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		w := newWorld(t, d)
		w.restart(cortex.Config{Decider: d, Policy: rules(t, byModel)})
		w.say("m1", "go")
		w.finish("alpha", w.onlyTask("alpha"), "A")
		w.restart(cortex.Config{Decider: both})
		pass(time.Minute)
		w.finish("beta", w.onlyTask("beta"), "B")
		w.wantAnswer("m1", "alpha COMPLETED A; beta COMPLETED B; ")
		if v := entries(t, w.store)[1].Verdicts; v != nil {
			t.Errorf("verdicts %v", v)
		}
	})
}

// TestRedactedWithoutDecision has the decider hang behind a result: what a rule matches does not come into the log with the answer that ends its turn either,
// and what does not pass is not accepted.
func TestRedactedWithoutDecision(t *testing.T) {
	for text, want := range map[string]string{"mail eve@example.com": "mail [no_pii]", "the key is " + aKey: `"rejected":"the evaluator no_keys does not pass`} {
		synctest.Test(t, func(t *testing.T) {
			free := make(chan struct{})
			defer close(free)
			first := once(toAlpha)
			d := decideFunc(func(ctx context.Context, turn *llm.Turn, stream func(string)) (*llm.Decision, error) {
				if len(turn.Steps) > 0 {
					<-free
				}
				return first(ctx, turn, stream)
			})
			w := newWorld(t, d)
			w.restart(cortex.Config{Decider: d, Policy: rules(t, checked)})
			w.say("m1", "go")
			w.finish("alpha", w.onlyTask("alpha"), text)
			pass(3 * time.Minute)
			w.wantAnswer("m1", leftBehind)
			if got := w.logText(); !strings.Contains(got, want) {
				t.Errorf("the log has no %q: %s", want, got)
			}
		})
	}
}
