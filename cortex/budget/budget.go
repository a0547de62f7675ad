package budget

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Limits bound what is spent on models. Each is checked before every decision: when one is used up, the turn ends and its answer says so; else
// a decision may spend what the tightest limit has left. Concurrent decisions may together overdraw a limit, see [Spending.Affords].
type Limits struct {
	Turn         llm.Budget // from a user's message to its answer, with all turns that agents ask for on the way
	Conversation llm.Budget
	Day          llm.Budget // all conversations of the tenant, from midnight to midnight UTC
}

// Check returns an error if a limit is negative, infinite or not a number.
func (l *Limits) Check() error {
	for name, of := range map[string]llm.Budget{"Turn": l.Turn, "Conversation": l.Conversation, "Day": l.Day} {
		if of.Tokens < 0 || !(of.Cost >= 0) || math.IsInf(of.Cost, 0) {
			return fmt.Errorf("%s is %d tokens and a cost of %v; neither can be negative or endless, and 0 is no bound", name, of.Tokens, of.Cost)
		}
	}
	return nil
}

// Accounts are the limits of a decision, each with what was spent before it. The zero value limits nothing.
type Accounts []account

// account is one limit and what was spent of it.
type account struct {
	scope  string // turn, conversation or day
	whose  string // the same for the user
	budget llm.Budget
	spent  llm.Usage
	advice string // for the user, when it is used up
}

// left returns what remains after another now was spent; ok is false when nothing remains.
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

// Allowance returns what a decision may still spend after it has spent now. When an account is used up, why tells the user so.
func (all Accounts) Allowance(now llm.Usage) (left llm.Budget, why string) {
	left, used := all.least(now)
	if used != nil {
		return llm.Budget{}, used.exhaustedText(now, "is used up")
	}
	return left, ""
}

// TooLittle returns the text for the user when the account with the least left has not enough for a decision that has spent now.
func (all Accounts) TooLittle(now llm.Usage) string {
	return all.tightest(now).exhaustedText(now, "has not enough left for a decision")
}

// Tightest returns which account has the least left after a decision has spent now: "turn", "conversation" or "day"; "" when none limits it.
func (all Accounts) Tightest(now llm.Usage) string {
	if a := all.tightest(now); a != nil {
		return a.scope
	}
	return ""
}

// least returns what the tightest account has left, or an account that is used up.
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

// tightest returns the account with the least left after now was spent, or nil when there is none.
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

// tighter returns the smaller of two limits; 0 means no limit.
func tighter[T int | float64](a, b T) T {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// exhaustedText returns the text for the user about an account that has nothing left, or not enough.
func (a *account) exhaustedText(now llm.Usage, what string) string {
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

// amount formats a cost with at most four decimals; below 0.001 it keeps two significant digits.
func amount(cost float64) string {
	if cost > 0 && cost < 0.001 {
		return strconv.FormatFloat(cost, 'g', 2, 64)
	}
	return strconv.FormatFloat(math.Round(cost*1e4)/1e4, 'f', -1, 64)
}
