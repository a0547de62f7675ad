package cortex

import (
	"context"
	"math"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
)

// spendTimeout bounds the writing of what was spent on a decision that is being ended.
const spendTimeout = 5 * time.Second

// spent returns all that an entry cost.
func (e *Entry) spent() llm.Usage {
	if e.Decision == nil {
		return e.Usage
	}
	return e.Usage.Add(e.Decision.Usage)
}

// day names the day of a time, as a [Ledger] does.
func day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// spend adds u to what was spent today, where the store keeps that. It comes before the entry is stored: what was paid for
// is counted rather twice than not at all. It is done also when ctx has ended.
func (o *Orchestrator) spend(ctx context.Context, u llm.Usage) error {
	ledger, ok := o.cfg.Store.(Ledger)
	if !ok || u == (llm.Usage{}) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), spendTimeout)
	defer cancel()
	_, err := ledger.Spend(ctx, o.cfg.Tenant, day(o.cfg.Now()), u)
	return err
}

// maxTokens bounds what one decision is taken to have read or written, so that no sum of them overflows.
const maxTokens = 1 << 40

// credible returns u as far as it can be: an endpoint may report anything, and what is not a number cannot be stored.
func credible(u llm.Usage) llm.Usage {
	tokens := func(n int) int { return max(0, min(n, maxTokens)) }
	if !(u.Cost > 0) || math.IsInf(u.Cost, 0) {
		u.Cost = 0
	}
	return llm.Usage{Input: tokens(u.Input), Cached: tokens(u.Cached), Output: tokens(u.Output), Cost: u.Cost}
}
