package budget

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Limits bound what is spent on models. Each is looked at before every decision: when it is used up, the turn ends with
// words that say so, and what is left of the smallest is what a decision may spend. A decision that is under way when
// another one spends the rest may overdraw it.
type Limits struct {
	Turn         llm.Budget // from a user's message to its answer, with all that agents asked for in the course of it
	Conversation llm.Budget
	Day          llm.Budget // all conversations of the tenant, from midnight to midnight UTC
}

// Check returns why l cannot bound anything, or nil.
func (l *Limits) Check() error {
	for name, of := range map[string]llm.Budget{"Turn": l.Turn, "Conversation": l.Conversation, "Day": l.Day} {
		if of.Tokens < 0 || !(of.Cost >= 0) || math.IsInf(of.Cost, 0) {
			return fmt.Errorf("%s is %d tokens and a cost of %v; neither can be negative or endless, and 0 is no bound", name, of.Tokens, of.Cost)
		}
	}
	return nil
}

// Accounts are the budgets that bound a decision, with what was spent of each before it. The zero value bounds nothing.
type Accounts []account

// account is one of them.
type account struct {
	whose  string
	budget llm.Budget
	spent  llm.Usage
	advice string // to the user, when it is used up
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

// Allowance returns what a decision may spend after now was spent on it already; when an account is used up, why says so to the user.
func (all Accounts) Allowance(now llm.Usage) (left llm.Budget, why string) {
	left, used := all.least(now)
	if used != nil {
		return llm.Budget{}, used.words(now, "is used up")
	}
	return left, ""
}

// TooLittle tells the user that the account which has the least left has not enough for a decision, after now was spent on it.
func (all Accounts) TooLittle(now llm.Usage) string {
	return all.tightest(now).words(now, "has not enough left for a decision")
}

// least returns what the tightest account has left, or the account that is used up.
func (all Accounts) least(now llm.Usage) (llm.Budget, *account) {
	var least llm.Budget
	for i := range all {
		left, ok := all[i].left(now)
		if !ok {
			return llm.Budget{}, &all[i]
		}
		least = llm.Budget{Tokens: tighter(least.Tokens, left.Tokens), Cost: tighter(least.Cost, left.Cost)}
	}
	return least, nil
}

// tightest returns the account that leaves the least after now was spent, or nil when there is none.
func (all Accounts) tightest(now llm.Usage) *account {
	least, used := all.least(now)
	for i := range all {
		left, _ := all[i].left(now)
		if used == nil && (left.Tokens != 0 && left.Tokens == least.Tokens || left.Cost != 0 && left.Cost == least.Cost) {
			return &all[i]
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

// words tells the user that an account has nothing left, or not enough.
func (a *account) words(now llm.Usage, what string) string {
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
