package llm_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

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
		{"prose with braces", "I use {agent} and {\"a\":1}: {\"kind\":\"respond\",\"say\":\"hi\"}", respond},
		{"line ends in strings", "{\"kind\":\"respond\",\n\"say\":\"a\n\tb \\\" c\"}", &llm.Decision{Kind: "respond", Say: "a\n\tb \" c"}},
		{"first of two", `{"kind":"respond","say":"hi"} {"kind":"refuse","say":"no"}`, respond},
		{"braces in strings", `{"kind":"respond","say":"a } \" { b"}`, &llm.Decision{Kind: "respond", Say: `a } " { b`}},
		{"unknown keys", `{"thinking":{"a":[1,{}]},"kind":"respond","say":"hi","SAY":"no"}`, respond},
		{"own usage", `{"kind":"respond","say":"hi","usage":{"input":7},"model":"x","repairs":9}`, respond},
		{"input as text", `{"kind":"delegate","delegations":[{"id":"a","input":"{\"n\": 1}"}]}`, input(`{"n":1}`)},
		{"input as object", `{"kind":"delegate","delegations":[{"id":"a","input":{"n": 1}}]}`, input(`{"n":1}`)},
		{"input as the log keeps it", `{"kind":"delegate","delegations":[{"id":"a","input":"\t[\"<\u00e9\"] "}]}`, input(`["\u003cé"]`)},
		{"input no UTF-8", "{\"kind\":\"delegate\",\"delegations\":[{\"id\":\"a\",\"input\":[\"\xff\"]}]}", input("[\"\ufffd\"]")},
		{"input of some depth", `{"kind":"delegate","delegations":[{"id":"a","input":` + nested(100) + `}]}`, input(nested(100))},
		{"null lists", `{"kind":"delegate","delegations":[{"id":"a","files":null,"depends_on":null}]}`, input("")},
		{
			"files", `{"kind":"delegate","delegations":[{"id":"a","files":["f1"]},{"id":"b","files":[]}]}`,
			&llm.Decision{Kind: "delegate", Delegations: []llm.Delegation{{ID: "a", Files: []string{"f1"}}, {ID: "b", Files: []string{}}}},
		},
		{"thoughts", "\n<think>\n{\"kind\":\"refuse\"} or <think>?\n</think>\n\n{\"kind\":\"respond\",\"say\":\"hi\"}", respond},
		{"thoughts twice", `<think></think> <think>{</think>{"kind":"respond","say":"hi"}`, respond},
		{"thoughts and a fence", "<think>{}</think>\n```json\n{\"kind\":\"respond\",\"say\":\"hi\"}\n```", respond},
		{"thoughts in what is said", `{"kind":"respond","say":"<think>{</think>"}`, &llm.Decision{Kind: "respond", Say: "<think>{</think>"}},
		{"thoughts that begin in the prompt", `I use {kind, say}: {"kind":"refuse","say":"no"}? No.` + "\n</think>\n\n" + `{"kind":"respond","say":"hi"}`, respond},
		{"thoughts that begin in the prompt, twice", "a</think>b</think>Sure: {\"kind\":\"respond\",\"say\":\"hi\"}", respond},
		{"thoughts with half an object", `Maybe {"kind":"refuse","say":"no` + "</think></think>\n```json\n{\"kind\":\"respond\",\"say\":\"hi\"}\n```", respond},
		{"thoughts behind an object", `a {"say":"</think>"} b</think>{"kind":"respond","say":"hi"}`, respond},
		{"a mark behind the decision", `{"kind":"respond","say":"hi"}</think>{"kind":"refuse","say":"no"}`, respond},
		{"a mark in what is said", `Sure: {"kind":"respond","say":"<think>{</think>"}`, &llm.Decision{Kind: "respond", Say: "<think>{</think>"}},
		{"Mistral's thoughts", `[THINK]{"kind":"refuse"}[/THINK]{"kind":"respond","say":"hi"}`, respond},
		{"thinking", ` <thinking>{"kind":"refuse"}</think></thinking>{"kind":"respond","say":"hi"}`, respond},
		{"thought", `<thought>{"kind":"refuse"}</thought>{"kind":"respond","say":"hi"}`, respond},
		{
			"harmony with thoughts",
			`<|channel|>analysis<|message|>{"kind":"refuse"}<|end|><|start|>assistant<|channel|>final<|message|>{"kind":"respond","say":"hi"}<|return|>`, respond,
		},
		{
			"keys of another case in a delegation", `{"kind":"delegate","delegations":[{"id":"a","agent":"b","AGENT":"c","tasK":"d","Depends_On":["e"]}]}`,
			&llm.Decision{Kind: "delegate", Delegations: []llm.Delegation{{ID: "a", Agent: "b"}}},
		},
		{"harmony", `<|channel|>final<|message|>{"kind":"respond","say":"hi"}<|return|>`, respond},
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
		{"a broken decision before another one", `{"kind":"refuse" "say":"no"} {"kind":"respond","say":"hi"}`, "is not a decision"},
		{"a decision within a broken one", `{"kind":"delegate","say":"a","say":"b","delegations":[{"input":{"kind":"respond","say":"hi"}}]}`, `the key "say" twice`},
		{"braces without end", strings.Repeat("{}", 17) + `{"kind":"respond","say":"hi"}`, `has no "kind"`},
		{"not JSON", `{kind: respond}`, "is not a decision"},
		{"no comma", `{"kind":"respond" "say":"x"}`, "is not a decision"},
		{"wrong type", `{"kind":"respond","say":["hi"]}`, `"say" has the wrong form: "[\"hi\"]"`},
		{"say is an object", `{"kind":"respond","say":{"text":"hi"}}`, `"say" has the wrong form: "{\"text\":\"hi\"}"`},
		{"say is a number", `{"kind":"respond","say":7}`, `"say" has the wrong form: "7"`},
		{"delegations are no list", `{"kind":"delegate","delegations":{"id":"a"}}`, `"delegations" has the wrong form: "{\"id\":\"a\"}"`},
		{"delegation is a word", `{"kind":"delegate","delegations":["agent_echo"]}`, `"delegations" has the wrong form: "[\"agent_echo\"]"`},
		{"wrong type inside", `{"kind":"delegate","delegations":[{"id":"a"},{"id":1}]}`, `delegation 2: "id" cannot be a JSON number`},
		{"wrong type behind the id", `{"kind":"delegate","delegations":[{"task":[],"id":"a"}]}`, `delegation "a": "task" cannot be a JSON array`},
		{"wrong files", `{"kind":"delegate","delegations":[{"files":"f1"}]}`, `delegation 1: "files" cannot be a JSON string`},
		{"wrong list inside", `{"kind":"delegate","delegations":[{"depends_on":{}}]}`, `delegation 1: "depends_on" cannot be a JSON object`},
		{"a key of a delegation twice", `{"kind":"delegate","delegations":[{"id":"a"},{"id":"b","agent":"c","agent":"d"}]}`, `delegation 2: it has the key "agent" twice`},
		{"too many", `{"kind":"delegate","delegations":[` + strings.Repeat("{},", 1000) + `{}]}`, `more than 1000 delegations`},
		{"input no JSON", `{"kind":"delegate","delegations":[{"id":"a","input":"{n"}]}`, `delegation "a": input "{n" is not a JSON text`},
		{"input text in text", `{"kind":"delegate","delegations":[{"id":"a","input":"\"n\""}]}`, `input "\"n\"" is not a JSON text`},
		{"input too deep", `{"kind":"delegate","delegations":[{"id":"a","input":"` + nested(101) + `"}]}`, `is nested deeper than 100 levels`},
		{"thoughts without an end", `<think> {"kind":"respond","say":"hi"}`, "thoughts but no decision behind them"},
		{"thoughts only", `<think> {"kind":"respond","say":"hi"} </think>`, "thoughts but no decision behind them"},
		{"no decision behind the thoughts", `{hm} </think>`, "is not a decision"},
		{"nothing behind the thoughts", `Well, {hm} </think>`, "thoughts but no decision behind them"},
		{"braces", strings.Repeat("{", 1<<20), "is not complete"},
		{"objects", strings.Repeat(`{"a":`, 1<<17), "is not complete"},
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

// TestParseDecisionIsFast checks that for any mixture of marks, braces and quotes the time to parse a reply is not quadratic: a sixteenth of the text takes
// a sixteenth of the time or so, and not a part in 256. What else the machine does may lengthen one of several tries.
func TestParseDecisionIsFast(t *testing.T) {
	const part, tries = 16, 5
	for _, piece := range []string{
		"</think>x", "x{</think>", `x{"":["</think>x",`, `{ {"</think>`, `x{"`, "<", "[/", "<think></think>", `x{"a":"</think>"}`, `x{"a":"</think>`,
	} {
		parse := func(size int) time.Duration {
			reply := "x" + strings.Repeat(piece, size/len(piece)-1)
			start := time.Now()
			if _, err := llm.ParseDecision(reply); err == nil {
				t.Errorf("%q, again and again, is a decision", piece)
			}
			return time.Since(start)
		}
		least := 0.0
		for try := range tries {
			short, whole := parse(llm.MaxDecision/part), parse(llm.MaxDecision)
			if times := float64(whole) / float64(short); try == 0 || times < least {
				least = times
			}
			if least < part*part/2 {
				break
			}
		}
		if least >= part*part/2 {
			t.Errorf("%q, again and again: %d times as much takes %.0f times as long", piece, part, least)
		}
	}
}

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

// FuzzParseDecision checks that an accepted decision does not change when encoded as JSON and back.
func FuzzParseDecision(f *testing.F) {
	f.Add("```json\n{\"kind\":\"delegate\",\"say\":null,\"delegations\":[{\"id\":\"a\",\"input\":\"{}\"}],\"reason\":\"\"}")
	f.Add(`{"kind":"respond","say":"\ud83d\ude00\u0000"} {`)
	f.Add("<think>{</think> {\"kind\":\"delegate\",\"delegations\":[{\"id\":\"a\",\"input\":[1, \"<\xff\"],\"depends_on\":[\"b\"]}, null]}")
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
		var logged llm.Decision
		if err := json.Unmarshal(b, &logged); err != nil {
			t.Fatalf("decision of %q, encoded as %s, does not decode: %v", text, b, err)
		}
		if diff := cmp.Diff(d, &logged); diff != "" {
			t.Errorf("decision of %q after the log (-want +got):\n%s", text, diff)
		}
		if again, err := llm.ParseDecision(string(b)); len(b) <= llm.MaxDecision && (err != nil || !cmp.Equal(d, again)) {
			t.Errorf("decision of %q, encoded as %s, parses as %+v, %v", text, b, again, err)
		}
		_ = llm.Check(turn(), d)
	})
}
