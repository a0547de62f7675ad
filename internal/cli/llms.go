package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/fake"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// maxSilence is how long a model may send nothing, unless its settings say otherwise.
const maxSilence = 60 * time.Second

// silence returns how long ep, one of a chain of n, may send nothing when a decision may take limit. It leaves time for the next endpoint of the
// chain, or for a retry. A local model, which may have to be loaded first, gets all of the time.
func (ep *endpoint) silence(limit time.Duration, n int) time.Duration {
	switch {
	case ep.Timeout > 0:
		return time.Duration(ep.Timeout)
	case ep.local && n == 1:
		return limit * 9 / 10
	case ep.local:
		return limit / time.Duration(n+1)
	}
	return min(maxSilence, limit/time.Duration(n+1))
}

// endpoints returns everything that --llm can name: the built-in endpoints, overridden by those of the config file.
func (s *settings) endpoints() map[string]*endpoint {
	all := map[string]*endpoint{}
	for name, p := range s.providers() {
		all[name] = &p.preset
	}
	maps.Copy(all, s.llms)
	return all
}

// named returns the endpoint of a name, or of a name and a model, such as openai/gpt-5.4-mini.
func named(all map[string]*endpoint, name string) (*endpoint, bool) {
	if ep, ok := all[name]; ok {
		return ep, true
	}
	name, model, _ := strings.Cut(name, "/")
	ep, ok := all[name]
	if !ok || model == "" || ep.by.open == nil {
		return nil, false
	}
	own := *ep
	own.Model = model
	return &own, true
}

// chain returns the endpoint that --llm and --model name, followed by its fallbacks.
func (s *settings) chain() ([]*endpoint, error) {
	all := s.endpoints()
	first, ok := named(all, s.node.llm)
	if !ok {
		return nil, s.wrong("llm", " %q is not known: it is one of %s", s.node.llm, joinNames(all))
	}
	if first.Provider == "fake" {
		return nil, nil
	}
	own := *first
	own.Model, own.aside = cmp.Or(s.node.model, own.Model), s.aside
	chain := []*endpoint{&own}
	for _, name := range own.Fallback {
		next, ok := named(all, name)
		switch {
		case !ok:
			return nil, usagef("llms.%s: fallback %q is not known: it is one of %s", own.Name, name, joinNames(all))
		case next.Provider == "fake":
			return nil, usagef("llms.%s: fallback fake: it is no model, and would give other answers", own.Name)
		case slices.ContainsFunc(chain, func(ep *endpoint) bool { return ep.Name == name }):
			return nil, usagef("llms.%s: fallback %s is named twice", own.Name, name)
		}
		chain = append(chain, next)
	}
	return chain, nil
}

// checkLLM returns what is wrong with the settings of the model, without network I/O.
func (s *settings) checkLLM() error {
	if _, err := prompt.New(s.node.prompts); err != nil {
		return s.wrong("prompts", ": %w", err)
	}
	chain, err := s.chain()
	for _, ep := range chain {
		if err := ep.ready(); err != nil {
			return s.notReady(err)
		}
		if b := s.budget; b.Turn.Cost+b.Conversation.Cost+b.Day.Cost > 0 && ep.unpriced() {
			return usagef("budget: %w", errUnpriced(ep.Name))
		}
	}
	return err
}

// unpriced reports whether nobody knows what the endpoint's calls cost. A model on this machine costs nothing.
func (ep *endpoint) unpriced() bool { return ep.Price == nil && !ep.local }

func errUnpriced(name string) error {
	return fmt.Errorf("a cost cannot be bounded without prices: set price for %s in the config file, or bound tokens", name)
}

// notReady adds to an endpoint's error the name of the setting that selected it.
func (s *settings) notReady(err error) error {
	var lack *lackError
	if errors.As(err, &lack) {
		return s.wrong("llm", " %w", err)
	}
	return usageError{err}
}

// openDecider makes the decider that --llm names, with templates. closeAll closes its connections.
func (s *settings) openDecider(ctx context.Context, templates *prompt.Templates, log *slog.Logger) (_ llm.Decider, closeAll func() error, err error) {
	client, options, closeAll, err := s.openClient(ctx, log)
	if client == nil || err != nil {
		return fake.New(nil), closeAll, err
	}
	return llm.NewDecider(client, templates, options), closeAll, nil
}

// openClient makes the client of the model that --llm names, with its fallbacks; nil for fake. closeAll closes its connections.
func (s *settings) openClient(ctx context.Context, log *slog.Logger) (_ llm.Client, _ *llm.DeciderOptions, closeAll func() error, err error) {
	s.takeOnlyModel(ctx)
	if err := s.checkLLM(); err != nil {
		return nil, nil, nil, err
	}
	chain, err := s.chain()
	if err != nil || len(chain) == 0 {
		return nil, nil, func() error { return nil }, err
	}
	var closers []io.Closer
	closeAll = func() error {
		var errs []error
		for _, c := range closers {
			errs = append(errs, c.Close())
		}
		return errors.Join(errs...)
	}
	var clients []middleware.Named
	images := false // whether any endpoint takes images; the requests to others describe them instead
	for _, ep := range chain {
		if r, _, err := ep.resolved(); err == nil {
			images = images || *r.Images
		}
		c, err := ep.open(ctx)
		if err != nil {
			return nil, nil, nil, errors.Join(err, closeAll())
		}
		if closer, ok := c.(io.Closer); ok {
			closers = append(closers, closer)
		}
		clients = append(clients, middleware.Named{Name: ep.Name, Client: ep.withRetries(c, chain[0], ep.silence(s.node.llmTimeout, len(chain)), s.node.meter)})
		if m := s.node.meter; m != nil {
			clients[len(clients)-1].OnNext = func(err error) { m.FellBack(ep.metered(), err) }
		}
	}
	client := clients[0].Client
	if len(clients) > 1 {
		client = middleware.Fallback(clients, log)
	}
	return client, &llm.DeciderOptions{
		MaxTokens: chain[0].MaxTokens, Window: chain[0].ContextWindow, Images: images, ReasonFirst: chain[0].ReasonFirst,
	}, closeAll, nil
}

// ready returns why the endpoint cannot be asked, as far as it is known without network I/O, or nil.
func (ep *endpoint) ready() error {
	if _, _, err := ep.resolved(); err != nil {
		return err
	}
	_, err := ep.allHeaders()
	return err
}

// open makes the endpoint's client.
func (ep *endpoint) open(ctx context.Context) (llm.Client, error) {
	r, key, err := ep.resolved()
	if err != nil {
		return nil, usageError{err}
	}
	return ep.by.open(ctx, r, key)
}

// withRetries wraps a client with the rate limits and retries of its settings. first is the first endpoint of the chain. meter may
// be nil.
func (ep *endpoint) withRetries(c llm.Client, first *endpoint, silence time.Duration, meter middleware.Meter) llm.Client {
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
func (ep *endpoint) metered() middleware.Endpoint {
	return middleware.Endpoint{Provider: ep.Provider, Model: ep.Model}
}

// withPrices wraps a client with what each single call needs: prices and a timeout.
func (ep *endpoint) withPrices(c llm.Client, silence time.Duration) llm.Client {
	if ep.Price != nil {
		c = middleware.Prices(c, *ep.Price)
	}
	return middleware.Timeout(c, silence)
}

// withOwnSettings replaces the settings in requests that were made for the first endpoint of a chain by those of this endpoint.
type withOwnSettings struct {
	llm.Client
	ep, first *endpoint
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

// describeLLM describes the model that decides.
func (s *settings) describeLLM() string {
	chain, err := s.chain()
	if err != nil || len(chain) == 0 {
		return s.node.llm
	}
	var names []string
	for _, ep := range chain {
		names = append(names, ep.Name+" "+ep.Model)
	}
	return strings.Join(names, ", then ")
}
