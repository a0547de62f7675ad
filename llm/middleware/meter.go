package middleware

import (
	"context"
	"iter"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Meter is told of the calls of models. Its methods are called concurrently, and do no I/O: calls wait for them.
type Meter interface {
	// Called is called at the end of each call of an endpoint.
	Called(Call)
	// Retried is called when a call that failed with err is made again, after a pause.
	Retried(endpoint Endpoint, err error)
	// FellBack is called when a call of the endpoint failed with err, and the next one is asked in its place.
	FellBack(endpoint Endpoint, err error)
}

// Endpoint says of what a call was.
type Endpoint struct{ Provider, Model string }

// Call is what is known of a call at its end.
type Call struct {
	Endpoint
	Prompt int           // bytes of the texts of the request, without images
	Took   time.Duration // until the end of the answer
	First  time.Duration // until the first piece of it, be it of a thought; 0: there was none
	Err    error         // nil: it was answered, or the caller left before the end
}

// Metered returns a client that tells m of each call of c, an endpoint. With a nil m it returns c itself. It belongs inside of [Retry] and [RateLimit], so
// that it sees each attempt, and no pause.
func Metered(c llm.Client, of Endpoint, m Meter) llm.Client {
	if m == nil {
		return c
	}
	return &metered{c, of, m}
}

type metered struct {
	client llm.Client
	of     Endpoint
	meter  Meter
}

var _ llm.Client = (*metered)(nil)

func (t *metered) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		call := Call{Endpoint: t.of, Prompt: len(r.System) + len(r.Schema)}
		for i := range r.Messages {
			for _, p := range r.Messages[i].Parts {
				call.Prompt += len(p.Text)
			}
		}
		began := time.Now()
		defer func() {
			call.Took = time.Since(began)
			t.meter.Called(call)
		}()
		for chunk, err := range answer(ctx, t.client, r) {
			if call.Err = err; err == nil && call.First == 0 {
				call.First = max(time.Since(began), 1)
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}
