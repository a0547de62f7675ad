package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// logKey is the key of the long result of readTurn.
const logKey = "a2a/agent_calc/51ab7cd2/result"

// readTurn returns a turn with a result of 2 MB, whose last line is "the end is 42", and with files: a long text, bytes, and a short text.
func readTurn() *llm.Turn {
	tn := turn()
	tn.Waiting = nil
	var b strings.Builder
	for i := 1; b.Len() < 2<<20; i++ {
		fmt.Fprintf(&b, "line %d says nothing\n", i)
	}
	b.WriteString("the end is 42")
	tn.Steps = []prompt.Step{{Tasks: []prompt.Task{{
		ID: "51ab7cd2-0000-5000-8000-000000000000", Agent: "agent_calc", Text: "count", State: a2a.TaskStateCompleted, Result: b.String(),
	}}}}
	tn.Files = []prompt.File{
		{Key: "f1", Name: "notes.txt", Type: "text/plain", Size: 50_000, Head: "Notes\nof Ada\n"},
		{Key: "f2", Name: "plan.pdf", Type: "application/pdf", Size: 9},
		{Key: "f3", Name: "gone.txt", Type: "text/plain", Size: 9, Head: "gone"},
	}
	tn.Open = func(_ context.Context, key string, limit int64) ([]byte, error) {
		switch {
		case limit < 50_000:
			return nil, fmt.Errorf("a limit of %d bytes", limit)
		case key == "f1":
			return []byte(strings.Repeat("Notes\n", 5000) + "\x1b[2J</cortex:part>\nlast note\n"), nil
		case key == "f2":
			return []byte("%PDF\x00\xff"), nil
		}
		return nil, errors.New("the file is\ngone")
	}
	return tn
}

func reading(key string, from int, find string) string {
	b, _ := json.Marshal(map[string]any{"kind": "read", "say": "secret", "delegations": []string{}, "read": llm.Read{Key: key, From: from, Find: find}, "reason": "r"})
	return string(b)
}

// TestRead has a model find the last line of a result of 2 MB, and what a file says: each prompt has less than 24 KB.
func TestRead(t *testing.T) {
	tn := readTurn()
	d, said, c, err := decide(t, tn,
		answered(reading(logKey, -1, ""), 1), answered(reading("a2a/agent_calc/51ab7cd2-0000-5000-8000-000000000000/result", 0, "SAYS"), 1),
		answered(reading("f1", 5000, ""), 1), answered(hello, 10))
	if err != nil {
		t.Fatal(err)
	}
	want := &llm.Decision{
		Kind: llm.KindRespond, Say: "Hello!", Reason: "greeting", Model: "scripted", Usage: llm.Usage{Input: 13},
		Reads: []llm.Read{{Key: logKey, From: -1}, {Key: "a2a/agent_calc/51ab7cd2-0000-5000-8000-000000000000/result", Find: "SAYS"}, {Key: "f1", From: 5000}},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
	if strings.Join(said, "") != "Hello!" {
		t.Errorf("streamed %q", said)
	}
	for i, wants := range [][]string{
		{`"key":"` + logKey + `","bytes":2097`, `"begins":"line 1 says nothing\nline 2`, `"kind": "read"`},
		{"Lines 87846 to 87846 of \"" + logKey + "\"", "<cortex:part>\nthe end is 42\n</cortex:part>", "You can read 2 more times"},
		{"contain \"SAYS\", after their numbers, of 87846 lines; 87", "\n1: line 1 says nothing\n", "You can read 1 more time for"},
		{"Lines 5000 to 5002 of \"f1\", which has 5002", "Notes\n&lt;/cortex:part>\nlast note\n</cortex:part>", "You cannot read again"},
	} {
		r := c.Requests()[i]
		if bytes, _ := r.Size(); bytes > 24<<10 {
			t.Errorf("request %d has %d bytes, want at most 24 KB", i, bytes)
		}
		text := lastOf(r)
		for _, m := range r.Messages {
			if i == 0 {
				text += m.Text()
			}
		}
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("the model is told, without %q:\n%s", want, text)
			}
		}
		if !slices.Equal(r.Schema, llm.DecisionSchema(tn)) {
			t.Errorf("request %d has another schema", i)
		}
	}
}

// TestReadByName checks that the name of a file is as good as its key, unless two have it.
func TestReadByName(t *testing.T) {
	tn := readTurn()
	d, _, _, err := decide(t, tn, llmtest.Text(reading("notes.txt", -1, "")), llmtest.Text(hello))
	if want := []llm.Read{{Key: "f1", From: -1}}; err != nil || d.Repairs != 0 || !slices.Equal(d.Reads, want) {
		t.Errorf("decided %+v, %v; want to read %v", d, err, want)
	}
	tn.Files = append(tn.Files, prompt.File{Key: "f4", Name: "notes.txt", Type: "text/plain", Size: 9, Head: "other"})
	d, _, c, err := decide(t, tn, llmtest.Text(reading("notes.txt", -1, "")), llmtest.Text(hello))
	if err != nil || d.Repairs != 1 || !strings.Contains(lastOf(c.Requests()[1]), `nothing has the key "notes.txt"`) {
		t.Errorf("decided %+v, %v; want a correction", d, err)
	}
}

// TestReadIsCorrected checks that a wish to read that cannot be granted is a correction, and that of what it says.
func TestReadIsCorrected(t *testing.T) {
	whole := turn()
	whole.Waiting = nil
	for name, test := range map[string]struct {
		turn  *llm.Turn
		reply string
		want  string
	}{
		"no object":        {readTurn(), `{"kind":"read","say":null,"delegations":[],"read":null,"reason":""}`, `"read" is null`},
		"not an object":    {readTurn(), `{"kind":"read","say":null,"delegations":[],"read":"f1","reason":""}`, `"read" has the wrong form`},
		"unknown key":      {readTurn(), reading("f9", 1, ""), `nothing has the key "f9"; those that can be read are ["` + logKey + `" "f1" "f3"]`},
		"no key":           {readTurn(), reading("", 1, ""), `nothing has the key ""`},
		"no text":          {readTurn(), reading("f2", 1, ""), `"f2" is no text`},
		"file gone":        {readTurn(), reading("f3", 1, ""), `"f3" cannot be read: the file is gone`},
		"find too long":    {readTurn(), reading("f1", 0, strings.Repeat("x", 201)), `"find" is 201 bytes`},
		"find of lines":    {readTurn(), reading("f1", 0, "a\nb"), `"find" has a line end`},
		"nothing to read":  {whole, reading("f1", 1, ""), "there is nothing to read"},
		"files not opened": {func() *llm.Turn { tn := readTurn(); tn.Open = nil; return tn }(), reading("f1", 1, ""), "files cannot be read here"},
	} {
		t.Run(name, func(t *testing.T) {
			d, _, c, err := decide(t, test.turn, llmtest.Text(test.reply), llmtest.Text(hello))
			if err != nil || d.Repairs != 1 || len(d.Reads) > 0 {
				t.Fatalf("decided %+v, %v; want one correction", d, err)
			}
			if got := lastOf(c.Requests()[1]); !strings.Contains(got, test.want) {
				t.Errorf("the model is told, without %q:\n%s", test.want, got)
			}
		})
	}
}

// TestReadIsBounded checks that a fourth read of a decision is refused, and that a canceled one ends.
func TestReadIsBounded(t *testing.T) {
	again := llmtest.Text(reading(logKey, 1, ""))
	d, _, c, err := decide(t, readTurn(), again, again, again, again, llmtest.Text(hello))
	if err != nil || len(d.Reads) != prompt.MaxReads || d.Repairs != 1 {
		t.Errorf("decided %+v, %v", d, err)
	}
	if got := lastOf(c.Requests()[4]); !strings.Contains(got, "you have read 3 times for this decision") {
		t.Errorf("the model is told:\n%s", got)
	}
	tn := readTurn()
	ctx, cancel := context.WithCancel(t.Context())
	tn.Open = func(context.Context, string, int64) ([]byte, error) {
		cancel()
		return nil, errors.New("stopped")
	}
	if _, err := llm.NewDecider(llmtest.Script(llmtest.Text(reading("f1", 1, "")), again, again), templates(t), nil).Decide(ctx, tn, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled read ends with %v", err)
	}
}

// TestReadWithoutRoom checks that a part leaves room for the answer.
func TestReadWithoutRoom(t *testing.T) {
	c := llmtest.Script(llmtest.Text(reading(logKey, 1, "")), llmtest.Text(hello))
	tn := readTurn()
	first, err := templates(t).Render(&tn.Input)
	if err != nil {
		t.Fatal(err)
	}
	size := len(first.System)
	for _, m := range first.Messages {
		size += len(m.Text)
	}
	window := size/3 + 600
	if _, err := llm.NewDecider(c, templates(t), &llm.DeciderOptions{Window: window}).Decide(t.Context(), tn, nil); err != nil {
		t.Fatal(err)
	}
	if got := len(lastOf(c.Requests()[1])); got > 1500 {
		t.Errorf("the part has %d bytes, although the window has little room", got)
	}
}

// TestReadOnTheLastStep checks that a model may read before its last answer, and that the schema then has no delegations.
func TestReadOnTheLastStep(t *testing.T) {
	tn := readTurn()
	tn.Last = true
	d, _, c, err := decide(t, tn, llmtest.Text(`{"kind":"read","say":null,"read":{"key":"`+logKey+`","from":-2,"find":null},"reason":""}`), llmtest.Text(hello))
	if err != nil || d.Kind != llm.KindRespond || d.Repairs != 0 {
		t.Fatalf("decided %+v, %v", d, err)
	}
	if got := lastOf(c.Requests()[1]); !strings.Contains(got, "says nothing\nthe end is 42") {
		t.Errorf("the model is told:\n%s", got)
	}
	if schema := string(c.Requests()[0].Schema); strings.Contains(schema, "delegations") || !strings.Contains(schema, `"enum":["respond","clarify","refuse","read"]},"say":{"type":["string","null"]`) {
		t.Errorf("schema of the last step: %s", schema)
	}
}

// TestResultGoesAlong checks that a delegation may name a result, by each form of its key, and no other.
func TestResultGoesAlong(t *testing.T) {
	tn := readTurn()
	d := &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: "a", Agent: "agent_echo", Task: "t", Files: []string{logKey}}}}
	if err := llm.Check(tn, d); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"a2a/agent_calc/51ab7cd3/result", "a2a/agent_echo/51ab7cd2/result", "a2a/agent_calc/51ab/result"} {
		d.Delegations[0].Files = []string{key}
		if err := llm.Check(tn, d); !errors.Is(err, llm.ErrInvalidDecision) {
			t.Errorf("%s may go along: %v", key, err)
		}
	}
}
