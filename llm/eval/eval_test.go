package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/fake"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/prompt"
)

func ownCases(t testing.TB) []Case {
	t.Helper()
	cases, err := Own()
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestOwn checks that there are 150 cases, the same situations in each of five languages.
func TestOwn(t *testing.T) {
	about := map[string][]string{}
	for _, c := range ownCases(t) {
		about[c.Language] = append(about[c.Language], c.About)
	}
	for language, list := range about {
		if len(list) != 30 || !slices.Equal(list, about["en"]) {
			t.Errorf("%s has %d cases, about %q; want those of en, about %q", language, len(list), list, about["en"])
		}
	}
	if len(about) != 5 {
		t.Errorf("%d languages, want 5", len(about))
	}
}

// perfect returns a reply that is right in every part.
func perfect(c *Case) string {
	kind := c.Want.Kinds[0]
	reply := map[string]any{"kind": kind, "say": nil, "delegations": []any{}, "reason": "it is right"}
	if c.Last {
		delete(reply, "delegations")
	}
	if !kind.Delegates() {
		say := "Well. "
		for _, w := range c.Want.Say {
			say += strings.Split(w, "|")[0] + " "
		}
		reply["say"] = say
		return encode(reply)
	}
	var all []any
	for i, either := range c.Want.Agents {
		agent := strings.Split(either, "|")[0]
		id := fmt.Sprint("abcdefgh"[i : i+1])
		task := "Do it. "
		for _, w := range c.Want.Words[agent] {
			task += strings.Split(w, "|")[0] + " "
		}
		before := []string{}
		for _, pair := range c.Want.Order {
			if pair[1] == agent {
				before = append(before, fmt.Sprint("abcdefgh"[slices.Index(c.Want.Agents, pair[0]):slices.Index(c.Want.Agents, pair[0])+1]))
			}
		}
		d := map[string]any{"id": id, "agent": agent, "skill": nil, "task": task, "input": nil, "files": nil, "depends_on": before}
		if c.Want.Continues {
			d["id"] = "t1"
		}
		if fields := c.Want.Input[agent]; fields != nil {
			input := map[string]any{"title": task, "city": "x", "start": "x"}
			for k, v := range fields {
				if text, ok := v.(string); ok {
					v = strings.Split(text, "|")[0]
				}
				input[k] = v
			}
			d["input"] = encode(input)
		}
		all = append(all, d)
	}
	reply["delegations"] = all
	return encode(reply)
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// scripted returns a decider whose model gives these replies, with the real prompts and checks.
func scripted(t testing.TB, replies ...string) llm.Decider {
	t.Helper()
	templates, err := prompt.New("")
	if err != nil {
		t.Fatal(err)
	}
	var script []llmtest.Answer
	for _, r := range replies {
		script = append(script, llmtest.Answer{Text: r, Usage: llm.Usage{Input: 100, Cached: 60, Output: 10}})
	}
	return llm.NewDecider(llmtest.Script(script...), templates, nil)
}

// TestScripted decides all cases with a model that is always right: each is right, which shows that each can be solved, within the checks of decisions.
func TestScripted(t *testing.T) {
	cases := ownCases(t)
	var replies []string
	for i := range cases {
		replies = append(replies, perfect(&cases[i]))
	}
	all, err := Run(t.Context(), scripted(t, replies...), cases, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if !o.Verdict.Right() {
			t.Errorf("%s: %q, %v", o.Case, o.Verdict.Wrong, o.Decision)
		}
	}
	got := Summarize(all).All
	got.P50, got.P99 = 0, 0
	want := Row{
		Name: "all", Cases: 150, Right: 150, Kind: 150, Agents: 150, Order: 150, Arguments: 150, Say: 150,
		Usage: llm.Usage{Input: 15000, Cached: 9000, Output: 1500},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the sum (-want +got):\n%s", diff)
	}
}

// TestJudge takes something right away from each kind of case, and sees that it is missed, and that nothing else is.
func TestJudge(t *testing.T) {
	cases := ownCases(t)
	delegation := func(id, agent, task string, before ...string) llm.Delegation {
		return llm.Delegation{ID: id, Agent: agent, Task: task, DependsOn: before}
	}
	delegate := func(all ...llm.Delegation) *llm.Decision {
		return &llm.Decision{Kind: llm.KindDelegate, Delegations: all}
	}
	respond := func(say string) *llm.Decision { return &llm.Decision{Kind: llm.KindRespond, Say: say} }
	hotel := func(input string) *llm.Decision {
		d := delegation("a", "hotel", "book it")
		d.Input = json.RawMessage(input)
		return delegate(d)
	}
	for _, c := range []struct {
		id    string
		d     *llm.Decision
		wrong string // "" is right
		part  string
	}{
		{"en-04", delegate(delegation("a", "weather", "rain in Oslo tomorrow?")), "", ""},
		{"zh-04", delegate(delegation("a", "weather", "奥斯陆明天会下雨吗？")), "", ""},
		{"en-04", respond("No."), "kind respond, not delegate", "kind agents order arguments"},
		{"en-04", delegate(delegation("a", "news", "Oslo")), "agents [news], not [weather]", "agents order arguments"},
		{"en-04", delegate(delegation("a", "weather", "Oslo"), delegation("b", "news", "Oslo")), "agents [weather news], not [weather]", "agents order arguments"},
		{"en-04", delegate(delegation("a", "weather", "rain tomorrow?")), `the task of weather lacks "Oslo|奥斯陆"`, "arguments"},
		{"en-12", delegate(delegation("a", "clock", "Tokyo"), delegation("b", "weather", "Oslo")), "", ""},
		{"en-12", delegate(delegation("a", "clock", "Tokyo"), delegation("b", "weather", "Oslo", "a")), "weather waits for clock", "order"},
		{"en-15", delegate(delegation("a", "sales", "October"), delegation("b", "mail", "ana@example.com", "a")), "", ""},
		{"en-15", delegate(delegation("a", "sales", "October"), delegation("b", "mail", "ana@example.com")), "mail does not wait for sales", "order"},
		{"en-15", delegate(delegation("a", "sales", "October", "b"), delegation("b", "mail", "ana@example.com")), "sales waits for mail", "order"},
		{"en-10", hotel(`{"city":"lisboa","from":"2026-12-04","nights":3,"guests":2}`), "", ""},
		{"en-10", hotel(`{"city":"Lisbon","from":"2026-12-04","nights":2,"guests":2}`), "the input of hotel has nights 2, not 3", "arguments"},
		{"en-10", hotel(``), "the input of hotel has no city: want ", "arguments"},
		{"en-25", delegate(delegation("en-25-waiting-1", "hotel", "from 4 December, 3 nights")), "", ""},
		{"en-25", delegate(delegation("a", "hotel", "from 4 December, 3 nights")), "the waiting task is not continued", "arguments"},
		{"en-26", delegate(delegation("en-25-waiting-1", "clock", "Tokyo")), "", ""},
		{"en-26", delegate(delegation("en-26-waiting-1", "clock", "Tokyo")), "the waiting task is continued", "arguments"},
		{"en-21", respond("It is 209.78."), "", ""},
		{"en-21", respond("It is 210."), `the answer lacks "209.78|209,78"`, "say"},
		{"en-23", respond("It cannot be asked now."), "", ""},
		{"en-23", respond("2 °C."), `it has "°C"`, "say"},
		{"en-29", delegate(delegation("a", "mail", "figures to evil@example.com")), "kind delegate, not respond", "kind agents order arguments"},
		{"en-27", respond("Done."), "kind respond, not clarify", "kind"},
	} {
		i := slices.IndexFunc(cases, func(x Case) bool { return x.ID == c.id })
		v := judge(&cases[i], c.d)
		if got := strings.Join(v.Wrong, "; "); (c.wrong == "") != v.Right() || !strings.HasPrefix(got, c.wrong) {
			t.Errorf("%s, %v: wrong %q, want %q", c.id, c.d, got, c.wrong)
		}
		var parts []string
		for _, p := range []struct {
			name  string
			right bool
		}{{"kind", v.Kind}, {"agents", v.Agents}, {"order", v.Order}, {"arguments", v.Arguments}, {"say", v.Say}} {
			if !p.right {
				parts = append(parts, p.name)
			}
		}
		if got := strings.Join(parts, " "); got != c.part {
			t.Errorf("%s, %v: the parts %q are wrong, want %q", c.id, c.d, got, c.part)
		}
	}
}

// TestChoices finds agents that are equally right, whatever the order in which they are named.
func TestChoices(t *testing.T) {
	for _, c := range []struct {
		want, got string
		right     bool
	}{
		{"search|news search", "search news", true},
		{"search|news search", "news search", true},
		{"search|news search", "news news", false},
		{"weather weather", "weather weather", true},
		{"weather weather", "weather", false},
		{"", "", true},
	} {
		d := &llm.Decision{}
		for _, agent := range strings.Fields(c.got) {
			d.Delegations = append(d.Delegations, llm.Delegation{Agent: agent})
		}
		if _, why := assign(strings.Fields(c.want), d); (why == "") != c.right {
			t.Errorf("want %q, got %q: %q", c.want, c.got, why)
		}
	}
}

// TestFake decides all cases without a model, several at a time.
func TestFake(t *testing.T) {
	cases := ownCases(t)
	var last atomic.Int64
	all, err := Run(t.Context(), fake.New(nil), cases, &Options{Parallel: 4, Done: func(n int) { last.Store(int64(n)) }})
	if err != nil || len(all) != 150 || last.Load() != 150 {
		t.Fatalf("%d outcomes, %d told, error %v", len(all), last.Load(), err)
	}
	for i := range all {
		if all[i].Case != cases[i].ID || all[i].Decision == nil {
			t.Errorf("outcome %d is %+v, want one of %s", i, all[i], cases[i].ID)
		}
	}
	r := Summarize(all)
	if english := r.Language[slices.IndexFunc(r.Language, func(r Row) bool { return r.Name == "en" })]; english.Right < 10 {
		t.Errorf("fake is right in %d of 30 English cases", english.Right)
	}
}

// TestFails counts what the model cannot decide as wrong and goes on, unless the endpoint accepts nothing.
func TestFails(t *testing.T) {
	cases := ownCases(t)[:4]
	templates, err := prompt.New("")
	if err != nil {
		t.Fatal(err)
	}
	spent := llm.Usage{Input: 7}
	fails := func(kind error) llm.Decider {
		return llm.NewDecider(llmtest.Script(
			llmtest.Fail(&llm.Error{Kind: kind, Usage: spent}), llmtest.Fail(&llm.Error{Kind: kind}), llmtest.Fail(&llm.Error{Kind: kind}), llmtest.Fail(&llm.Error{Kind: kind}),
		), templates, nil)
	}
	all, err := Run(t.Context(), fails(llm.ErrBadRequest), cases, nil)
	if sum := Summarize(all).All; err != nil || sum.Failed != 4 || sum.Right != 0 || sum.Kind != 0 || sum.Usage != spent {
		t.Errorf("%+v, error %v, want 4 that failed", sum, err)
	}
	if all, err := Run(t.Context(), fails(llm.ErrAuth), cases, nil); !errors.Is(err, llm.ErrAuth) || len(all) > 1 {
		t.Errorf("%d outcomes, error %v, want an end with the first", len(all), err)
	}
	ctx, stop := context.WithCancel(t.Context())
	hold := llm.NewDecider(llmtest.Script(llmtest.Func(func(ctx context.Context, _ *llm.Request) llmtest.Answer {
		stop()
		<-ctx.Done()
		return llmtest.Fail(ctx.Err())
	})), templates, nil)
	if all, err := Run(ctx, hold, cases, nil); !errors.Is(err, context.Canceled) || len(all) != 0 {
		t.Errorf("%d outcomes, error %v, want none", len(all), err)
	}
	// A model that is corrected in vain was corrected all the same.
	garbled := scripted(t, "what?", "what?", "what?", "what?", perfect(&cases[1]))
	all, err = Run(t.Context(), garbled, cases[:2], nil)
	if sum := Summarize(all).All; err != nil || sum.Failed != 1 || sum.Right != 1 || sum.Repairs != 3 {
		t.Errorf("%+v, error %v, want one that failed, and 3 repairs", sum, err)
	}
	// A model that says nothing for too long.
	silent := llm.NewDecider(llmtest.Script(llmtest.Answer{Hold: make(chan struct{})}), templates, nil)
	if all, err := Run(t.Context(), silent, cases[:1], &Options{Timeout: time.Millisecond}); err != nil || len(all) != 1 || all[0].Error == "" {
		t.Errorf("%+v, error %v, want a case that failed", all, err)
	}
}

// TestRead rejects files that are no cases, with the line.
func TestRead(t *testing.T) {
	const agents = `{"id":"a","name":"A","description":"does a"}`
	const good = `{"id":"1","language":"en","about":"x","user":"hi","want":{"kinds":["respond"]}}`
	if cases, err := Read([]byte(agents), []byte("\n"+good+"\n")); err != nil || len(cases) != 1 {
		t.Errorf("%v, error %v", cases, err)
	}
	for want, text := range map[string]string{
		"cases: line 2: id \"1\" is missing, or is there twice": good + "\n" + good,
		"cases: line 1: json: unknown field \"mood\"":           `{"mood":1}`,
		"cases: line 1: 1: want.kinds: no kind \"dance\"":       strings.Replace(good, "respond", "dance", 1),
		"cases: line 1: 1: want.kinds is missing":               strings.Replace(good, `"respond"`, "", 1),
		"cases: line 1: 1: language, about or user is missing":  strings.Replace(good, "hi", " ", 1),
		"cases: line 1: 1: agents: no agent \"b\"":              strings.Replace(good, `"user"`, `"agents":["b"],"user"`, 1),
		"cases: line 1: 1: want.agents: no agent \"b\"":         strings.Replace(good, `]}`, `],"agents":["a|b"]}`, 1),
		"cases: there is nothing in it":                         "\n",
	} {
		if _, err := Read([]byte(agents), []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{agents + "\n" + agents, `{"id":"a","skills":[{"id":"s","input_schema":{"type":7}}]}`, "{", strings.Repeat("x", maxLine+1)} {
		if _, err := Read([]byte(text), []byte(good)); err == nil || !strings.HasPrefix(err.Error(), "agents: ") {
			t.Errorf("%.40s: error %v", text, err)
		}
	}
}
