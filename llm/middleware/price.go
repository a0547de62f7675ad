package middleware

import (
	"cmp"
	"context"
	"iter"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Price is the cost of a million tokens, in any currency that is the same for all models whose costs are added up.
type Price struct {
	Input  float64 `json:"input"`
	Cached float64 `json:"cached"` // of the input, what came from the provider's cache; 0: as Input
	// CacheWrite is the price of the input that was written to the provider's cache; 0: as Input.
	CacheWrite float64 `json:"cache_write"`
	Output     float64 `json:"output"`
}

// Cost returns the cost of u's tokens. It ignores u.Cost.
func (p Price) Cost(u llm.Usage) float64 {
	p.Cached, p.CacheWrite = cmp.Or(p.Cached, p.Input), cmp.Or(p.CacheWrite, p.Input)
	// The endpoint's counts may be wrong: they must not be negative, and no more can be cached than was read.
	input := max(u.Input, 0)
	cached := min(max(u.Cached, 0), input)
	written := min(max(u.CacheWrite, 0), input-cached)
	return (float64(input-cached-written)*p.Input + float64(cached)*p.Cached + float64(written)*p.CacheWrite + float64(max(u.Output, 0))*p.Output) / 1e6
}

// Prices returns a client that adds the cost of each call of c: [llm.Usage].Cost in the last chunk, or in the error. Tokens that an endpoint does not
// count cost nothing; that is usually a call that ended early. Without any price it returns c itself.
func Prices(c llm.Client, p Price) llm.Client {
	if p == (Price{}) {
		return c
	}
	return &priced{c, p}
}

type priced struct {
	client llm.Client
	price  Price
}

var _ llm.Client = (*priced)(nil)

func (p *priced) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for chunk, err := range answer(ctx, p.client, r) {
			if err != nil {
				u := llm.UsageOf(err)
				u.Cost = p.price.Cost(u)
				yield(llm.Chunk{}, withUsage(err, u))
				return
			}
			if chunk.Done {
				chunk.Usage.Cost = p.price.Cost(chunk.Usage)
			}
			if !yield(chunk, nil) {
				return
			}
		}
	}
}
