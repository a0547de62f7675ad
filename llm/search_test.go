package llm_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// choiceTurn returns a turn with agent_echo as the shortlist; a search for "money" finds agent_money. It records the words of searches.
func choiceTurn() (*llm.Turn, *[]string) {
	tn := turn()
	tn.Waiting = nil
	tn.Agents = append(make([]prompt.Agent, 0, 9), tn.Agents[2:]...)
	tn.Choice, tn.More, tn.Listed = true, 9999, tn.Agents
	money := agent("agent_money", "convert", "pay")
	searched := new([]string)
	tn.Search = func(words string) []llm.Found {
		*searched = append(*searched, words)
		switch {
		case strings.HasPrefix(words, "many"):
			var all []llm.Found
			for i := range 20 {
				a := agent(fmt.Sprint("agent_", i), "skill")
				a.Card.Description = strings.Repeat("many words ", 50)
				all = append(all, llm.Found{Agent: a, Fits: true})
			}
			return all
		case words == "close":
			return slices.Repeat([]llm.Found{{Agent: money, Score: 0.3}}, 9)
		case !strings.Contains(words, "money"):
			return nil
		}
		return []llm.Found{{Agent: money, Score: 0.9, Fits: true, Skills: []string{"pay"}}, {Agent: agent("agent_far"), Score: 0.1}}
	}
	tn.Lookup = func(id string) (prompt.Agent, bool) {
		if id == "agent_money" {
			return money, true
		}
		return prompt.Agent{}, false
	}
	return tn, searched
}

func searching(words string) string {
	return fmt.Sprintf(`{"kind":"search","say":null,"delegations":[],"search":%q,"reason":"nobody fits"}`, words)
}

func giving(agent string) string {
	return fmt.Sprintf(`{"kind":"delegate","say":null,"delegations":[{"id":"a","agent":%q,"skill":null,"task":"t","input":null,"depends_on":[]}],"search":null,"reason":""}`, agent)
}

// lastOf returns the last message of a request.
func lastOf(r *llm.Request) string { return r.Messages[len(r.Messages)-1].Text() }

// TestSearch checks that a search is answered with its result, to which work can be given, and that it is no correction.
func TestSearch(t *testing.T) {
	tn, searched := choiceTurn()
	d, said, c, err := decide(t, tn, answered(searching(" exchange\nmoney "), 1), answered(giving("agent_money"), 10))
	if err != nil {
		t.Fatal(err)
	}
	want := &llm.Decision{
		Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: "a", Agent: "agent_money", Task: "t"}},
		Model: "scripted", Usage: llm.Usage{Input: 11}, Searches: []string{"exchange money"},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
	if len(said) > 0 || !slices.Equal(*searched, d.Searches) {
		t.Errorf("streamed %q and searched for %q", said, *searched)
	}
	r := c.Requests()[1]
	n := len(r.Messages)
	if r.Messages[n-2].Text() != searching(" exchange\nmoney ") || r.Messages[n-2].Role != llm.RoleAssistant || r.Messages[n-1].Role != llm.RoleUser {
		t.Errorf("the search is followed up by %+v", r.Messages[n-2:])
	}
	for _, want := range []string{"These agents fit your search", "<cortex:agents>\n- id \"agent_money\"\n", `skill "pay"`, "… and 1 more skills", "search 2 more times"} {
		if !strings.Contains(lastOf(r), want) {
			t.Errorf("the model is told, without %q:\n%s", want, lastOf(r))
		}
	}
	if strings.Contains(lastOf(r), "agent_far") {
		t.Errorf("an agent that does not fit is shown:\n%s", lastOf(r))
	}
	if diff := cmp.Diff(c.Requests()[0].Messages, r.Messages[:n-2]); diff != "" || string(r.Schema) != string(llm.DecisionSchema(tn)) {
		t.Errorf("the second request does not begin as the first (-want +got):\n%s", diff)
	}
	if behind := tn.Agents[:2][1].ID; len(tn.Agents) != 1 || behind != "" {
		t.Errorf("the turn was changed: it has %d agents, and %q behind them", len(tn.Agents), behind)
	}
}

// TestFoundIsKnown checks that a found agent is known without Lookup, and that a slip in its id is corrected.
func TestFoundIsKnown(t *testing.T) {
	for _, id := range []string{"agent_money", "Agent_Money", "agent_mony"} {
		tn, _ := choiceTurn()
		tn.Lookup = nil
		d, _, _, err := decide(t, tn, llmtest.Text(searching("money")), llmtest.Text(giving(id)))
		if err != nil || d.Repairs != 0 || d.Delegations[0].Agent != "agent_money" {
			t.Errorf("work for %s: %+v, %v; want it for agent_money", id, d, err)
		}
	}
	tn, _ := choiceTurn()
	if d, _, _, err := decide(t, tn, llmtest.Text(giving("agent_money"))); err != nil || d.Repairs != 0 {
		t.Errorf("work for an agent that can be looked up: %+v, %v", d, err)
	}
}

func TestSearchThatFindsNothing(t *testing.T) {
	tn, _ := choiceTurn()
	_, _, c, err := decide(t, tn, llmtest.Text(searching("nothing")), llmtest.Text(searching("close")), llmtest.Text(hello))
	if err != nil {
		t.Fatal(err)
	}
	if got := lastOf(c.Requests()[1]); !strings.Contains(got, "No agent fits your search.") || strings.Contains(got, "<cortex:agents>") {
		t.Errorf("of nothing the model is told:\n%s", got)
	}
	got := lastOf(c.Requests()[2])
	if !strings.Contains(got, "No agent fits your search well; these come closest.") || strings.Count(got, "- id ") != 5 {
		t.Errorf("of what is close the model is told:\n%s", got)
	}
}

// TestSearchIsBounded checks that a decision has three searches, which do not count as corrections.
func TestSearchIsBounded(t *testing.T) {
	tn, searched := choiceTurn()
	long := strings.Repeat("many wörds ", 100)
	d, _, c, err := decide(t, tn, llmtest.Text(searching(long)), llmtest.Text(invalid), llmtest.Text(searching("many b")),
		llmtest.Text(searching("many c")), llmtest.Text(searching("many d")), llmtest.Text(hello))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Searches) != 3 || d.Repairs != 2 || !slices.Equal(*searched, d.Searches) {
		t.Errorf("%d searches and %d corrections, want 3 and 2", len(d.Searches), d.Repairs)
	}
	if n := len(d.Searches[0]); n > 200 || n < 150 || !strings.HasPrefix(d.Searches[0], "many wörds many") {
		t.Errorf("searched for %d bytes: %q", n, d.Searches[0])
	}
	if got := lastOf(c.Requests()[5]); !strings.Contains(got, "you have searched 3 times for this decision") {
		t.Errorf("of the fourth search the model is told:\n%s", got)
	}
	if got := lastOf(c.Requests()[4]); !strings.Contains(got, "cannot search again") {
		t.Errorf("of the third search the model is told:\n%s", got)
	}
	sum := 0
	for _, i := range []int{1, 3, 4} {
		text := lastOf(c.Requests()[i])
		if sum += len(text); !strings.Contains(text, "- id ") {
			t.Errorf("a search that finds shows nothing:\n%s", text)
		}
	}
	if sum > 6<<10 {
		t.Errorf("three searches brought %d bytes, want at most 6 KiB", sum)
	}
	_, _, _, err = decide(t, tn, llmtest.Text(searching("a")), llmtest.Text(searching("b")), llmtest.Text(searching("c")),
		llmtest.Text(searching("d")), llmtest.Text(searching("e")), llmtest.Text(searching("f")))
	if !errors.Is(err, llm.ErrInvalidDecision) {
		t.Errorf("a model that does nothing but search: %v, want an invalid decision", err)
	}
}

// TestSearchThatCannotBe checks that an invalid search is corrected.
func TestSearchThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *llm.Turn)
		reply  string
		want   string
	}{
		"last step":         {func(t *llm.Turn) { t.Last = true }, searching("money"), "no step is left in this turn"},
		"nothing to search": {func(t *llm.Turn) { t.Search, t.Choice = nil, false }, searching("money"), "there is nothing to search"},
		"no words":          {func(*llm.Turn) {}, searching(" \u200b\n"), `"search" is empty`},
		"null":              {func(*llm.Turn) {}, strings.Replace(searching("x"), `"x"`, "null", 1), `"search" is empty`},
		"no string":         {func(*llm.Turn) {}, strings.Replace(searching("x"), `"x"`, "[]", 1), `"search" has the wrong form`},
	} {
		t.Run(name, func(t *testing.T) {
			tn, searched := choiceTurn()
			c.change(tn)
			d, _, client, err := decide(t, tn, llmtest.Text(c.reply), llmtest.Text(hello))
			if err != nil || d.Repairs != 1 || len(d.Searches)+len(*searched) > 0 {
				t.Errorf("decision = %+v, %v; searched for %q; want one correction", d, err, *searched)
			}
			if got := lastOf(client.Requests()[1]); !strings.Contains(got, c.want) {
				t.Errorf("the model is told, without %q:\n%s", c.want, got)
			}
		})
	}
}

// TestSearchInAWindow checks that the window and the budget apply to searches.
func TestSearchInAWindow(t *testing.T) {
	tn, _ := choiceTurn()
	first := sizeOf(func() *llm.Request {
		_, _, c, err := decide(t, tn, llmtest.Text(hello))
		if err != nil {
			t.Fatal(err)
		}
		return c.Requests()[0]
	}())
	// Room for the first request, an answer, and about 800 bytes.
	window := (first + 800 + 3*99) * 10 / 9 / 3
	c := llmtest.Script(llmtest.Text(searching("many")), llmtest.Text(hello))
	if _, err := llm.NewDecider(c, templates(t), &llm.DeciderOptions{Window: window, MaxTokens: 99}).Decide(t.Context(), tn, nil); err != nil {
		t.Fatal(err)
	}
	if got := lastOf(c.Requests()[1]); strings.Count(got, "- id ") == 0 || len(got) > 900 {
		t.Errorf("in a small window a search brings %d bytes:\n%s", len(got), got)
	}
	tn.Budget.Tokens = first/3 + 300
	_, _, _, err := decide(t, tn, answered(searching("many"), first/3+100), answered(hello, 1))
	if !errors.Is(err, llm.ErrBudget) {
		t.Errorf("a search beyond the budget: %v, want ErrBudget", err)
	}
	if u := llm.UsageOf(err); u.Input != first/3+100 {
		t.Errorf("the failure cost %+v", u)
	}
}

// TestUnavailable checks that an unavailable agent is refused with the reason, even if it is listed, and that its id is not corrected to a similar
// one.
func TestUnavailable(t *testing.T) {
	tn := turn()
	tn.Unavailable = []prompt.Unavailable{{ID: "agent_calc", Why: "it has 2 of 2 tasks\x1b[2J under way"}, {ID: "agent_clocks", Why: "busy"}}
	err := llm.Check(tn, one(func(*llm.Delegation) {}))
	if want := `agent "agent_calc" cannot be given work at the moment: it has 2 of 2 tasks under way`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Check = %v, want %s", err, want)
	}
	d, _, c, err := decide(t, tn, llmtest.Text(giving("agent_clocks")), llmtest.Text(hello))
	if err != nil || d.Repairs != 1 || !strings.Contains(lastOf(c.Requests()[1]), "cannot be given work at the moment: busy") {
		t.Errorf("decision = %+v, %v, want a correction that says why", d, err)
	}
}

// TestSearchIsNoDecision checks that a search is no decision.
func TestSearchIsNoDecision(t *testing.T) {
	tn, _ := choiceTurn()
	if err := llm.Check(tn, &llm.Decision{Kind: llm.KindSearch, Say: "x", Searches: []string{"x"}}); !errors.Is(err, llm.ErrInvalidDecision) {
		t.Errorf("Check of a search = %v", err)
	}
	d, err := llm.ParseDecision(searching("money"))
	if want := (&llm.Decision{Kind: llm.KindSearch, Reason: "nobody fits"}); err != nil || !cmp.Equal(d, want) {
		t.Errorf("ParseDecision = %+v, %v, want %+v", d, err, want)
	}
	if d, err = llm.ParseDecision(`{"kind":"respond","say":"hi","search":[]}`); err != nil || len(d.Searches) > 0 {
		t.Errorf("the search of an answer counts: %+v, %v", d, err)
	}
}
