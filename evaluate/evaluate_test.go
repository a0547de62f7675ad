package evaluate_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/evaluate"
)

// Personal data is redacted, and what only looks like it is not.
func TestPersonal(t *testing.T) {
	all, err := evaluate.Parse(json.RawMessage(`["no_pii"]`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"mail ada.l@mail.example.org now":       "mail [no_pii] now",
		"card 4111 1111 1111 1111, please":      "card [no_pii], please",
		"pay to DE89 3704 0044 0532 0130 00":    "pay to [no_pii]",
		"her number is 078-05-1120":             "her number is [no_pii]",
		"call +49 30 901820 today":              "call [no_pii] today",
		"in 2024, 3 of 10 took 15 minutes":      "in 2024, 3 of 10 took 15 minutes",
		"version 1.2.3 of pkg@latest, 12:30:05": "version 1.2.3 of pkg@latest, 12:30:05",
	} {
		texts := []string{text}
		verdicts, err := evaluate.Check(t.Context(), all, nil, "", texts)
		got := texts[0]
		if err != nil || got != want {
			t.Errorf("%q becomes %q, %v, want %q", text, got, err, want)
		}
		if passed := verdicts[0].Pass; passed != (text == want) {
			t.Errorf("%q passes: %v", text, passed)
		}
	}
}

// Evaluators apply in order, up to the first that stops the result.
func TestOrder(t *testing.T) {
	all, err := evaluate.Parse(json.RawMessage(`{"a_names":{"rules":["Ada"],"action":"redact"},"b_length":{"threshold":0.5},"c_words":{"rules":["secret"],"action":"ask"},"d":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	var judged []string
	judge := func(_ context.Context, task, output string, criteria []string) (float64, string, error) {
		judged = append(judged, task+"|"+output+"|"+strings.Join(criteria, ","))
		return 0.5, "could be shorter", nil
	}
	texts := []string{"Ada has a secret"}
	verdicts, err := evaluate.Check(t.Context(), all, judge, "who?", texts)
	got := texts[0]
	if err != nil || got != "[a_names] has a secret" {
		t.Errorf("got %q, %v", got, err)
	}
	if diff := cmp.Diff([]string{"who?|[a_names] has a secret|b length"}, judged); diff != "" {
		t.Errorf("judged (-want +got):\n%s", diff)
	}
	want := []evaluate.Verdict{
		{Evaluator: "a_names", Advice: "a rule matches it", Action: evaluate.Redact},
		{Evaluator: "b_length", Pass: true, Score: 0.5},
		{Evaluator: "c_words", Advice: "a rule matches it", Action: evaluate.Ask},
	}
	if diff := cmp.Diff(want, verdicts); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
}

// A judge that cannot judge lets nothing pass.
func TestJudgeFails(t *testing.T) {
	all, err := evaluate.Parse(json.RawMessage(`["relevance"]`))
	if err != nil {
		t.Fatal(err)
	}
	away := errors.New("away")
	if _, err := evaluate.Check(t.Context(), all, func(context.Context, string, string, []string) (float64, string, error) { return 1, "", away }, "", []string{"x"}); !errors.Is(err, away) {
		t.Errorf("Check() = %v", err)
	}
}

// A configuration that cannot be used says why.
func TestParseWrong(t *testing.T) {
	for text, want := range map[string]string{
		`7`:                         "want a list",
		`{"x":{"action":"shout"}}`:  "redact, fail or ask",
		`{"x":{"threshold":2}}`:     "from 0 to 1",
		`{"x":{"rules":["("]}}`:     "no regular expression",
		`{"x":{"action":"redact"}}`: "a model cannot redact",
		`{"x":{"rule":["a"]}}`:      `x: unknown field "rule"`,
		`{"x":{"rules":["a"],"judge":"it is short"}}`: "x: it has rules and a judge",
	} {
		if _, err := evaluate.Parse(json.RawMessage(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%s) = %v, want %q", text, err, want)
		}
	}
}

// Rules stop with their context: a long text takes seconds for each.
func TestRulesStop(t *testing.T) {
	all, err := evaluate.Parse(json.RawMessage(`{"a":{"rules":["a","b"],"action":"redact"}}`))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("it ends")
	stop(why)
	if verdicts, err := evaluate.Check(ctx, all, nil, "", []string{"ab"}); !errors.Is(err, why) || len(verdicts) > 0 {
		t.Errorf("got %v, %v", verdicts, err)
	}
}

// Strings of a value can be set in their order, keys after what they name.
func TestStrings(t *testing.T) {
	var value any
	if err := json.Unmarshal([]byte(`{"a":{"b":["c",1,"d"]},"":"e"}`), &value); err != nil {
		t.Fatal(err)
	}
	for _, s := range evaluate.Strings(value, func(string) { t.Error("the value is no string") }) {
		s.Set(s.Text + "!")
	}
	b, err := json.Marshal(value)
	if want := `{"":"e!","a!":{"b!":["c!",1,"d!"]}}`; err != nil || string(b) != want {
		t.Errorf("got %s, %v, want %s", b, err, want)
	}
	evaluate.Strings("x", func(text string) { value = text })[0].Set("y")
	if value != "y" {
		t.Errorf("got %v", value)
	}
}

// TestNestedStrings lists the strings of deeply nested data: what is allocated does not grow with the depth of each.
func TestNestedStrings(t *testing.T) {
	const depth, strings = 500, 100_000
	inner := make([]any, strings)
	for i := range inner {
		inner[i] = "a"
	}
	var root any = inner
	for range depth {
		root = []any{root}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	all := evaluate.Strings(root, func(string) {})
	runtime.ReadMemStats(&after)
	if len(all) != strings {
		t.Errorf("got %d strings", len(all))
	}
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 200 {
		t.Errorf("%d MB were allocated", got)
	}
}
