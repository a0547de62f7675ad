package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/evaluate"
	"github.com/cortex-orchestrator/cortex/internal/traces"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestWhyTellsOfRetries checks that /why shows each task that was retried, with which agent and why, but none of earlier turns.
func TestWhyTellsOfRetries(t *testing.T) {
	l := newLinked(t)
	now := time.Unix(1000, 0).UTC()
	conv := conversation.NewConversation("", "c")
	add := func(e *conversation.Entry, id string, p transport.Payload) {
		t.Helper()
		now = now.Add(time.Minute)
		e.Seq, e.Time, e.Deadline = conv.Seq+1, now, now.Add(3*time.Second)
		e.Cause = &transport.Event{ID: id, Time: now, From: "user", ContextID: "c", Payload: p}
		var err error
		if e.Version, err = l.store.Append(t.Context(), "", "c", conv.Version, e); err != nil {
			t.Fatal(err)
		}
		if err := conv.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(id, turn string, delegations ...llm.Delegation) {
		t.Helper()
		d := &llm.Decision{Kind: llm.KindDelegate, Model: "m", Delegations: delegations}
		add(&conversation.Entry{Turn: turn, Decision: d}, id, &a2a.Message{ID: id, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("go")}})
	}
	again := func(id, turn string, retries map[a2a.TaskID]conversation.Retry) {
		t.Helper()
		add(&conversation.Entry{Turn: turn, Retries: retries}, id, &transport.Deadline{At: now.Add(time.Hour)})
	}
	ask("m1", "m1", llm.Delegation{ID: "a", Agent: "old_scale", Skill: "weigh", Task: "an anchor"}, llm.Delegation{ID: "b", Agent: "booker", Skill: "book", Task: "a table"})
	anchor := conv.Running()[0].ID
	again("d1", "m1", map[a2a.TaskID]conversation.Retry{
		anchor: {Agent: "new_scale", Why: "no result within 3s"}, "nobody knows it": {Agent: "x", Why: "x"},
	})
	again("d2", "m1", map[a2a.TaskID]conversation.Retry{anchor: {Agent: "new_scale", Why: "it failed:\n\x1b[2Jtoo heavy"}})

	b := &backend{link: l, registry: registry.New(registry.Config{})}
	got, err := b.why(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	want := `1. delegate
   → old_scale: an anchor
   → booker: a table
   by m
   ↻ attempt 2: new_scale instead of old_scale: no result within 3s
   ↻ attempt 3: new_scale once more: it failed: too heavy`
	if got != want {
		t.Errorf("why =\n%s\nwant\n%s", got, want)
	}
	ask("m2", "m2")
	if got, err = b.why(t.Context(), "c"); err != nil || got != "1. delegate\n   by m" {
		t.Errorf("why of the next turn = %q, %v", got, err)
	}
	ask("m3", "m3", llm.Delegation{ID: "a", Agent: "uSer", Task: "x"})
	if got, err = b.why(t.Context(), "c"); err != nil || got != "1. delegate\n   → uSer (looks like user): x\n   by m" {
		t.Errorf("why of an agent that may be taken for a person = %q, %v", got, err)
	}

	// External text must not begin a line.
	d := &llm.Decision{
		Kind: llm.KindDelegate, Model: "m\n9. respond", Reason: "it\n2. respond\n   because all is well",
		Delegations: []llm.Delegation{{ID: "a", Agent: "old\nscale", Skill: "weigh", Task: "an anchor\n   by another model"}},
	}
	add(&conversation.Entry{Turn: "m4", Decision: d}, "m4", &a2a.Message{ID: "m4", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("go")}})
	want = `1. delegate
   → old scale: an anchor by another model
   because it 2. respond because all is well
   by m 9. respond`
	if got, err = b.why(t.Context(), "c"); err != nil || got != want {
		t.Errorf("why of what a model wrote =\n%s, %v\nwant\n%s", got, err, want)
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	want += "\ntrace " + traces.ID(conv, conv.Turns[len(conv.Turns)-1])
	if got, err = b.why(t.Context(), "c"); err != nil || got != want {
		t.Errorf("why with traces =\n%s, %v\nwant\n%s", got, err, want)
	}
}

// TestWhyTellsOfFiles checks that /why names the files of each task: those of the message, those that the decision names, or none.
func TestWhyTellsOfFiles(t *testing.T) {
	l := newLinked(t)
	m := &a2a.Message{ID: "m1", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{
		a2a.NewTextPart("compare"),
		{Content: a2a.Raw("a"), Filename: "a.txt", MediaType: "text/plain"},
		{Content: a2a.Raw("b"), Filename: "b\n1. delegate", MediaType: "text/plain"},
	}}
	now := time.Unix(1000, 0).UTC()
	e := &conversation.Entry{
		Seq: 1, Time: now, Deadline: now.Add(time.Second), Turn: "t",
		Cause: &transport.Event{ID: "m1", Time: now, From: "user", ContextID: "c", Payload: m},
		Decision: &llm.Decision{Kind: llm.KindDelegate, Model: "m", Delegations: []llm.Delegation{
			{ID: "1", Agent: "all", Task: "read"}, {ID: "2", Agent: "one", Task: "read", Files: []string{"f1"}}, {ID: "3", Agent: "none", Task: "read", Files: []string{}},
		}},
	}
	if _, err := l.store.Append(t.Context(), "", "c", 0, e); err != nil {
		t.Fatal(err)
	}
	got, err := (&backend{link: l, registry: registry.New(registry.Config{})}).why(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	want := "1. delegate\n   → all: read +a.txt +b_1. delegate\n   → one: read +a.txt\n   → none: read\n   by m"
	if got != want {
		t.Errorf("why:\n%s\nwant:\n%s", got, want)
	}
}

// TestWhyTellsOfVerdicts checks that /why and the history show what was said of a result, as text that looks like nothing else.
func TestWhyTellsOfVerdicts(t *testing.T) {
	l := newLinked(t)
	conv := conversation.NewConversation("", "c")
	add := func(e *conversation.Entry, from string, p transport.Payload) {
		t.Helper()
		e.Seq, e.Time, e.Turn, e.Deadline = conv.Seq+1, time.Unix(1000, 0).UTC(), "m", time.Unix(2000, 0).UTC()
		e.Cause = &transport.Event{ID: fmt.Sprint("e", e.Seq), Time: e.Time, From: from, ContextID: "c", Payload: p}
		var err error
		if e.Version, err = l.store.Append(t.Context(), "", "c", conv.Version, e); err != nil {
			t.Fatal(err)
		}
		if err := conv.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	d := &llm.Decision{Kind: llm.KindDelegate, Model: "m", Delegations: []llm.Delegation{{ID: "a", Agent: "scale", Task: "weigh"}}}
	add(&conversation.Entry{Decision: d}, "user", &a2a.Message{ID: "m", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("go")}})
	part := a2a.NewTextPart("12")
	part.SetMeta(transport.MetaVerdicts, []any{
		map[string]any{"evaluator": "reflection", "score": 0.4, "round": 1.0, "advice": "\x1b[2Jmore"}, map[string]any{"evaluator": "reflection", "pass": true, "score": 0.9, "round": 2.0},
	})
	id := conv.Running()[0].ID
	result := &a2a.Task{ID: id, Status: a2a.TaskStatus{State: a2a.TaskStateCompleted, Message: &a2a.Message{Role: a2a.MessageRoleAgent, Parts: a2a.ContentParts{part}}}}
	add(&conversation.Entry{
		Decision: &llm.Decision{Kind: llm.KindRespond, Say: "12", Model: "m"},
		Verdicts: []evaluate.Verdict{{Evaluator: "no_pii", Advice: "a rule matches it", Action: evaluate.Redact}, {Evaluator: "brief", Pass: true, Score: 1}},
	}, "scale", result)

	got, err := (&backend{link: l, registry: registry.New(registry.Config{})}).why(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	want := `1. delegate
   → scale: weigh
   by m
   checked by scale itself: reflection, round 1: not passed (0.40): more
   checked by scale itself: reflection, round 2: passed (0.90)
   checked: no_pii: redacted: a rule matches it
   checked: brief: passed (1.00)
2. respond
   by m`
	if got != want {
		t.Errorf("why() =\n%s\nwant\n%s", got, want)
	}
	var notes []string
	for _, line := range view.LinesOf(conv, &conversation.Entry{Seq: 2, Cause: &transport.Event{From: "scale", TaskID: id, Payload: result}, Verdicts: []evaluate.Verdict{{Evaluator: "no_pii", Action: evaluate.Redact}}}) {
		if line.Kind == client.LineNote {
			notes = append(notes, line.Text)
		}
	}
	if got := strings.Join(notes, "; "); got != "checked: reflection, round 1: not passed (0.40): more; checked: no_pii: redacted" {
		t.Errorf("notes of the history: %s", got)
	}
}
