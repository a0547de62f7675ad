package cortex

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
)

// Budget bounds what is spent on models. Each is looked at before every decision: when it is used up, the turn ends with
// words that say so, and what is left of the smallest is what a decision may spend. A decision that is under way when
// another one spends the rest may overdraw it.
type Budget struct {
	Turn         llm.Budget // from a user's message to its answer, with all that agents asked for in the course of it
	Conversation llm.Budget
	Day          llm.Budget // all conversations of the tenant, from midnight to midnight UTC
}

// check returns why b cannot be a budget, or nil.
func (b *Budget) check() error {
	for name, of := range map[string]llm.Budget{"Turn": b.Turn, "Conversation": b.Conversation, "Day": b.Day} {
		if of.Tokens < 0 || !(of.Cost >= 0) || math.IsInf(of.Cost, 0) {
			return fmt.Errorf("cortex: Config.Budget.%s is %d tokens and a cost of %v; neither can be negative or endless, and 0 is no bound", name, of.Tokens, of.Cost)
		}
	}
	return nil
}

// account is one of the budgets, with what was spent of it before this decision.
type account struct {
	whose  string
	budget llm.Budget
	spent  llm.Usage
	advice string // to the user, when it is used up
}

// accounts returns those budgets that bound something.
func (o *Orchestrator) accounts(ctx context.Context, conv *conversation.Conversation, turn *conversation.Turn, entry *conversation.Entry) ([]account, error) {
	b := &o.cfg.Budget
	if *b == (Budget{}) {
		return nil, nil
	}
	all := []account{
		{"this request", b.Turn, conv.Chain(turn).Usage.Add(entry.Usage), "Ask for less at once, or have the budget of a turn raised."},
		{"this conversation", b.Conversation, conv.Usage.Add(entry.Usage), "Begin another one with /new, or have the budget of a conversation raised."},
	}
	if b.Day != (llm.Budget{}) {
		spent, err := o.spentToday(ctx, entry.Time)
		if err != nil {
			return nil, fmt.Errorf("what was spent today: %w", err)
		}
		all = append(all, account{"today", b.Day, spent, "Go on tomorrow (UTC), or have the budget of a day raised."})
	}
	bounding := all[:0]
	for _, a := range all {
		if a.budget != (llm.Budget{}) {
			bounding = append(bounding, a)
		}
	}
	return bounding, nil
}

// left returns what is left after now more was spent; ok is false when that is nothing.
func (a *account) left(now llm.Usage) (left llm.Budget, ok bool) {
	spent := a.spent.Add(now)
	if a.budget.Tokens > 0 {
		if left.Tokens = a.budget.Tokens - spent.Tokens(); left.Tokens <= 0 {
			return llm.Budget{}, false
		}
	}
	if a.budget.Cost > 0 {
		if left.Cost = a.budget.Cost - spent.Cost; left.Cost <= 0 {
			return llm.Budget{}, false
		}
	}
	return left, true
}

// allowance returns what a decision may spend after now was spent on it already, or the account that is used up.
func allowance(accounts []account, now llm.Usage) (llm.Budget, *account) {
	var least llm.Budget
	for i := range accounts {
		left, ok := accounts[i].left(now)
		if !ok {
			return llm.Budget{}, &accounts[i]
		}
		least = llm.Budget{Tokens: tighter(least.Tokens, left.Tokens), Cost: tighter(least.Cost, left.Cost)}
	}
	return least, nil
}

// tightest returns the account that leaves the least after now was spent, or nil when there is none.
func tightest(accounts []account, now llm.Usage) *account {
	least, used := allowance(accounts, now)
	for i := range accounts {
		left, _ := accounts[i].left(now)
		if used == nil && (left.Tokens != 0 && left.Tokens == least.Tokens || left.Cost != 0 && left.Cost == least.Cost) {
			return &accounts[i]
		}
	}
	return used
}

// tighter returns the smaller of two bounds, of which 0 is none.
func tighter[T int | float64](a, b T) T {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// usedUp tells the user that an account has nothing left, or not enough.
func (a *account) usedUp(now llm.Usage, what string) string {
	spent := a.spent.Add(now)
	var of []string
	if a.budget.Tokens > 0 {
		of = append(of, fmt.Sprintf("%d of %d tokens", spent.Tokens(), a.budget.Tokens))
	}
	if a.budget.Cost > 0 {
		of = append(of, fmt.Sprintf("cost %s of %s", amount(spent.Cost), amount(a.budget.Cost)))
	}
	return fmt.Sprintf("The budget for %s %s (%s). %s", a.whose, what, strings.Join(of, ", "), a.advice)
}

// amount writes a cost with four decimals at most, or two digits of a smaller one.
func amount(cost float64) string {
	if cost > 0 && cost < 0.001 {
		return strconv.FormatFloat(cost, 'g', 2, 64)
	}
	return strconv.FormatFloat(math.Round(cost*1e4)/1e4, 'f', -1, 64)
}
