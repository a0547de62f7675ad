package llm

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// exchange is what a decider asks its model for one decision or one summary, and what that cost so far.
type exchange struct {
	*decider
	budget Budget
	stream func(string) // nil: none
	spent  Usage
	// untold estimates the tokens of calls that told nothing about them, so that they count against the budget.
	untold        int
	streamed      bool // words were shown; those of a later reply are not put behind them
	again, longer bool // was asked again for that reason
}

// ask sends r and returns the reply, without thoughts, and the name of the model. When the model wrote nothing, or the reply
// broke off, it asks once more; when the reply was too long for r.MaxTokens, once more with twice as much. Beside
// [ErrLength] stands what there is of the reply.
func (x *exchange) ask(ctx context.Context, r *Request) (reply, model string, err error) {
	for {
		if err := x.afford(r); err != nil {
			return "", "", err
		}
		text, done, err := x.call(ctx, r)
		x.count(r, text, done.Usage.Add(UsageOf(err)))
		reply := withoutThoughts(text)
		if err == nil && strings.TrimSpace(reply) == "" {
			err = fmt.Errorf("ask the model: %w: %d bytes of nothing but thoughts or white space", ErrEmpty, len(text))
		}
		switch {
		case err == nil:
			x.gauge.measured(size(r), done.Usage.Input)
			return reply, done.Model, nil
		case ctx.Err() != nil || errors.Is(err, ErrRefused):
			return "", "", err
		case !x.again && (errors.Is(err, ErrEmpty) || (errors.Is(err, ErrTruncated) && text != "")):
			x.again = true // without a word of it, a cut answer was tried again by a Client around this one
		case !x.longer && errors.Is(err, ErrLength) && x.lengthen(r):
			x.longer = true
		case errors.Is(err, ErrLength):
			return reply, "", err
		default:
			return "", "", err
		}
	}
}

// call calls the model once and returns what it wrote, also beside an error, and its last chunk.
func (x *exchange) call(ctx context.Context, r *Request) (string, Chunk, error) {
	emit := func(string) {}
	if x.stream != nil && !x.streamed {
		emit = func(text string) {
			x.streamed = true
			x.stream(text)
		}
	}
	var text strings.Builder
	say := newSayReader(emit)
	for chunk, err := range x.client.Generate(ctx, r) {
		if err != nil {
			if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
				err = fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return text.String(), Chunk{}, fmt.Errorf("ask the model: %w", err)
		}
		if text.Len()+len(chunk.Text) > MaxDecision {
			return text.String(), Chunk{}, fmt.Errorf("%w: the reply is longer than %d bytes", ErrInvalidDecision, MaxDecision)
		}
		text.WriteString(chunk.Text)
		say.write(chunk.Text)
		if chunk.Done {
			return text.String(), chunk, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return text.String(), Chunk{}, fmt.Errorf("ask the model: %w", err)
	}
	return text.String(), Chunk{}, fmt.Errorf("ask the model: %w after %d bytes", ErrTruncated, text.Len())
}

// lengthen doubles r.MaxTokens, as far as the window goes, and reports whether that is more.
func (x *exchange) lengthen(r *Request) bool {
	more := x.answer(r, 2*r.MaxTokens)
	if more <= r.MaxTokens {
		return false
	}
	r.MaxTokens = more
	return true
}

// count adds what a call cost.
func (x *exchange) count(r *Request, text string, u Usage) {
	x.spent = x.spent.Add(u)
	if u.Tokens() == 0 {
		x.untold += x.gauge.tokens(size(r) + len(text))
	}
}

// afford returns an [ErrBudget] when the budget has no room for r.
func (x *exchange) afford(r *Request) error {
	need, used := x.gauge.tokens(size(r)), x.spent.Tokens()+x.untold
	switch b := x.budget; {
	case b.Tokens != 0 && used+need > b.Tokens:
		return fmt.Errorf("%w: the next question to the model has about %d tokens, and %d of %d are left", ErrBudget, need, max(0, b.Tokens-used), b.Tokens)
	case b.Cost != 0 && x.spent.Cost >= b.Cost:
		return fmt.Errorf("%w: the next question to the model costs money, and nothing is left of %.4g; %.4g is spent", ErrBudget, b.Cost, x.spent.Cost)
	}
	return nil
}

// fail returns err with what was spent.
func (x *exchange) fail(err error) error { return &spentError{err, x.spent} }

// spentError is an error with the sum over several calls, for [UsageOf].
type spentError struct {
	error
	spent Usage
}

func (e *spentError) Unwrap() error { return e.error }
func (e *spentError) Spent() Usage  { return e.spent }
