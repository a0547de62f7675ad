package llm_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// failed is an answer that ends with an error of an endpoint, after text.
func failed(kind error, text string, spent int) llmtest.Answer {
	return llmtest.Answer{Text: text, Err: &llm.Error{Kind: kind, Provider: "test", Usage: llm.Usage{Input: spent}}}
}

func answered(text string, spent int) llmtest.Answer {
	return llmtest.Answer{Text: text, Usage: llm.Usage{Input: spent}}
}

// What is worth asking again for is asked for once, with the same request, and the words of one reply are shown.
func TestDecideAsksAgain(t *testing.T) {
	half := hello[:28] // up to "Hel
	for _, c := range []struct {
		name    string
		first   llmtest.Answer
		said    string
		spent   int
		maxTok  int
		repairs int
	}{
		{"cut", failed(llm.ErrTruncated, half, 1), "Hel", 11, 99, 0},
		{"cut silently", llmtest.Answer{Text: half, Cut: true}, "Hel", 10, 99, 0},
		{"cut behind the object", llmtest.Answer{Text: hello, Cut: true}, "Hello!", 10, 99, 0},
		{"cut before the words", failed(llm.ErrTruncated, hello[:9], 1), "Hello!", 11, 99, 0},
		{"empty", failed(llm.ErrEmpty, "", 1), "Hello!", 11, 99, 0},
		{"nothing", answered("", 1), "Hello!", 11, 99, 0},
		{"white space", answered(" \n", 1), "Hello!", 11, 99, 0},
		{"thoughts only", answered("<think>"+hello+"</think>\n", 1), "Hello!", 11, 99, 0},
		{"thoughts without an end", answered("<think>"+hello, 1), "Hello!", 11, 99, 0},
		{"too long", failed(llm.ErrLength, half, 1), "Hel", 11, 198, 0},
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

// What is asked for again is bounded, and what does not become better by asking is not asked for again. The error is the
// last one, with everything that was spent.
func TestDecideGivesUp(t *testing.T) {
	half := hello[:28]
	for _, c := range []struct {
		name    string
		answers []llmtest.Answer // the error is that of the last one; an answer more would be accepted
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
		{"unavailable", []llmtest.Answer{failed(llm.ErrUnavailable, half, 1)}, llm.ErrUnavailable, 1},
		{"rate limited", []llmtest.Answer{failed(llm.ErrRateLimited, "", 1)}, llm.ErrRateLimited, 1},
		{"quota", []llmtest.Answer{failed(llm.ErrQuota, "", 1)}, llm.ErrQuota, 1},
		{"auth", []llmtest.Answer{failed(llm.ErrAuth, "", 1)}, llm.ErrAuth, 1},
		{"no model", []llmtest.Answer{failed(llm.ErrNoModel, "", 1)}, llm.ErrNoModel, 1},
		{"bad request", []llmtest.Answer{failed(llm.ErrBadRequest, "", 1)}, llm.ErrBadRequest, 1},
		{"too long a prompt", []llmtest.Answer{failed(llm.ErrTooLong, "", 1)}, llm.ErrTooLong, 1},
		{"unknown", []llmtest.Answer{{Text: half, Err: errors.ErrUnsupported}}, errors.ErrUnsupported, 0},
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

// Without a limit of its own there is nothing to double; and a window is not exceeded.
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

// No more is asked for than the window leaves, but for an estimate's sake always an eighth of it.
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
	zero = 1 // what was given is copied
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
		{"enough", llm.Budget{Tokens: need, Cost: 0.01}, []llmtest.Answer{llmtest.Text(hello)}, 1, ""},
		{"one token short", llm.Budget{Tokens: need - 1}, nil, 0, fmt.Sprintf("has about %d tokens, and %d of %d are left", need, need-1, need-1)},
		{"negative tokens", llm.Budget{Tokens: -1}, nil, 0, "0 of -1 are left"},
		{"negative cost", llm.Budget{Cost: -1}, nil, 0, "nothing is left of -1"},
		{"none for a repair", llm.Budget{Tokens: 2*need + 7}, []llmtest.Answer{paid}, 1, fmt.Sprintf("and %d of %d are left", need, 2*need+7)},
		{"enough for a repair", llm.Budget{Tokens: 3*need + 7}, []llmtest.Answer{paid, llmtest.Text(hello)}, 2, ""},
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
			case c.want != "" && c.calls == 1 && llm.UsageOf(err) != c.answers[0].Usage:
				t.Errorf("UsageOf(%v) = %+v, want %+v", err, llm.UsageOf(err), c.answers[0].Usage)
			}
		})
	}
}

// An error of a context is no reason to ask again.
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

// A model that thinks aloud is shown its reply without the thoughts.
func TestRepairWithoutThoughts(t *testing.T) {
	d, said, client, err := decide(t, turn(), llmtest.Text("<think>"+hello+"</think>prose"), llmtest.Text("<think>{</think>"+hello))
	if err != nil || d.Repairs != 1 || d.Say != "Hello!" || strings.Join(said, "") != "Hello!" {
		t.Fatalf("Decide = %+v, %v, streamed %q", d, err, said)
	}
	if m := client.Requests()[1].Messages[1]; m.Text != "prose" || m.Role != llm.RoleAssistant {
		t.Errorf("shown again: %+v, want prose", m)
	}
}
