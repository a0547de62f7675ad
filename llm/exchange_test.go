package llm_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// failed returns an answer that ends with an endpoint's error, after text.
func failed(kind error, text string, spent int) llmtest.Answer {
	return llmtest.Answer{Text: text, Err: &llm.Error{Kind: kind, Provider: "test", Usage: llm.Usage{Input: spent}}}
}

func answered(text string, spent int) llmtest.Answer {
	return llmtest.Answer{Text: text, Usage: llm.Usage{Input: spent}}
}

// TestDecideAsksAgain checks that a retry happens once, with the same request, and that the text of one reply is shown.
func TestDecideAsksAgain(t *testing.T) {
	half := hello[:28] // up to "Hel
	need := (sizeOf(firstRequest(t)) + 2) / 3
	for _, c := range []struct {
		name    string
		first   llmtest.Answer
		said    string
		spent   int
		maxTok  int
		repairs int
	}{
		{"cut", failed(llm.ErrTruncated, half, 1), "Hel", 11, 99, 0},
		{"cut silently", llmtest.Answer{Text: half, Cut: true}, "Hel", 10 + need, 99, 0},
		{"cut behind the object", llmtest.Answer{Text: hello, Cut: true}, "Hello!", 10 + need, 99, 0},
		{"silent in the middle", failed(llm.ErrUnavailable, half, 1), "Hel", 11, 99, 0},
		{"rate limited in the middle", failed(llm.ErrRateLimited, half, 1), "Hel", 11, 99, 0},
		{"cut before the words", failed(llm.ErrTruncated, hello[:9], 1), "Hello!", 11, 99, 0},
		{"empty", failed(llm.ErrEmpty, "", 1), "Hello!", 11, 99, 0},
		{"nothing", answered("", 1), "Hello!", 11, 99, 0},
		{"white space", answered(" \n", 1), "Hello!", 11, 99, 0},
		{"thoughts only", answered("<think>"+hello+"</think>\n", 1), "Hello!", 11, 99, 0},
		{"thoughts without an end", answered("<think>"+hello, 1), "Hello!", 11, 99, 0},
		{"too long", failed(llm.ErrLength, half, 1), "Hel", 11, 198, 0},
		{"too long, after one that was down", llmtest.Answer{Text: half, Err: errors.Join(llm.ErrUnavailable, failed(llm.ErrLength, "", 1).Err)}, "Hel", 11, 198, 0},
		{"too long in thoughts", failed(llm.ErrLength, "<think>hm {", 1), "Hello!", 11, 198, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, said, client, err := decide(t, turn(), c.first, answered(hello, 10))
			if err != nil {
				t.Fatal(err)
			}
			if d.Say != "Hello!" || d.Repairs != 0 || d.Usage.Input != c.spent || d.Model != "scripted" {
				t.Errorf("decision = %+v, want Hello! without repairs for %d tokens", d, c.spent)
			}
			if got := strings.Join(said, ""); got != c.said {
				t.Errorf("streamed %q, want %q", got, c.said)
			}
			rs := client.Requests()
			rs[0].MaxTokens = c.maxTok
			if diff := cmp.Diff(rs[0], rs[1]); diff != "" {
				t.Errorf("second request (-first +second):\n%s", diff)
			}
		})
	}
}

// TestDecideGivesUp checks that retries are bounded, and that permanent errors are not retried. The error is the last one, with the total cost.
func TestDecideGivesUp(t *testing.T) {
	half := hello[:28]
	for _, c := range []struct {
		name    string
		answers []llmtest.Answer // the error is that of the last one; a further answer would be accepted
		want    error
		spent   int
	}{
		{"cut twice", []llmtest.Answer{failed(llm.ErrTruncated, half, 1), failed(llm.ErrTruncated, half, 10)}, llm.ErrTruncated, 11},
		{"cut before the first word", []llmtest.Answer{failed(llm.ErrTruncated, "", 1)}, llm.ErrTruncated, 1},
		{"cut, then empty", []llmtest.Answer{failed(llm.ErrTruncated, half, 1), failed(llm.ErrEmpty, "", 10)}, llm.ErrEmpty, 11},
		{"empty twice", []llmtest.Answer{answered("", 1), answered("", 10)}, llm.ErrEmpty, 11},
		{"too long twice", []llmtest.Answer{failed(llm.ErrLength, half, 1), failed(llm.ErrLength, half, 10)}, llm.ErrLength, 11},
		{"refused", []llmtest.Answer{failed(llm.ErrRefused, half, 1)}, llm.ErrRefused, 1},
		{"refused and empty", []llmtest.Answer{llmtest.Fail(errors.Join(llm.ErrEmpty, llm.ErrRefused))}, llm.ErrRefused, 0},
		{"unavailable", []llmtest.Answer{failed(llm.ErrUnavailable, "", 1)}, llm.ErrUnavailable, 1},
		{"unavailable in the middle, twice", []llmtest.Answer{failed(llm.ErrUnavailable, half, 1), failed(llm.ErrUnavailable, half, 10)}, llm.ErrUnavailable, 11},
		{"rate limited in the middle, then cut", []llmtest.Answer{failed(llm.ErrRateLimited, half, 1), failed(llm.ErrTruncated, half, 10)}, llm.ErrTruncated, 11},
		{"rate limited", []llmtest.Answer{failed(llm.ErrRateLimited, "", 1)}, llm.ErrRateLimited, 1},
		{"quota", []llmtest.Answer{failed(llm.ErrQuota, "", 1)}, llm.ErrQuota, 1},
		{"auth", []llmtest.Answer{failed(llm.ErrAuth, "", 1)}, llm.ErrAuth, 1},
		{"no model", []llmtest.Answer{failed(llm.ErrNoModel, "", 1)}, llm.ErrNoModel, 1},
		{"bad request", []llmtest.Answer{failed(llm.ErrBadRequest, "", 1)}, llm.ErrBadRequest, 1},
		{"too long a prompt", []llmtest.Answer{failed(llm.ErrTooLong, "", 1)}, llm.ErrTooLong, 1},
		{"unknown", []llmtest.Answer{{Text: half, Err: errors.ErrUnsupported}}, errors.ErrUnsupported, (sizeOf(firstRequest(t)) + 2) / 3},
		{"refused in a repair", []llmtest.Answer{answered("prose", 1), failed(llm.ErrRefused, "", 10)}, llm.ErrRefused, 11},
		{"all of it", []llmtest.Answer{
			answered("", 1), failed(llm.ErrLength, half, 10), answered("prose", 100), answered("prose", 1000), answered(invalid, 10000),
		}, llm.ErrInvalidDecision, 11111},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, _, client, err := decide(t, turn(), append(slices.Clip(c.answers), llmtest.Text(hello))...)
			if !errors.Is(err, c.want) || d != nil {
				t.Errorf("Decide = %v, %v, want %v", d, err, c.want)
			}
			if n := len(client.Requests()); n != len(c.answers) {
				t.Errorf("%d requests, want %d", n, len(c.answers))
			}
			if spent := llm.UsageOf(err).Input; spent != c.spent {
				t.Errorf("UsageOf(%v) = %d tokens, want %d", err, spent, c.spent)
			}
		})
	}
}

// TestDecideLengthens checks that without a limit nothing is doubled, and that the window is not exceeded.
func TestDecideLengthens(t *testing.T) {
	for _, c := range []struct {
		name   string
		o      llm.DeciderOptions
		second int // MaxTokens of the second request; 0: there is none
	}{
		{"no limit", llm.DeciderOptions{}, 0},
		{"doubled", llm.DeciderOptions{MaxTokens: 1000}, 2000},
		{"doubled in a large window", llm.DeciderOptions{MaxTokens: 1000, Window: 100_000}, 2000},
		{"as far as the window goes", llm.DeciderOptions{MaxTokens: 97_000, Window: 100_000}, 100_000},
		{"window full", llm.DeciderOptions{MaxTokens: 99_999, Window: 100_000}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := llmtest.Script(failed(llm.ErrLength, "", 0), llmtest.Text(hello))
			_, err := llm.NewDecider(client, templates(t), &c.o).Decide(t.Context(), turn(), nil)
			rs := client.Requests()
			switch {
			case c.second == 0:
				if len(rs) != 1 || !errors.Is(err, llm.ErrLength) {
					t.Errorf("%d requests, %v, want one, and an ErrLength", len(rs), err)
				}
			case len(rs) != 2 || err != nil:
				t.Errorf("%d requests, %v, want two, and no error", len(rs), err)
			case c.o.Window > 0 && c.second == c.o.Window:
				if n := rs[1].MaxTokens; n <= c.o.MaxTokens || n >= c.o.Window-len(rs[1].System)/8 {
					t.Errorf("second MaxTokens = %d, want what the prompt leaves of %d", n, c.o.Window)
				}
			case rs[1].MaxTokens != c.second:
				t.Errorf("second MaxTokens = %d, want %d", rs[1].MaxTokens, c.second)
			}
		})
	}
}

// TestDecideMaxTokens checks that no more is requested than the window leaves, but always an eighth of it, since that is estimated.
func TestDecideMaxTokens(t *testing.T) {
	p, err := templates(t).Render(&turn().Input)
	if err != nil {
		t.Fatal(err)
	}
	need := (len(p.System) + len(p.Messages[0].Text) + len(llm.DecisionSchema(turn())) + 2) / 3
	for _, c := range []struct{ window, max, want int }{
		{0, 1000, 1000},
		{100_000, 0, 0},
		{100_000, 1000, 1000},
		{need + 500, 1000, 500},
		{need + 1, 1000, (need + 1) / 8},
		{800, 1000, 100},
		{800, 10, 10},
	} {
		client := llmtest.Script(llmtest.Text(hello))
		if _, err := llm.NewDecider(client, templates(t), &llm.DeciderOptions{Window: c.window, MaxTokens: c.max}).Decide(t.Context(), turn(), nil); err != nil {
			t.Fatal(err)
		}
		if got := client.Requests()[0].MaxTokens; got != c.want {
			t.Errorf("MaxTokens %d in a window of %d with a prompt of %d: %d are asked for, want %d", c.max, c.window, need, got, c.want)
		}
	}
}

func TestDecideTemperature(t *testing.T) {
	zero := 0.0
	o := &llm.DeciderOptions{Temperature: &zero}
	client := llmtest.Script(llmtest.Text(hello))
	d := llm.NewDecider(client, templates(t), o)
	zero = 1 // the options were copied
	if _, err := d.Decide(t.Context(), turn(), nil); err != nil {
		t.Fatal(err)
	}
	if got := client.Requests()[0].Temperature; got == nil || *got != 0 {
		t.Errorf("Temperature = %v, want 0", got)
	}
}

func TestDecideBudget(t *testing.T) {
	p, err := templates(t).Render(&turn().Input)
	if err != nil {
		t.Fatal(err)
	}
	size := len(p.System) + len(p.Messages[0].Text) + len(llm.DecisionSchema(turn()))
	need := (size + 2) / 3
	paid := llmtest.Answer{Text: "prose", Usage: llm.Usage{Input: need, Output: 7, Cost: 0.5}}
	for _, c := range []struct {
		name    string
		budget  llm.Budget
		answers []llmtest.Answer
		calls   int
		want    string // in the error; "" for none
	}{
		{"none", llm.Budget{}, []llmtest.Answer{paid, paid, llmtest.Text(hello)}, 3, ""},
		{"enough", llm.Budget{Tokens: need + 99, Cost: 0.01}, []llmtest.Answer{llmtest.Text(hello)}, 1, ""},
		{"one token short", llm.Budget{Tokens: need + 98}, nil, 0, fmt.Sprintf("has about %d tokens, its answer 99 or more, and %d of %d are left", need, need+98, need+98)},
		{"negative tokens", llm.Budget{Tokens: -1}, nil, 0, "0 of -1 are left"},
		{"negative cost", llm.Budget{Cost: -1}, nil, 0, "nothing is left of -1"},
		{"none for a repair", llm.Budget{Tokens: 2*need + 99}, []llmtest.Answer{paid}, 1, fmt.Sprintf("and %d of %d are left", need+92, 2*need+99)},
		{"enough for a repair", llm.Budget{Tokens: 3*need + 99}, []llmtest.Answer{paid, llmtest.Text(hello)}, 2, ""},
		{"no money for a repair", llm.Budget{Cost: 0.5}, []llmtest.Answer{paid}, 1, "nothing is left of 0.5; 0.5 is spent"},
		{"money for a repair", llm.Budget{Cost: 0.51}, []llmtest.Answer{paid, llmtest.Text(hello)}, 2, ""},
		{"none to ask again", llm.Budget{Cost: 0.5}, []llmtest.Answer{{Text: "", Usage: llm.Usage{Cost: 0.5}}}, 1, "nothing is left of 0.5"},
		{"an endpoint that does not count", llm.Budget{Tokens: 2*need - 1}, []llmtest.Answer{llmtest.Text("prose")}, 1, "are left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tn := turn()
			tn.Budget = c.budget
			_, _, client, err := decide(t, tn, c.answers...)
			if n := len(client.Requests()); n != c.calls {
				t.Errorf("%d requests, want %d", n, c.calls)
			}
			switch {
			case c.want == "" && err != nil:
				t.Errorf("Decide = %v", err)
			case c.want != "" && (!errors.Is(err, llm.ErrBudget) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("Decide = %v, want an ErrBudget with %q", err, c.want)
			case c.want != "" && c.calls == 1 && llm.UsageOf(err) != c.answers[0].Usage && !llm.UsageOf(err).Estimated:
				t.Errorf("UsageOf(%v) = %+v, want %+v", err, llm.UsageOf(err), c.answers[0].Usage)
			}
		})
	}
}

// TestDecideEstimates checks that budgets are enforced for an endpoint without counts, by estimates.
func TestDecideEstimates(t *testing.T) {
	need := (sizeOf(firstRequest(t)) + 2) / 3
	told := llm.Usage{Input: 10, Output: 1}
	for _, c := range []struct {
		name    string
		answers []llmtest.Answer
		want    llm.Usage
	}{
		{"told", []llmtest.Answer{{Text: hello, Usage: told}}, told},
		{"not told", []llmtest.Answer{llmtest.Text(hello)}, llm.Usage{Input: need, Output: (len(hello) + 2) / 3, Estimated: true}},
		{"one of two", []llmtest.Answer{{Text: "{", Cut: true}, {Text: hello, Usage: told}}, llm.Usage{Input: need + 10, Output: 2, Estimated: true}},
		{"nothing was said", []llmtest.Answer{llmtest.Text(""), {Text: hello, Usage: told}}, told},
	} {
		d, _, _, err := decide(t, turn(), c.answers...)
		if err != nil {
			t.Fatal(err)
		}
		if d.Usage != c.want {
			t.Errorf("%s: usage %+v, want %+v", c.name, d.Usage, c.want)
		}
	}
}

// TestDecideUsageIsPlausible checks that no counts of an endpoint make the cost negative, or the sum overflow.
func TestDecideUsageIsPlausible(t *testing.T) {
	const most = 1 << 40
	for _, c := range []struct{ first, want llm.Usage }{
		{llm.Usage{Input: math.MaxInt, Cached: math.MaxInt, Output: math.MaxInt, Cost: math.MaxFloat64}, llm.Usage{Input: most + 100, Cached: most, Output: most + 1, Cost: 1e12 + 1}},
		{llm.Usage{Input: 1, Cached: math.MinInt, Output: math.MinInt, Cost: -5}, llm.Usage{Input: 101, Output: 1, Cost: 1}},
		{llm.Usage{Input: math.MinInt, Output: 1, Cost: math.NaN()}, llm.Usage{Input: 100, Output: 2, Cost: 1}},
		{llm.Usage{Input: 1, Cost: math.Inf(1)}, llm.Usage{Input: 101, Output: 1, Cost: 1}},
	} {
		d, _, _, err := decide(t, turn(), llmtest.Answer{Text: "prose", Usage: c.first}, llmtest.Answer{Text: hello, Usage: llm.Usage{Input: 100, Output: 1, Cost: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if d.Usage != c.want {
			t.Errorf("after %+v: usage %+v, want %+v", c.first, d.Usage, c.want)
		}
	}
	tn := turn()
	tn.Budget.Tokens = 100_000
	_, _, client, err := decide(t, tn, llmtest.Answer{Text: "prose", Usage: llm.Usage{Input: math.MaxInt, Output: math.MaxInt}}, llmtest.Text(hello))
	if n := len(client.Requests()); n != 1 || !errors.Is(err, llm.ErrBudget) {
		t.Errorf("after a count above all budgets: %d requests, %v, want one and an ErrBudget", n, err)
	}
}

// TestDecideEndless checks that an endless reply is ended, and not retried with more tokens.
func TestDecideEndless(t *testing.T) {
	for _, c := range []struct{ limit, most int }{{0, llm.MaxDecision}, {99, 64 << 10}, {10_000, 80_000}, {math.MaxInt, llm.MaxDecision}} {
		pieces := slices.Repeat([]string{strings.Repeat(" and on", 1000)}, 160)
		client := llmtest.Script(llmtest.Answer{Pieces: pieces}, llmtest.Text(hello))
		tn := turn()
		tn.Budget.Tokens = 1 << 40
		_, err := llm.NewDecider(client, templates(t), &llm.DeciderOptions{MaxTokens: c.limit}).Decide(t.Context(), tn, nil)
		if n := len(client.Requests()); n != 1 || !errors.Is(err, llm.ErrLength) || errors.Is(err, llm.ErrBudget) || !strings.Contains(err.Error(), "does not end") {
			t.Errorf("MaxTokens %d: %d requests, %v, want one and an ErrLength", c.limit, n, err)
		}
		if got, want := llm.UsageOf(err).Output, (c.most+2)/3; got != want {
			t.Errorf("MaxTokens %d: about %d tokens were read, want %d", c.limit, got, want)
		}
	}
}

// TestDecideBudgetBoundsTheAnswer checks that an answer may have what the budget leaves, also the second one, which may be longer.
func TestDecideBudgetBoundsTheAnswer(t *testing.T) {
	const limit = 1000
	need := (sizeOf(firstRequest(t)) + 2) / 3
	for _, c := range []struct {
		name   string
		max    int   // of the options
		budget int   // of tokens
		asked  []int // MaxTokens of the requests
		want   error
	}{
		{"enough", limit, 3*need + 10*limit, []int{limit, 2 * limit}, llm.ErrLength},
		{"some", limit, need + limit/2, []int{limit / 2}, llm.ErrBudget},
		{"no limit", 0, need + limit/2, []int{limit / 2}, llm.ErrBudget},
		{"not for one that is longer", limit, 2*need + 2*limit, []int{limit}, llm.ErrLength},
		{"for one that is a bit longer", limit, 2*need + 2*limit + 100, []int{limit, limit + 100}, llm.ErrBudget},
		{"not for a short one", 0, need + 50, nil, llm.ErrBudget},
	} {
		t.Run(c.name, func(t *testing.T) {
			long := llmtest.Func(func(_ context.Context, r *llm.Request) llmtest.Answer {
				return llmtest.Fail(&llm.Error{Kind: llm.ErrLength, Usage: llm.Usage{Input: need, Output: r.MaxTokens}})
			})
			client := llmtest.Script(long, long, long)
			tn := turn()
			tn.Budget.Tokens = c.budget
			_, err := llm.NewDecider(client, templates(t), &llm.DeciderOptions{MaxTokens: c.max}).Decide(t.Context(), tn, nil)
			if !errors.Is(err, c.want) || (c.want == llm.ErrLength && errors.Is(err, llm.ErrBudget)) {
				t.Errorf("Decide = %v, want %v", err, c.want)
			}
			if spent := llm.UsageOf(err).Tokens(); spent > c.budget {
				t.Errorf("%d tokens are spent, of %d", spent, c.budget)
			}
			var asked []int
			for _, r := range client.Requests() {
				asked = append(asked, r.MaxTokens)
			}
			if diff := cmp.Diff(c.asked, asked); diff != "" {
				t.Errorf("MaxTokens (-want +got):\n%s", diff)
			}
		})
	}
}

// firstRequest returns a decider's first request for turn().
func firstRequest(t *testing.T) *llm.Request {
	t.Helper()
	_, _, client, err := decide(t, turn(), llmtest.Text(hello))
	if err != nil {
		t.Fatal(err)
	}
	return client.Requests()[0]
}

// TestDecideCanceledWhileCut checks that a context's error is not retried.
func TestDecideCanceledWhileCut(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	client := llmtest.Script(llmtest.Func(func(context.Context, *llm.Request) llmtest.Answer {
		return llmtest.Answer{Pieces: []string{hello[:28]}, Err: llm.ErrTruncated}
	}), llmtest.Text(hello))
	_, err := llm.NewDecider(client, templates(t), nil).Decide(ctx, turn(), func(string) { cancel() })
	if !errors.Is(err, context.Canceled) || len(client.Requests()) != 1 {
		t.Errorf("Decide = %v after %d requests, want context.Canceled after one", err, len(client.Requests()))
	}
}

// TestRepairWithoutThoughts checks that a correction quotes the model's reply without its thoughts.
func TestRepairWithoutThoughts(t *testing.T) {
	d, said, client, err := decide(t, turn(), llmtest.Text("<think>"+hello+"</think>prose"), llmtest.Text("<think>{</think>"+hello))
	if err != nil || d.Repairs != 1 || d.Say != "Hello!" || strings.Join(said, "") != "Hello!" {
		t.Fatalf("Decide = %+v, %v, streamed %q", d, err, said)
	}
	if m := client.Requests()[1].Messages[1]; m.Text() != "prose" || m.Role != llm.RoleAssistant {
		t.Errorf("shown again: %+v, want prose", m)
	}
}
