package budget

import (
	"sync"

	"github.com/cortex-orchestrator/cortex/llm"
)

const (
	// lately is how many decisions the mean cost is of, about.
	lately = 64
	// unknown is how many decisions may be under way while the cost of none is known. Each whose cost becomes known lets as many more begin; beyond that the
	// mean counts as much more as it is of fewer than lately.
	unknown = 8
)

// expected reckons what the decisions under way will have cost, by the mean of those before. It is safe for concurrent use.
type expected struct {
	mu           sync.Mutex
	day          string // of sum
	sum          llm.Usage
	known        int     // decisions whose cost is in the means, at most lately
	tokens, cost float64 // means
	part         float64 // of all conversations that are this process's; 0: unknown
}

// Own takes note of which part of all conversations is decided about in this process, from 0 to 1. Each of several processes then counts on its part of what
// is left, since it does not know what is under way in the others.
func (s *Spending) Own(part float64) {
	s.expected.mu.Lock()
	defer s.expected.mu.Unlock()
	s.expected.part = part
}

// spent takes note of what was spent on a day according to the spend log. What is read may be older than what was written meanwhile.
func (e *expected) spent(day string, sum llm.Usage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case day > e.day:
		e.day, e.sum = day, sum
	case day == e.day && (sum.Tokens() > e.sum.Tokens() || sum.Cost > e.sum.Cost):
		e.sum = sum
	}
}

// Learn takes note of what a decision has cost.
func (s *Spending) Learn(u llm.Usage) {
	e := &s.expected
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known = min(e.known+1, lately)
	e.tokens += (float64(u.Tokens()) - e.tokens) / float64(e.known)
	e.cost += (u.Cost - e.cost) / float64(e.known)
}

// Affords reports whether the day's limit may hold one more decision beside those that are under way. When it does not, something is left of it that these
// may use up: the answer is another one when they have ended. It is true when nothing is under way, or nothing is left, which [Accounts.Allowance] says.
// Affords does not block.
func (s *Spending) Affords(underway int) bool {
	limit := s.cfg.Limits.Day
	if limit == (llm.Budget{}) || underway == 0 {
		return true
	}
	e := &s.expected
	e.mu.Lock()
	defer e.mu.Unlock()
	var spent llm.Usage
	if e.day == day(s.cfg.Now()) {
		spent = e.sum
	}
	tokens := float64(limit.Tokens - spent.Tokens())
	cost := limit.Cost - spent.Cost
	if limit.Tokens > 0 && tokens <= 0 || limit.Cost > 0 && cost <= 0 {
		return true
	}
	n := float64(underway)
	if e.part > 0 {
		n /= e.part
	}
	if underway >= unknown*(e.known+1) { // the mean of a few may be far off
		if e.known == 0 {
			return false
		}
		n *= lately / float64(e.known)
	}
	return (limit.Tokens == 0 || n*e.tokens < tokens) && (limit.Cost == 0 || n*e.cost < cost)
}
