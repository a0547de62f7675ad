package llm_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
)

func TestParseDecision(t *testing.T) {
	respond := &llm.Decision{Kind: llm.KindRespond, Say: "hi"}
	input := func(raw string) *llm.Decision {
		return &llm.Decision{Kind: "delegate", Delegations: []llm.Delegation{{ID: "a", Input: json.RawMessage(raw)}}}
	}
	for _, c := range []struct {
		name, in string
		want     *llm.Decision
	}{
		{"plain", `{"kind":"respond","say":"hi"}`, respond},
		{
			"all", `{"kind":"delegate","say":null,"delegations":[{"id":"a","agent":"b","skill":null,"task":"t","input":null,"depends_on":["c"]}],"reason":"r"}`,
			&llm.Decision{Kind: "delegate", Reason: "r", Delegations: []llm.Delegation{{ID: "a", Agent: "b", Task: "t", DependsOn: []string{"c"}}}},
		},
		{"nulls", `{"kind":"respond","say":"hi","delegations":null,"reason":null}`, respond},
		{"fence", "```json\n{\"kind\":\"respond\",\"say\":\"hi\"}\n```", respond},
		{"prose", "Sure! Here it is:\n{\"kind\":\"respond\",\"say\":\"hi\"}\nAnything \"else\"? {no}", respond},
		{"first of two", `{"kind":"respond","say":"hi"} {"kind":"refuse","say":"no"}`, respond},
		{"braces in strings", `{"kind":"respond","say":"a } \" { b"}`, &llm.Decision{Kind: "respond", Say: `a } " { b`}},
		{"unknown keys", `{"thinking":{"a":[1,{}]},"kind":"respond","say":"hi","SAY":"no"}`, respond},
		{"own usage", `{"kind":"respond","say":"hi","usage":{"input":7},"model":"x","repairs":9}`, respond},
		{"input as text", `{"kind":"delegate","delegations":[{"id":"a","input":"{\"n\": 1}"}]}`, input(`{"n": 1}`)},
		{"input as object", `{"kind":"delegate","delegations":[{"id":"a","input":{"n": 1}}]}`, input(`{"n": 1}`)},
		{"input empty", `{"kind":"delegate","delegations":[{"id":"a","input":" "}]}`, input("")},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := llm.ParseDecision(c.in)
			if err != nil {
				t.Fatal(err)
			}
			for i := range c.want.Delegations {
				if len(c.want.Delegations[i].Input) == 0 {
					c.want.Delegations[i].Input = nil
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("ParseDecision (-want +got):\n%s", diff)
			}
		})
	}
	for _, c := range []struct{ name, in, want string }{
		{"empty", " \n", "the reply is empty"},
		{"prose only", "I cannot do that.", `"I cannot do that." has no JSON object`},
		{"cut", `{"kind":"respond","say":"hi`, "is not complete"},
		{"array", `["a"]`, "has no JSON object"},
		{"no kind", `{"say":"hi"}`, `has no "kind"`},
		{"wrong case", `{"Kind":"respond"}`, `has no "kind"`},
		{"twice", `{"kind":"respond","say":"a","say":"b"}`, `the key "say" twice`},
		{"not JSON", `{kind: respond}`, "is not a decision"},
		{"no comma", `{"kind":"respond" "say":"x"}`, "is not a decision"},
		{"wrong type", `{"kind":"respond","say":["hi"]}`, `"say" has the wrong form: "[\"hi\"]"`},
		{"wrong type inside", `{"kind":"delegate","delegations":[{"id":1}]}`, `"delegations" has the wrong form`},
		{"input no JSON", `{"kind":"delegate","delegations":[{"id":"a","input":"{n"}]}`, `delegation "a": input "{n" is not a JSON text`},
		{"large", `{"kind":"` + strings.Repeat("x", 1<<20) + `"}`, "at most 1048576"},
		{"deep", `{"kind":"respond","x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, "is not a decision"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := llm.ParseDecision(c.in)
			if !errors.Is(err, llm.ErrInvalidDecision) || !strings.Contains(err.Error(), c.want) || got != nil {
				t.Errorf("ParseDecision = %v, %v, want an ErrInvalidDecision with %q", got, err, c.want)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func FuzzParseDecision(f *testing.F) {
	f.Add("```json\n{\"kind\":\"delegate\",\"say\":null,\"delegations\":[{\"id\":\"a\",\"input\":\"{}\"}],\"reason\":\"\"}")
	f.Add(`{"kind":"respond","say":"\ud83d\ude00\u0000"} {`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := llm.ParseDecision(text)
		if err != nil {
			if !errors.Is(err, llm.ErrInvalidDecision) {
				t.Errorf("ParseDecision(%q) = %v", text, err)
			}
			return
		}
		if d.Model != "" || d.Repairs != 0 || d.Usage != (llm.Usage{}) {
			t.Errorf("ParseDecision(%q) = %+v: written by the model", text, d)
		}
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatalf("decision of %q does not encode: %v", text, err)
		}
		if _, err := llm.ParseDecision(string(b)); err != nil {
			t.Errorf("decision of %q, encoded as %s, does not parse: %v", text, b, err)
		}
		_ = llm.Check(turn(), d)
	})
}
