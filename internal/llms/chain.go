package llms

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/usage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
	plug "github.com/cortex-orchestrator/cortex/llm/provider"
)

// All returns everything that --llm can name: the built-in endpoints and those of the program's own providers, overridden by those of the config
// file.
func All(own map[string]plug.Provider, configured map[string]*Endpoint) map[string]*Endpoint {
	all := map[string]*Endpoint{}
	for name, p := range Providers(own) {
		all[name] = &p.preset
	}
	maps.Copy(all, configured)
	return all
}

// Named returns the endpoint of a name, or of a name and a model, such as openai/gpt-5.4-mini.
func Named(all map[string]*Endpoint, name string) (*Endpoint, bool) {
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

// Chain returns first, followed by its fallbacks, which are of all. The first one asks for model, unless that is "". aside names the setting whose model
// is ignored; "" for none.
func Chain(all map[string]*Endpoint, first *Endpoint, model, aside string) ([]*Endpoint, error) {
	own := *first
	own.Model, own.aside = cmp.Or(model, own.Model), aside
	chain := []*Endpoint{&own}
	for _, name := range own.Fallback {
		next, ok := Named(all, name)
		switch {
		case !ok:
			return nil, usage.Errorf("llms.%s: fallback %q is not known: it is one of %s", own.Name, name, Names(all))
		case next.Provider == "fake":
			return nil, usage.Errorf("llms.%s: fallback fake: it is no model, and would give other answers", own.Name)
		case slices.ContainsFunc(chain, func(ep *Endpoint) bool { return ep.Name == name }):
			return nil, usage.Errorf("llms.%s: fallback %s is named twice", own.Name, name)
		}
		chain = append(chain, next)
	}
	return chain, nil
}

// Unpriced reports whether nobody knows what the endpoint's calls cost. A model on this machine costs nothing.
func (ep *Endpoint) Unpriced() bool { return ep.Price == nil && !ep.Local }

// ErrUnpriced returns the error for a bound of costs where the endpoint name has no prices.
func ErrUnpriced(name string) error {
	return fmt.Errorf("a cost cannot be bounded without prices: set price for %s in the config file, or bound tokens", name)
}

// Describe names the endpoints of a chain with their models, for people.
func Describe(chain []*Endpoint) string {
	var names []string
	for _, ep := range chain {
		names = append(names, ep.Name+" "+ep.Model)
	}
	return strings.Join(names, ", then ")
}

// Open makes the client of the first endpoint of a chain, which asks the others when that one fails. A decision may take limit. meter may be nil.
// closeAll closes the connections.
func Open(ctx context.Context, chain []*Endpoint, limit time.Duration, meter middleware.Meter, log *slog.Logger) (
	_ llm.Client, _ *llm.DeciderOptions, closeAll func() error, err error,
) {
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
		if r, _, err := ep.Resolved(); err == nil {
			images = images || *r.Images
		}
		c, err := ep.open(ctx)
		if err != nil {
			return nil, nil, nil, errors.Join(err, closeAll())
		}
		if closer, ok := c.(io.Closer); ok {
			closers = append(closers, closer)
		}
		clients = append(clients, middleware.Named{Name: ep.Name, Client: ep.withRetries(c, chain[0], ep.silence(limit, len(chain)), meter)})
		if meter != nil {
			clients[len(clients)-1].OnNext = func(err error) { meter.FellBack(ep.metered(), err) }
		}
	}
	client := clients[0].Client
	if len(clients) > 1 {
		client = middleware.Fallback(clients, log)
	}
	return client, &llm.DeciderOptions{
		MaxTokens: chain[0].MaxTokens, Window: chain[0].window(), Images: images, ReasonFirst: chain[0].ReasonFirst,
	}, closeAll, nil
}

// leastWindow is the number of tokens that a prompt may have, however few a minute may have.
const leastWindow = 8192

// window returns the context window, or what a minute may have if that is less: a prompt that takes more would keep everybody waiting. 0: unknown.
func (ep *Endpoint) window() int {
	if ep.TokensPerMinute <= 0 {
		return ep.ContextWindow
	}
	most := max(ep.TokensPerMinute, leastWindow)
	return min(most, cmp.Or(ep.ContextWindow, most))
}
