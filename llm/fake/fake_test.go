package fake_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/fake"
	"github.com/cortex-orchestrator/cortex/prompt"
)

func task(agent string, s a2a.TaskState, result string) prompt.Task {
	return prompt.Task{ID: a2a.TaskID("task-" + agent), Agent: agent, Text: "do", State: s, Result: result}
}

func TestAnswer(t *testing.T) {
	const completed, failed = a2a.TaskStateCompleted, a2a.TaskStateFailed
	made := task("agent_notes", completed, "")
	made.Artifacts = []prompt.Artifact{{Name: "a", Text: "first"}, {Name: "b", Text: " \n"}, {Name: "c", Text: "second"}}
	said := made
	said.Result = "said"
	for _, c := range []struct {
		name  string
		tasks []prompt.Task
		kind  llm.Kind
		want  string
	}{
		{"one", []prompt.Task{task("agent_echo", completed, "Echo:  hi\n\tthere")}, llm.KindRespond, "Echo:  hi\n\tthere"},
		{"two", []prompt.Task{task("agent_clock", completed, "10:30"), task("agent_calc", completed, "391")}, llm.KindRespond, "agent_clock: 10:30\nagent_calc: 391"},
		{"two, of lines", []prompt.Task{task("a", completed, "1\n2"), task("b", completed, "3")}, llm.KindRespond, "a: 1\n2\n\nb: 3"},
		{"artifacts", []prompt.Task{made}, llm.KindRespond, "first\n\nsecond"},
		{"result before artifacts", []prompt.Task{said}, llm.KindRespond, "said"},
		{"nothing", []prompt.Task{task("a", completed, " ")}, llm.KindRespond, "a is done, and gave no text."},
		{"nothing of two", []prompt.Task{task("a", completed, ""), task("b", completed, "x")}, llm.KindRespond, "a is done, and gave no text.\nb: x"},
		{"failed", []prompt.Task{task("agent_x", failed, "no such city")}, llm.KindRespond, "agent_x could not do it: no such city"},
		{"rejected", []prompt.Task{task("agent_x", a2a.TaskStateRejected, "busy")}, llm.KindRespond, "agent_x could not do it: busy"},
		{"failed silently", []prompt.Task{task("agent_x", failed, "")}, llm.KindRespond, "agent_x could not do it, and gave no reason."},
		{"one of two failed", []prompt.Task{task("a", completed, "1"), task("b", failed, "why")}, llm.KindRespond, "a: 1\nb could not do it: why"},
		{"canceled", []prompt.Task{task("a", a2a.TaskStateCanceled, "x")}, llm.KindRespond, "The task of a was canceled: x"},
		{"asks", []prompt.Task{task("a", a2a.TaskStateInputRequired, "Which one?")}, llm.KindClarify, "Which one?"},
		{"asks silently", []prompt.Task{task("a", a2a.TaskStateInputRequired, "")}, llm.KindClarify, "a needs to know more to go on."},
		{"asks for a login", []prompt.Task{task("a", a2a.TaskStateAuthRequired, "Log in")}, llm.KindClarify, "Log in"},
		{"one asks", []prompt.Task{task("a", completed, "1"), task("b", a2a.TaskStateInputRequired, "Which?")}, llm.KindClarify, "a: 1\nb asks: Which?"},
		{"at work", []prompt.Task{task("a", a2a.TaskStateWorking, ""), task("b", completed, "2")}, llm.KindRespond, "a is still at work.\nb: 2"},
		{"no tasks", nil, llm.KindRespond, "Nothing was done."},
	} {
		for _, last := range []bool{false, true} {
			tn := turn("what is 17*23?")
			tn.Steps = []prompt.Step{{Tasks: []prompt.Task{task("old", completed, "old")}}, {Tasks: c.tasks}}
			tn.Last = last
			d := decide(t, tn)
			if fails := strings.Contains(c.want, "could not do it"); strings.Contains(d.Reason, "failed") != fails {
				t.Errorf("%s: reason %q", c.name, d.Reason)
			}
			if d.Kind != c.kind || d.Say != c.want {
				t.Errorf("%s, last %t: %s %q, want %s %q", c.name, last, d.Kind, d.Say, c.kind, c.want)
			}
		}
	}
}

func TestAnswerIsBounded(t *testing.T) {
	tn := turn("x")
	tn.Steps = []prompt.Step{{}}
	for i := range 8 {
		tn.Steps[0].Tasks = append(tn.Steps[0].Tasks, task(fmt.Sprint("a", i), a2a.TaskStateCompleted, strings.Repeat("é", 500_000)))
	}
	d := decide(t, tn)
	if len(d.Say) > 1<<20 || strings.Count(d.Say, "more bytes are cut off]") != 8 || strings.ContainsRune(d.Say, '\ufffd') {
		t.Errorf("the answer has %d bytes", len(d.Say))
	}
}

func TestWaiting(t *testing.T) {
	asks := func(id, agent, skill string) prompt.Task {
		return prompt.Task{ID: a2a.TaskID(id), Agent: agent, Skill: skill, State: a2a.TaskStateInputRequired, Result: "Which?"}
	}
	clock, notes := asks("t-clock", "agent_clock", "time"), asks("t-notes", "agent_notes", "gone")
	for _, c := range []struct {
		name    string
		user    string
		waiting []prompt.Task
		last    bool
		want    string
	}{
		{"continues", "what is 17*23?", []prompt.Task{clock}, false, "t-clock agent_clock/time: what is 17*23?"},
		{"a greeting is a reply too", "hello", []prompt.Task{clock}, false, "t-clock agent_clock/time: hello"},
		{"the newest", "Springfield", []prompt.Task{clock, notes}, false, "t-notes agent_notes/: Springfield"},
		{"by name", "@agent_clock Springfield", []prompt.Task{clock}, false, "t-clock agent_clock/time: Springfield"},
		{"another by name", "@agent_echo hi", []prompt.Task{clock}, false, "1 agent_echo/echo: hi"},
		{"nobody by name", "@nobody hi", []prompt.Task{clock}, false, `refuse No agent "nobody" is online.`},
		{"the agent has gone", "echo hi", []prompt.Task{asks("t", "gone", "")}, false, "1 agent_echo/echo: hi"},
		{"the newest has gone", "hi", []prompt.Task{clock, asks("t", "gone", "")}, false, "t-clock agent_clock/time: hi"},
		{"an id like ours", "@agent_echo hi", []prompt.Task{asks("1", "agent_clock", "")}, false, "1a agent_echo/echo: hi"},
		{"last", "Springfield", []prompt.Task{clock}, true, "refuse No step is left to give this to an agent."},
	} {
		tn := turn(c.user)
		tn.Waiting, tn.Last = c.waiting, c.last
		d := decide(t, tn)
		got := routed(d)
		if d.Kind == llm.KindDelegate {
			got = d.Delegations[0].ID + " " + got
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestNamesWhatIsOnline(t *testing.T) {
	tn := turn("tell me a joke")
	for i := range 5 {
		tn.Agents = append(tn.Agents, agent(fmt.Sprint("z", i), "evil\n\x1b[31m\u202e "+strings.Repeat("long ", 100)))
	}
	say := decide(t, tn).Say
	for _, want := range []string{
		"\n- agent_echo: A simple echo agent that repeats back messages for testing purposes, as in \"Echo this message\"\n", "\n- wordcount: Counts the words of a text\n",
		"answers. (not running)\n", "\nand 3 more", "\n- z0: evil long long",
	} {
		if !strings.Contains(say, want) {
			t.Errorf("%q is not in\n%s", want, say)
		}
	}
	if strings.ContainsAny(say, "\x1b\u202e") || strings.Contains(say, "z2") {
		t.Errorf("says %q", say)
	}
	for _, user := range []string{"hello", "echo hi", "", "@agent_echo hi"} {
		tn := turn(user)
		tn.Agents = nil
		if say := decide(t, tn).Say; !strings.Contains(say, "No agent is online") || !strings.Contains(say, "cortex agent echo") {
			t.Errorf("with nobody online, to %q it says %q", user, say)
		}
	}
}

func TestLimits(t *testing.T) {
	many := strings.Repeat("what is 2+2? ", 9)
	if d := decide(t, turn(many)); d.Kind != llm.KindClarify || !strings.HasPrefix(d.Say, "These are 9 requests at once, and I can hand on 8.") {
		t.Errorf("nine requests: %s %q", d.Kind, d.Say)
	}
	tn := turn(many)
	tn.MaxParallel = 9
	if d := decide(t, tn); len(d.Delegations) != 9 {
		t.Errorf("nine requests where nine may be: %s", routed(d))
	}
	if d := decide(t, turn("echo it. "+strings.Repeat("What is 2+2? ", 1000))); len(d.Delegations) != 1 || d.Delegations[0].Agent != "agent_echo" {
		t.Errorf("a long text is taken apart: %.300s", routed(d))
	}
	long := "count the words: " + strings.Repeat("what is 2+2, and what is 3+3? ", 1000)
	if d := decide(t, turn(long)); len(d.Delegations) != 1 || d.Delegations[0].Agent != "wordcount" || !strings.HasPrefix(d.Delegations[0].Task, "what is") {
		t.Errorf("a long text: %.300s", routed(d))
	}
	tn = turn("@agent_echo " + strings.Repeat("say all of this once more, and what is 3+3? ", 1000))
	tn.Search = func(words string) []llm.Found {
		t.Errorf("%d bytes are searched, and the message says whom it is for", len(words))
		return nil
	}
	if d := decide(t, tn); len(d.Delegations) != 1 || d.Delegations[0].Agent != "agent_echo" || !strings.HasPrefix(d.Delegations[0].Task, "say all") {
		t.Errorf("a long text for an agent: %.300s", routed(d))
	}
	tn = turn("echo " + strings.Repeat("x", 1<<20))
	if d := decide(t, tn); d.Kind != llm.KindRefuse || !strings.Contains(d.Say, "too long for an agent") {
		t.Errorf("too long a text: %.300s", routed(d))
	}
	tn.Waiting = []prompt.Task{{ID: "t", Agent: "agent_echo"}}
	if d := decide(t, tn); d.Kind != llm.KindRefuse || !strings.Contains(d.Say, "too long for an agent") {
		t.Errorf("too long a reply: %.300s", routed(d))
	}
}

func TestReason(t *testing.T) {
	for user, want := range map[string]string{
		"Echo this!":                     "agent_echo fits best (1.00)",
		"what time is it, what is 17*23": "agent_clock fits best (1.00), then agent_",
		"book a flight to Tokyo":         "no agent fits well enough; agent_mail fits best (0.",
		"@agent_echo hi":                 "agent_echo: called by name",
		"hello":                          "asked about Cortex itself",
		"tell me a joke":                 "no agent fits well enough; agent_",
		"the temperature and the rain":   "agent_weather fits best (0.",
	} {
		if got := decide(t, turn(user)).Reason; !strings.HasPrefix(got, want) {
			t.Errorf("%q: reason %q, want %q", user, got, want)
		}
	}
}

// TestSeenFirst checks that of two agents with the same card the running one is asked.
func TestSeenFirst(t *testing.T) {
	tn := turn("echo hi")
	tn.Agents = []prompt.Agent{agent("x", "echo"), agent("y", "echo"), agent("z", "echo")}
	tn.Agents[0].Seen = false
	if got := routed(decide(t, tn)); got != "y/: echo hi" {
		t.Errorf("asked %q, want y", got)
	}
}

// TestOddCards checks that no card, which is external, can prevent a decision.
func TestOddCards(t *testing.T) {
	tn := turn("echo hi 2+2 \"")
	tn.Agents = []prompt.Agent{
		{ID: "nil"},
		{ID: "empty", Card: &a2a.AgentCard{Skills: make([]a2a.AgentSkill, 200)}},
		agent("odd", "\xff\x00 1+ * ( 2026-11-20 \u202e", a2a.AgentSkill{Name: "echo", Examples: []string{"", "\xff", "2+2", "echo \"", strings.Repeat("echo ", 10000)}}),
	}
	if got := routed(decide(t, tn)); got != "odd/echo: echo hi 2+2 \"" {
		t.Errorf("routed to %q", got)
	}
}

func TestStream(t *testing.T) {
	tn := turn("x")
	tn.Steps = []prompt.Step{{Tasks: []prompt.Task{task("a", a2a.TaskStateCompleted, "one two  three\nfour")}}}
	var got []string
	d, err := fake.New(nil).Decide(t.Context(), tn, func(s string) { got = append(got, s) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one ", "two ", " ", "three\nfour"}, got); diff != "" || strings.Join(got, "") != d.Say {
		t.Errorf("streamed (-want +got):\n%s", diff)
	}
	if _, err := fake.New(nil).Decide(t.Context(), turn("echo hi"), func(s string) { t.Errorf("streamed %q of a delegation", s) }); err != nil {
		t.Error(err)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	words := 0
	if _, err := fake.New(nil).Decide(ctx, turn("hello"), func(string) { words++; cancel() }); !errors.Is(err, context.Canceled) || words != 1 {
		t.Errorf("canceled at the first word: %v after %d words", err, words)
	}
	if _, err := fake.New(nil).Decide(ctx, turn("echo hi"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Decide with a canceled context = %v", err)
	}
}

func TestWordDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tn := turn("x")
		tn.Steps = []prompt.Step{{Tasks: []prompt.Task{task("a", a2a.TaskStateCompleted, "one two three")}}}
		start := time.Now()
		d := fake.New(&fake.Options{WordDelay: time.Second})
		if _, err := d.Decide(t.Context(), tn, func(string) {}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("three words took %v, want 3s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		start = time.Now()
		if _, err := d.Decide(ctx, tn, func(string) {}); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 1500*time.Millisecond {
			t.Errorf("with a deadline: %v after %v", err, time.Since(start))
		}
	})
}

// crowd returns n agents of a hundred trades.
func crowd(n int) []prompt.Agent {
	out := agents()
	for i := range n - len(out) {
		trade := fmt.Sprintf("trade%c%c", 'a'+i%10, 'a'+i/10%10)
		out = append(out, agent(fmt.Sprintf("crowd_%05d", i), "Does everything around "+trade+" for people who need it",
			a2a.AgentSkill{
				ID: trade, Name: "The " + trade, Description: "Plans, does and checks any work on " + trade, Tags: []string{trade, "work"},
				Examples: []string{"do the " + trade + " of 12 houses", "what does " + trade + " cost in Tokyo?"},
			}))
	}
	return out
}

func TestCrowd(t *testing.T) {
	for user, want := range map[string]string{
		"Echo this!": "agent_echo/echo: Echo this!",
		"what time is it in Tokyo, and what is 17*23?": "agent_clock/time: what time is it in Tokyo\nagent_calc/calc: what is 17*23?",
		"what does tradecb cost?":                      "crowd_00012/tradecb: what does tradecb cost?",
		"ask crowd_09000 to echo":                      "crowd_09000/tradeaa: echo",
	} {
		tn := turn(user)
		tn.Agents = crowd(10_000)
		if got := routed(decide(t, tn)); got != want {
			t.Errorf("%q among 10,000: got %q, want %q", user, got, want)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	const short = "what time is it in Tokyo, and what is 17*23?"
	called := "@agent_echo " + strings.Repeat("please say all of these words once more, and say them so that nothing is lost ", 3)
	for name, bench := range map[string]struct {
		text   string
		agents int
	}{"agents=8": {short, 8}, "agents=40": {short, 40}, "agents=10000": {short, 10_000}, "called": {called, 8}} {
		b.Run(name, func(b *testing.B) {
			tn := turn(bench.text)
			tn.Agents = crowd(bench.agents)
			d := fake.New(nil)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Decide(b.Context(), tn, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestClosed checks that an unavailable agent is distinguished from an absent one.
func TestClosed(t *testing.T) {
	tn := turn("@agent_bank pay 5")
	tn.Unavailable = []prompt.Unavailable{{ID: "agent_bank", Why: "it has 2 of 2 tasks under way"}}
	if got := routed(decide(t, tn)); got != "refuse agent_bank cannot be given work at the moment: it has 2 of 2 tasks under way." {
		t.Errorf("a busy agent: %q", got)
	}
	tn = turn("echo hi")
	tn.Veto = func(agent, skill string) string { return "the policy denies " + agent + "/" + skill }
	if got := routed(decide(t, tn)); got != "refuse agent_echo cannot be asked for this: the policy denies agent_echo/echo." {
		t.Errorf("a skill that is denied: %q", got)
	}
	tn = turn("write me a sonnet")
	tn.More = 100
	if d := decide(t, tn); !strings.HasSuffix(d.Say, "\n108 agents are online: `cortex agents --text WORD` finds those that speak of something.") {
		t.Errorf("with 100 agents more: %q", d.Say)
	}
}

// TestInput checks that a skill with a schema gets the input that can be made of words, and that otherwise the user is told.
func TestInput(t *testing.T) {
	for user, want := range map[string]string{
		"search the catalog for red shoes":   `{"query":"search the catalog for red shoes"}`,
		`@shop {"query":"shoes","price":50}`: `{"query":"shoes","price":50}`,
		"@shop xyzzy":                        `{"query":"xyzzy"}`,
		"compare two products":               "refuse shop needs more than words for this. Without a model I can only hand on JSON that fits: @shop/compare {\"ids\":[…]}",
	} {
		tn := turn(user)
		shop := agent("shop", "Searches and compares products", a2a.AgentSkill{ID: "search", Description: "Search the product catalog"},
			a2a.AgentSkill{ID: "compare", Description: "Compare two or more products"})
		shop.Card = agentcard.Attach(shop.Card, &agentcard.Spec{Abilities: map[string]agentcard.Ability{
			"search":  {InputSchema: []byte(`{"type":"object","properties":{"query":{"type":"string"},"price":{"type":"number"}},"required":["query"]}`)},
			"compare": {InputSchema: []byte(`{"type":"object","properties":{"ids":{"type":"array"}},"required":["ids"]}`)},
		}})
		tn.Agents = append(tn.Agents, shop)
		d := decide(t, tn)
		got := routed(d)
		if d.Kind == llm.KindDelegate {
			got = string(d.Delegations[0].Input)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", user, got, want)
		}
	}
}
