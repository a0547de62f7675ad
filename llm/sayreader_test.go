package llm

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func streamed(pieces ...string) string {
	var b strings.Builder
	r := newSayReader(func(s string) { b.WriteString(s) })
	for _, p := range pieces {
		r.write(p)
	}
	return b.String()
}

func TestSayReader(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"kind":"respond","say":"hello"}`, "hello"},
		{"\n```json\n{ \"kind\" : \"clarify\" ,\n \"say\" : \"a b\" , \"reason\":\"say\"}", "a b"},
		{"```\r\n\n{\"kind\":\"clarify\",\"say\":\"yes\"}", "yes"},
		{"```json {\"kind\":\"clarify\",\"say\":\"not shown early\"}", ""},
		{"```json\nSure: {\"kind\":\"clarify\",\"say\":\"not shown early\"}", ""},
		{"Sure:\n```json\n{\"kind\":\"clarify\",\"say\":\"not shown early\"}", ""},
		{`{"kind":"refuse","say":"\"\\\/\b\f\n\r\t\u0041\u00e9\u65e5\ud83d\ude00"}`, "\"\\/\b\f\n\r\tAé日😀"},
		{`{"kind":"respond","say":"日本語 é 😀"}`, "日本語 é 😀"},
		{`{"kind":"respond","say":"\ud83dx\ud83d\n\ude00\ud83d\ud83d\ude00\ud83dé\ud83d"}`, "\ufffdx\ufffd\n\ufffd\ufffd😀\ufffdé\ufffd"},
		{"{\"kind\":\"respond\",\"say\":\"\xff\xe6\x97x\xe6\xf0\x9f\"}", "\ufffd\ufffd\ufffdx\ufffd\ufffd\ufffd"},
		{`{"x":{"say":"no","y":["}\"",{}]},"n":-1.5e3,"b":true,"kind":"respond","s":"t\"","say":"yes"}`, "yes"},
		{`{"\u006bind":"\u0072espond","s\u0061y":"yes"}`, "yes"},
		{`{"kind":"delegate","say":"no"}`, ""},
		{`{"say":"no","kind":"respond"}`, ""},
		{`{"kind":"other","say":"no"}`, ""},
		{`{"kind":1,"say":"no"}`, ""},
		{`{"kind":"respond","say":null,"reason":"no"}`, ""},
		{`{"kind":"respond","say":["no"]}`, ""},
		{`{"kind":"respond","say":"yes"} {"kind":"respond","say":"no"}`, "yes"},
		{`{"kind":"respond"} {"say":"no"}`, ""},
		{`{"kind":"respond","say":"cut of`, "cut of"},
		{`{"kind":"respond" "say":"no"}`, ""},
		{`no object`, ""},
		{"<think>\nNot {\"kind\":\"refuse\",\"say\":\"no\"}. </think\n</think>\n\n{\"kind\":\"respond\",\"say\":\"yes\"}", "yes"},
		{` <think></think><think>{<</think> {"kind":"respond","say":"<think>yes</think>"}`, "<think>yes</think>"},
		{`<think>{"kind":"respond","say":"no"}`, ""},
		{`<think>{"kind":"respond","say":"no"}</think>`, ""},
		{`<thin{"kind":"respond","say":"not shown early"}`, ""},
		{`<<think>{"kind":"respond","say":"no"}</think>`, ""},
		{`Well: <think>{"kind":"respond","say":"no"}</think>{"kind":"respond","say":"yes"}`, "yes"},
		{`I use {kind, say}, {"kind":"respond","say":"no"}?</think> {"kind":"respond","say":"yes"}`, "yes"},
		{`</think>{"kind":"respond","say":"yes"}`, "yes"},
		{"<</think>```json\n{\"kind\":\"respond\",\"say\":\"yes\"}", "yes"},
		{"```</think>{\"kind\":\"respond\",\"say\":\"yes\"}", "yes"},
		{`a</think>b</think>{"kind":"respond","say":"yes"} c</think>{"kind":"respond","say":"no"}`, "yes"},
		{`a</think><thought>{"kind":"respond","say":"no"}</think></thought>{"kind":"respond","say":"yes"}`, "yes"},
		{`[THINK]{"kind":"respond","say":"no"}[/THINK]{"kind":"respond","say":"yes"}`, "yes"},
		{`<thinking>{</think></thinking>{"kind":"respond","say":"yes"}`, "yes"},
		{
			`<|channel|>analysis<|message|>{"kind":"respond","say":"no"}<|end|><|start|>assistant<|channel|>final<|message|>{"kind":"respond","say":"yes"}<|return|>`,
			"yes",
		},
		{`Sure: {"kind":"respond","say":"The mark is </think> {\"a\":1}"}`, ""},
		{`Sure: {"a":"</think>{"} ":1,"kind":"respond","say":"no"} </think>{"kind":"respond","say":"not shown early"}`, ""},
		{`Sure: {"a":"</think><think>"} <thinking></thinking>{"kind":"respond","say":"not shown early"}</think>{"kind":"respond","say":"no"}`, ""},
		{`{"kind":"respond",say:"no"}`, ""},
		{`{"kind""respond","say":"no"}`, ""},
		{`{"kind":,"say":"no"}`, ""},
	} {
		if got := streamed(c.in); got != c.want {
			t.Errorf("streamed(%q) = %q, want %q", c.in, got, c.want)
		}
		for i := range c.in {
			if got := streamed(c.in[:i], c.in[i:]); got != c.want {
				t.Errorf("streamed(%q, %q) = %q, want %q", c.in[:i], c.in[i:], got, c.want)
			}
		}
		if got := streamed(strings.Split(c.in, "")...); got != c.want {
			t.Errorf("streamed(%q by character) = %q, want %q", c.in, got, c.want)
		}
		pieces := make([]string, 0, len(c.in))
		for i := range len(c.in) {
			pieces = append(pieces, c.in[i:i+1])
		}
		if got := streamed(pieces...); got != c.want {
			t.Errorf("streamed(%q by byte) = %q, want %q", c.in, got, c.want)
		}
	}
}

// TestSayReaderIsPrompt checks that text is emitted as soon as possible: each piece of the reply gives what is complete in it.
func TestSayReaderIsPrompt(t *testing.T) {
	var got []string
	r := newSayReader(func(s string) { got = append(got, s) })
	for _, p := range []string{`{"kind":"respond","say":"a`, `b\`, `n`, "\xc3", "\xa9", `\ud83d`, `\ude00`, `c"`, `}`} {
		r.write(p)
	}
	if s := strings.Join(got, "|"); s != "a|b|\n|é|😀|c" {
		t.Errorf("pieces = %q", s)
	}
}

// TestSayReaderAgreesWithParseDecision checks that for any mixture of marks, braces and quotes only the decision's text is emitted.
func TestSayReaderAgreesWithParseDecision(t *testing.T) {
	pieces := []string{
		"{", "}", "[", "]", `"`, `"`, ":", ",", `\`, "\n", " ", "x", "<", "`", "```", "json", "kind", `"kind":`, `"respond",`, `"say":`, `"a"`, `"b"}`,
		`{"kind":"respond","say":"a"}`, `{"kind":"respond","say":"b"}`, `{"x":"`, `"}`, `{"a":"</think>`,
	}
	for _, m := range thoughtMarks {
		pieces = append(pieces, m.start, m.end)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50_000 {
		var b strings.Builder
		for range 1 + rnd.IntN(24) {
			b.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		b.WriteString(`{"kind":"respond","say":"c"}`)
		text := b.String()
		if d, err := ParseDecision(text); err == nil {
			if got := streamed(text); got != "" && got != d.Say {
				t.Fatalf("streamed(%q) = %q, want %q", text, got, d.Say)
			}
		}
		if reply := withoutThoughts(text); withoutThoughts(reply) != reply {
			t.Fatalf("withoutThoughts(%q) = %q, which has thoughts", text, reply)
		}
	}
}

// FuzzSayReader compares with encoding/json: of an accepted reply, only its text is emitted.
func FuzzSayReader(f *testing.F) {
	f.Add(`{"kind":"respond","say":"\ud83d\ude00\u00e9 \"x\""}`, "", 20)
	f.Add(`{"a":[{"b":"]"}],"kind":"clarify","say":"日本"}`, "no {\"kind\":\"respond\",\"say\":\"x\"} </think", 3)
	f.Add(`a {"b":"</think>{"} ":1} <thought></think>{"kind":"respond","say":"x"}`, "", 30)
	f.Add("{[THINK]```json\n{</think>```json\n{\"kind\":\"respond\",\"say\":\"</think>\"}", "{", 12)
	f.Add(` <think> <think>{</think>{"kind":"refuse","say":"<think>"}`, "<", 30)
	f.Fuzz(func(t *testing.T, text, thought string, at int) {
		at = min(max(at, 0), len(text))
		got := streamed(text[:at], text[at:])
		if whole := streamed(text); whole != got {
			t.Errorf("streamed(%q) = %q, in two pieces %q", text, whole, got)
		}
		d, err := ParseDecision(text)
		if err == nil && got != "" && got != d.Say {
			t.Errorf("streamed(%q) = %q, want %q", text, got, d.Say)
		}
		if err == nil && d.Kind == KindDelegate && got != "" {
			t.Errorf("streamed(%q) = %q of a delegation", text, got)
		}
		// Thoughts before it change nothing.
		if block := "<think>" + thought + "</think>"; !strings.Contains(thought, "</think>") && len(block)+len(text) <= MaxDecision {
			if said := streamed(block+text[:at], text[at:]); said != got {
				t.Errorf("streamed(%q) = %q, with the thoughts %q %q", text, got, thought, said)
			}
			behind, errBehind := ParseDecision(block + text)
			if (err == nil) != (errBehind == nil) || !cmp.Equal(d, behind) {
				t.Errorf("ParseDecision(%q) = %+v, %v, with the thoughts %q %+v, %v", text, d, err, thought, behind, errBehind)
			}
			if said := streamed("<think>" + thought); said != "" {
				t.Errorf("streamed %q of the thoughts %q", said, thought)
			}
		}
		// The text as the content of a string, which need not be valid.
		var want string
		reply := `{"kind":"respond","say":"` + text + `"}`
		if json.Unmarshal([]byte(`"`+text+`"`), &want) == nil {
			if got := streamed(reply[:at], reply[at:]); got != want {
				t.Errorf("streamed(%q) = %q, want %q", reply, got, want)
			}
		}
	})
}
