package budget

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
)

// TestAllowance checks that the tightest limit bounds a decision, and which text the user gets when nothing is left.
func TestAllowance(t *testing.T) {
	limits := Limits{Turn: llm.Budget{Tokens: 100}, Conversation: llm.Budget{Tokens: 500, Cost: 2}}
	for name, test := range map[string]struct {
		limits             Limits
		turn, conversation llm.Usage
		now                llm.Usage
		left               llm.Budget
		why                string
		tightest           string
	}{
		"no bound":      {turn: llm.Usage{Input: 1e6}},
		"nothing spent": {limits: limits, left: llm.Budget{Tokens: 100, Cost: 2}, tightest: "turn"},
		"the turn's":    {limits: limits, turn: llm.Usage{Input: 60}, conversation: llm.Usage{Input: 60, Cost: 0.5}, left: llm.Budget{Tokens: 40, Cost: 1.5}, tightest: "turn"},
		"the conversation's": {
			limits: limits, turn: llm.Usage{Input: 10}, conversation: llm.Usage{Input: 470, Cost: 0.5}, left: llm.Budget{Tokens: 30, Cost: 1.5},
			tightest: "conversation",
		},
		"spent just now": {limits: limits, now: llm.Usage{Input: 30, Output: 20, Cost: 1}, left: llm.Budget{Tokens: 50, Cost: 1}, tightest: "turn"},
		"used up": {
			limits: limits, turn: llm.Usage{Input: 90}, now: llm.Usage{Output: 10},
			why:      "The budget for this request is used up (100 of 100 tokens). Ask for less at once, or have the budget of a turn raised.",
			tightest: "turn",
		},
		"overdrawn": {
			limits: limits, conversation: llm.Usage{Input: 10, Cost: 2.00004},
			why:      "The budget for this conversation is used up (10 of 500 tokens, cost 2 of 2). Begin another one with /new, or have the budget of a conversation raised.",
			tightest: "conversation",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Config{Limits: test.limits, Now: time.Now})
			accounts, err := s.Accounts(context.Background(), test.turn, test.conversation, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			left, why := accounts.Allowance(test.now)
			if diff := cmp.Diff(test.left, left); diff != "" || why != test.why {
				t.Errorf("Allowance = %q, want %q; (-want +got):\n%s", why, test.why, diff)
			}
			if got := accounts.Tightest(test.now); got != test.tightest {
				t.Errorf("Tightest = %q, want %q", got, test.tightest)
			}
		})
	}
}

// spent is a spend log with what was spent.
type spent struct {
	usage llm.Usage
	err   error
}

func (s spent) Spent(context.Context, string, string) (llm.Usage, error) { return s.usage, s.err }
func (s spent) Spend(context.Context, string, string, llm.Usage) (llm.Usage, error) {
	return s.usage, s.err
}

// TestLeft checks which part of the day's budget is left.
func TestLeft(t *testing.T) {
	for name, test := range map[string]struct {
		day  llm.Budget
		log  spent
		left float64
		ok   bool
	}{
		"no bound":          {left: 1},
		"tokens":            {day: llm.Budget{Tokens: 100}, log: spent{usage: llm.Usage{Input: 20, Output: 5, Cost: 9}}, left: 0.75, ok: true},
		"cost, the tighter": {day: llm.Budget{Tokens: 100, Cost: 2}, log: spent{usage: llm.Usage{Input: 10, Cost: 1}}, left: 0.5, ok: true},
		"overdrawn":         {day: llm.Budget{Cost: 2}, log: spent{usage: llm.Usage{Cost: 3}}, ok: true},
		"it cannot be read": {day: llm.Budget{Cost: 2}, log: spent{err: context.DeadlineExceeded}, ok: true},
		"nothing was spent": {day: llm.Budget{Cost: 2}, left: 1, ok: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Config{Limits: Limits{Day: test.day}, Log: test.log, Now: time.Now, Timeout: time.Minute})
			left, ok, err := s.Left(t.Context())
			if left != test.left || ok != test.ok || (err != nil) != (test.log.err != nil) {
				t.Errorf("Left = %v, %v, %v, want %v, %v", left, ok, err, test.left, test.ok)
			}
		})
	}
}

// TestAffords checks that decisions under way count at the mean cost of those before, and that few are let begin while that is not known.
func TestAffords(t *testing.T) {
	const most = 1000
	// begun returns how many decisions may be under way.
	begun := func(s *Spending) (n int) {
		for n < most && s.Affords(n) {
			n++
		}
		return n
	}
	costs := func(n int) (all []llm.Usage) {
		for i := range n {
			all = append(all, llm.Usage{Input: 5 + 10*(i%2), Cost: 0.01 + 0.02*float64(i%2)})
		}
		return all
	}
	for name, test := range map[string]struct {
		day     llm.Budget
		log     spent
		decided []llm.Usage
		part    float64
		want    int
	}{
		"no bound":                    {want: most},
		"nothing is known":            {day: llm.Budget{Cost: 1}, want: unknown},
		"little is known":             {day: llm.Budget{Cost: 1}, decided: costs(2), want: 3 * unknown},
		"little is known, much left":  {day: llm.Budget{Cost: 1 << 20}, decided: costs(2), want: most},
		"cost":                        {day: llm.Budget{Cost: 3}, log: spent{usage: llm.Usage{Cost: 2}}, decided: costs(lately), want: 50},
		"tokens":                      {day: llm.Budget{Tokens: 300, Cost: 1000}, log: spent{usage: llm.Usage{Output: 100}}, decided: costs(lately), want: 20},
		"less than one":               {day: llm.Budget{Cost: 2.001}, log: spent{usage: llm.Usage{Cost: 2}}, decided: costs(lately), want: 1},
		"half of all conversations":   {day: llm.Budget{Cost: 3}, log: spent{usage: llm.Usage{Cost: 2}}, decided: costs(lately), part: 0.5, want: 25},
		"used up, which is said":      {day: llm.Budget{Cost: 2}, log: spent{usage: llm.Usage{Cost: 2}}, decided: costs(lately), want: most},
		"tokens used up, but no cost": {day: llm.Budget{Cost: 2, Tokens: 10}, log: spent{usage: llm.Usage{Input: 10}}, decided: costs(lately), want: most},
		"a model that costs nothing":  {day: llm.Budget{Cost: 2}, decided: make([]llm.Usage, lately), want: most},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Config{Limits: Limits{Day: test.day}, Log: test.log, Now: time.Now, Timeout: time.Minute})
			for _, u := range test.decided {
				s.Learn(u)
			}
			if test.part > 0 {
				s.Own(test.part)
			}
			if _, err := s.Accounts(t.Context(), llm.Usage{}, llm.Usage{}, time.Now()); err != nil {
				t.Fatal(err)
			}
			if n := begun(s); n < test.want-1 || n > test.want+1 || test.want <= unknown && n != test.want {
				t.Errorf("%d may be under way, want %d", n, test.want)
			}
		})
	}
}
