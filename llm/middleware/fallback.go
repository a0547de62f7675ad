package middleware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Named is a client with a name for errors and the log.
type Named struct {
	Name   string
	Client llm.Client
	// OnNext, if set, is called when the client failed with err, and the next one is asked. It is called concurrently.
	OnNext func(err error)
}

// Fallback returns a client that calls the first of clients, and the next one when it fails, as long as no text was passed on. clients must not be
// empty; a single client is returned itself. log may be nil.
//
// The next one is called whenever another model may succeed: the first is down, limits the rate, broke off, wrote nothing, has no quota left, does
// not know its model, does not accept its key, has too small a window, or failed in an unknown way. It is not called after
//   - ctx's end;
//   - [llm.ErrRefused]: the purpose is not to find a model that agrees;
//   - [llm.ErrBadRequest]: the request is wrong, or the endpoint is misconfigured, and a refusal may be reported like this, too;
//   - [llm.ErrLength], [llm.ErrBudget] and [llm.ErrInvalidDecision]: the caller sets the bounds.
//
// So a wrong key does not fail a turn, but it does not go unnoticed: each fallback is logged as a warning.
//
// A client that failed three times in a row, or was silent once (see [Timeout]), is called last for 30 s, so that calls do not wait for a dead
// endpoint first; then one call tries it. Nothing else is remembered between calls.
//
// The last chunk, or the error, has the usage of all clients that were called, and the chunk has the prompt of the one that answered. The error has
// the errors of all, in order and with their names; errors.Is finds the kind of each, but [llm.ErrTooLong] only when the first of clients returned
// it: conversations may be as long as that one's window allows, and its temporary failure is no reason to shorten one permanently to the window of
// another.
func Fallback(clients []Named, log *slog.Logger) llm.Client {
	switch len(clients) {
	case 0:
		panic("middleware: Fallback needs a client")
	case 1:
		return clients[0].Client
	}
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	f := &fallback{log: log}
	for _, c := range clients {
		f.members = append(f.members, &member{Named: c})
	}
	return f
}

type fallback struct {
	members []*member
	log     *slog.Logger
}

type member struct {
	Named
	breaker breaker
}

var _ llm.Client = (*fallback)(nil)

func (f *fallback) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		all := &failures{}
		var last Named
		var failure error
		for m, trial := range f.order() {
			if failure != nil {
				f.log.WarnContext(ctx, "model failed, asking the next", "model", last.Name, "next", m.Name, "err", failure)
				if last.OnNext != nil {
					last.OnNext(failure)
				}
			}
			var begun bool
			begun, failure = f.ask(ctx, m, trial, r, llm.UsageOf(all), yield)
			if failure == nil {
				return
			}
			said := failure
			if m != f.members[0] && errors.Is(failure, llm.ErrTooLong) {
				said = withUsage(errors.New(failure.Error()), llm.UsageOf(failure)) // without its kind
			}
			all.errs = append(all.errs, fmt.Errorf("%s: %w", m.Name, said))
			if begun || !othersMay(ctx, failure) {
				break
			}
			last = m.Named
		}
		yield(llm.Chunk{}, all)
	}
}

// order yields the clients in the order in which to call them, and whether the call is a trial: first those that work, then those that probably do
// not, rather than give up.
func (f *fallback) order() iter.Seq2[*member, bool] {
	return func(yield func(*member, bool) bool) {
		var left []*member
		for _, m := range f.members {
			ok, trial := m.breaker.admit()
			if !ok {
				left = append(left, m)
			} else if !yield(m, trial) {
				return
			}
		}
		for _, m := range left {
			if !yield(m, false) {
				return
			}
		}
	}
}

// ask passes on what m answers, with the usage before added. It returns m's error, which it does not pass on, and whether text preceded it; the error
// is nil when the answer is complete or the caller left the loop.
func (f *fallback) ask(ctx context.Context, m *member, trial bool, r *llm.Request, before llm.Usage, yield func(llm.Chunk, error) bool) (begun bool, failure error) {
	result := unknown
	defer func() {
		if m.breaker.report(result, trial) {
			f.log.WarnContext(ctx, "model failed several times, asking it last", "model", m.Name, "for", breakFor)
		}
	}()
	for chunk, err := range answer(ctx, m.Client, r) {
		if err != nil {
			result = outcomeOf(ctx, err)
			return begun, err
		}
		if chunk.Text != "" || chunk.Done {
			begun, result = true, works
		}
		if chunk.Done {
			chunk = added(chunk, before)
		}
		if !yield(chunk, nil) {
			break
		}
	}
	return begun, nil
}

// outcomeOf returns what err shows about the client. A client that refuses a request, or finds it too long, works.
func outcomeOf(ctx context.Context, err error) outcome {
	switch {
	case ctx.Err() != nil:
		return unknown
	case !othersMay(ctx, err), errors.Is(err, llm.ErrTooLong):
		return works
	case errors.Is(err, errSilent):
		return silent
	}
	return fails
}

// othersMay reports whether another client may succeed after err.
func othersMay(ctx context.Context, err error) bool {
	return ctx.Err() == nil &&
		!isAny(err, llm.ErrRefused, llm.ErrBadRequest, llm.ErrLength, llm.ErrBudget, llm.ErrInvalidDecision)
}

// failures are the errors of clients, in the order of the calls.
type failures struct{ errs []error }

func (f *failures) Error() string {
	texts := make([]string, len(f.errs))
	for i, err := range f.errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (f *failures) Unwrap() []error { return f.errs }
