package middleware

import (
	"context"
	"iter"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Price is what a million tokens cost, in any currency: the same for all models whose costs are added up.
type Price struct {
	Input  float64 `json:"input"`
	Cached float64 `json:"cached"` // of the input, what came from the provider's cache; 0 is as Input
	Output float64 `json:"output"`
}

// Cost returns what u costs. Its own Cost does not matter.
func (p Price) Cost(u llm.Usage) float64 {
	if p.Cached == 0 {
		p.Cached = p.Input
	}
	// The counts are what an endpoint says. None is below 0, and not more can be cached than there was.
	input := max(u.Input, 0)
	cached := min(max(u.Cached, 0), input)
	return (float64(input-cached)*p.Input + float64(cached)*p.Cached + float64(max(u.Output, 0))*p.Output) / 1e6
}

// Prices returns a client that fills in what each call of c cost: [llm.Usage].Cost in the last chunk, or in the error. What an
// endpoint does not count costs nothing, most likely a call that was ended early. Without any price c itself is returned.
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
