package llmtest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Decider is an [llm.Decider] that decides from a script. Unlike a real one it does not check its decisions. It is safe for concurrent use.
type Decider struct {
	decide func(ctx context.Context, t *llm.Turn, n int) (*llm.Decision, error)

	mu    sync.Mutex
	turns []*llm.Turn
}

var _ llm.Decider = (*Decider)(nil)

// Decide implements [llm.Decider]. It streams the text for the user in one piece.
func (d *Decider) Decide(ctx context.Context, t *llm.Turn, stream func(text string)) (*llm.Decision, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	kept := *t
	d.turns = append(d.turns, &kept)
	n := len(d.turns) - 1
	d.mu.Unlock()
	decision, err := d.decide(ctx, t, n)
	if err != nil {
		return nil, err
	}
	if stream != nil && decision.Kind.Answers() && decision.Say != "" {
		stream(decision.Say)
	}
	return decision, nil
}

// Turns returns the turns that it was asked about so far, in order. They are shallow copies, and read-only.
func (d *Decider) Turns() []*llm.Turn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.turns)
}

// Decisions returns a decider with these decisions, in this order, each returned as a copy. A call after the last one fails.
func Decisions(ds ...llm.Decision) *Decider {
	ds = slices.Clone(ds)
	return &Decider{decide: func(_ context.Context, _ *llm.Turn, n int) (*llm.Decision, error) {
		if n >= len(ds) {
			return nil, fmt.Errorf("llmtest: call %d, but the script has %d decisions", n+1, len(ds))
		}
		d := ds[n]
		d.Delegations = slices.Clone(d.Delegations)
		return &d, nil
	}}
}

// DeciderFunc returns a decider that decides with f, which must be safe for concurrent use and may block.
func DeciderFunc(f func(ctx context.Context, t *llm.Turn) (*llm.Decision, error)) *Decider {
	return &Decider{decide: func(ctx context.Context, t *llm.Turn, _ int) (*llm.Decision, error) { return f(ctx, t) }}
}

// Respond returns a decision to answer say.
func Respond(say string) llm.Decision { return llm.Decision{Kind: llm.KindRespond, Say: say} }

// Delegate returns a decision to give work to agents.
func Delegate(ds ...llm.Delegation) llm.Decision {
	return llm.Decision{Kind: llm.KindDelegate, Delegations: ds}
}
