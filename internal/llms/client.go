package llms

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
)

// maxSilence is how long a model may send nothing, unless its settings say otherwise.
const maxSilence = 60 * time.Second

// silence returns how long ep, one of a chain of n, may send nothing when a decision may take limit. It leaves time for the next endpoint of the
// chain, or for a retry. A local model, which may have to be loaded first, gets all of the time.
func (ep *Endpoint) silence(limit time.Duration, n int) time.Duration {
	switch {
	case ep.Timeout > 0:
		return time.Duration(ep.Timeout)
	case ep.Local && n == 1:
		return limit * 9 / 10
	case ep.Local:
		return limit / time.Duration(n+1)
	}
	return min(maxSilence, limit/time.Duration(n+1))
}

// Ready returns why the endpoint cannot be asked, as far as it is known without network I/O, or nil.
func (ep *Endpoint) Ready() error {
	if _, _, err := ep.Resolved(); err != nil {
		return err
	}
	_, err := ep.allHeaders()
	return err
}

// open makes the endpoint's client.
func (ep *Endpoint) open(ctx context.Context) (llm.Client, error) {
	r, key, err := ep.Resolved()
	if err != nil {
		return nil, usage.New(err)
	}
	return ep.by.open(ctx, r, key)
}

// Models asks an endpoint which models it has.
func (ep *Endpoint) Models(ctx context.Context) ([]string, error) {
	own := *ep
	own.Model = cmp.Or(own.Model, "any") // none is asked
	c, err := own.open(ctx)
	if err != nil {
		return nil, err
	}
	if closer, ok := c.(io.Closer); ok {
		defer closer.Close() //nolint:errcheck // nothing was written
	}
	lister, ok := c.(interface {
		Models(ctx context.Context) ([]string, error)
	})
	if !ok {
		return nil, usage.Errorf("%s does not list its models here: see its documentation", ep.Name)
	}
	models, err := lister.Models(ctx)
	if e, ok := errors.AsType[*llm.Error](err); ok {
		e.Model = ""
	}
	return models, err
}

// withRetries wraps a client with the rate limits and retries of its settings. first is the first endpoint of the chain. meter may
// be nil.
func (ep *Endpoint) withRetries(c llm.Client, first *Endpoint, silence time.Duration, meter middleware.Meter) llm.Client {
	c = middleware.Metered(ep.withPrices(withOwnSettings{c, ep, first}, silence), ep.metered(), meter)
	c = middleware.RateLimit(c, middleware.Rate{Requests: ep.RequestsPerMinute, Tokens: ep.TokensPerMinute})
	o := &middleware.RetryOptions{}
	if ep.Retries != nil {
		o.Attempts = *ep.Retries + 1
	}
	if meter != nil {
		o.OnRetry = func(err error) { meter.Retried(ep.metered(), err) }
	}
	return middleware.Retry(c, o)
}

// metered returns what the endpoint is called in metrics.
func (ep *Endpoint) metered() middleware.Endpoint {
	return middleware.Endpoint{Provider: ep.Provider, Model: ep.Model}
}

// withPrices wraps a client with what each single call needs: prices and a timeout.
func (ep *Endpoint) withPrices(c llm.Client, silence time.Duration) llm.Client {
	if ep.Price != nil {
		c = middleware.Prices(c, *ep.Price)
	}
	return middleware.Timeout(c, silence)
}

// withOwnSettings replaces the settings in requests that were made for the first endpoint of a chain by those of this endpoint.
type withOwnSettings struct {
	llm.Client
	ep, first *Endpoint
}

func (t withOwnSettings) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	own := *r
	own.Temperature = t.ep.Temperature
	if t.ep != t.first {
		own.MaxTokens = t.most(r.MaxTokens)
	}
	return t.Client.Generate(ctx, &own)
}

// most returns the limit of an answer in tokens for a fallback, where the request asks for n: at most the fallback's own limit. A request for more
// than the first endpoint's limit is a retry after an answer that was too long; then the fallback may also use twice its limit.
func (t withOwnSettings) most(n int) int {
	own := t.ep.MaxTokens
	if t.first.MaxTokens > 0 && n > t.first.MaxTokens {
		own *= 2
	}
	if n == 0 || own == 0 {
		return max(n, own) // the one that is set
	}
	return min(n, own)
}
