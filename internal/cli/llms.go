package cli

import (
	"cmp"
	"context"
	"errors"
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

// maxSilence is how long a model may be silent, unless its settings say otherwise.
const maxSilence = 60 * time.Second

// silence returns how long ep, one of a chain of n, may be silent when a decision may take limit: so long that there is
// time left for the next of the chain, or for a second try. A model that has to be loaded first is given what there is.
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

// endpoints returns everything that --llm can name: the built-in endpoints, and those of the config file in their place.
func (s *settings) endpoints() map[string]*endpoint {
	all := map[string]*endpoint{}
	for name, p := range s.providers() {
		all[name] = &p.preset
	}
	maps.Copy(all, s.llms)
	return all
}

// chain returns the endpoint that --llm names, with --model, and after it those that it falls back to.
func (s *settings) chain() ([]*endpoint, error) {
	all := s.endpoints()
	first, ok := all[s.node.llm]
	if !ok {
		return nil, s.wrong("llm", " %q is not known: it is one of %s", s.node.llm, joinNames(all))
	}
	if first.Provider == "fake" {
		return nil, nil
	}
	named := *first
	named.Model, named.aside = cmp.Or(s.node.model, named.Model), s.aside
	chain := []*endpoint{&named}
	for _, name := range named.Fallback {
		next, ok := all[name]
		switch {
		case !ok:
			return nil, usagef("llms.%s: fallback %q is not known: it is one of %s", named.Name, name, joinNames(all))
		case next.Provider == "fake":
			return nil, usagef("llms.%s: fallback fake: it is no model, and would give other answers", named.Name)
		case slices.ContainsFunc(chain, func(ep *endpoint) bool { return ep.Name == name }):
			return nil, usagef("llms.%s: fallback %s is named twice", named.Name, name)
		}
		chain = append(chain, next)
	}
	return chain, nil
}

// checkLLM says what is wrong with the settings of the model, without asking anybody.
func (s *settings) checkLLM() error {
	if _, err := prompt.New(s.node.prompts); err != nil {
		return s.wrong("prompts", ": %w", err)
	}
	chain, err := s.chain()
	for _, ep := range chain {
		if err := ep.ready(); err != nil {
			return s.notReady(err)
		}
		if b := s.budget; ep.Price == nil && !ep.local && b.Turn.Cost+b.Conversation.Cost+b.Day.Cost > 0 {
			return usagef("budget: a cost cannot be bounded without prices: set price for %s in the config file, or bound tokens", ep.Name)
		}
	}
	return err
}

// notReady says which setting named the endpoint that cannot be asked for err.
func (s *settings) notReady(err error) error {
	var lack *lackError
	if errors.As(err, &lack) {
		return s.wrong("llm", " %w", err)
	}
	return usageError{err}
}

// openDecider makes what --llm names, which is told by templates. The function that is returned ends its connections.
func (s *settings) openDecider(ctx context.Context, templates *prompt.Templates, log *slog.Logger) (_ llm.Decider, closeAll func() error, err error) {
	if err := s.checkLLM(); err != nil {
		return nil, nil, err
	}
	chain, err := s.chain()
	if err != nil || len(chain) == 0 {
		return fake.New(nil), func() error { return nil }, err
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
	images := false // of any: the others are told what is left out
	for _, ep := range chain {
		if r, _, err := ep.resolved(); err == nil {
			images = images || *r.Images
		}
		c, err := ep.open(ctx)
		if err != nil {
			return nil, nil, errors.Join(err, closeAll())
		}
		if closer, ok := c.(io.Closer); ok {
			closers = append(closers, closer)
		}
		clients = append(clients, middleware.Named{Name: ep.Name, Client: ep.guarded(c, chain[0], ep.silence(s.node.llmTimeout, len(chain)))})
	}
	client := clients[0].Client
	if len(clients) > 1 {
		client = middleware.Fallback(clients, log)
	}
	return llm.NewDecider(client, templates, &llm.DeciderOptions{MaxTokens: chain[0].MaxTokens, Window: chain[0].ContextWindow, Images: images}), closeAll, nil
}

// ready returns what keeps the endpoint from being asked, as far as it can be known without asking.
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

// guarded puts around a client what its settings ask for, where first is the endpoint that is asked first.
func (ep *endpoint) guarded(c llm.Client, first *endpoint, silence time.Duration) llm.Client {
	c = ep.measured(tempered{c, ep, first}, silence)
	c = middleware.RateLimit(c, middleware.Rate{Requests: ep.RequestsPerMinute, Tokens: ep.TokensPerMinute})
	o := &middleware.RetryOptions{}
	if ep.Retries != nil {
		o.Attempts = *ep.Retries + 1
	}
	return middleware.Retry(c, o)
}

// measured puts around a client what each single call needs.
func (ep *endpoint) measured(c llm.Client, silence time.Duration) llm.Client {
	if ep.Price != nil {
		c = middleware.Prices(c, *ep.Price)
	}
	return middleware.Timeout(c, silence)
}

// tempered gives requests what is set for this endpoint, where they are made for the one that was asked first.
type tempered struct {
	llm.Client
	ep, first *endpoint
}

func (t tempered) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	own := *r
	own.Temperature = t.ep.Temperature
	if t.ep != t.first {
		own.MaxTokens = t.most(r.MaxTokens)
	}
	return t.Client.Generate(ctx, &own)
}

// most returns how many tokens a spare's answer may have, where n are asked for: not more than are set for it. A request for
// more than the first endpoint's own comes after an answer that was too long; there the spare may write twice as many too.
func (t tempered) most(n int) int {
	own := t.ep.MaxTokens
	if t.first.MaxTokens > 0 && n > t.first.MaxTokens {
		own *= 2
	}
	if n == 0 || own == 0 {
		return max(n, own) // the one that is set
	}
	return min(n, own)
}

// describeLLM says which model decides, for people.
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
