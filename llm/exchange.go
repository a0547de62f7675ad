package llm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
)

// exchange has the calls of a model for one decision or one summary, and their cost so far.
type exchange struct {
	*decider
	budget Budget
	stream func(string) // nil: none
	want   int          // tokens wanted for each answer; 0: unlimited
	spent  Usage
	// untold estimates the tokens of failed calls whose usage is unknown, so that they count towards the budget.
	untold        int
	repairs       int  // of a decision
	streamed      bool // text was shown, which the text of a later reply must not follow
	again, longer bool // a retry for that reason was made
}

// ask sends r and returns the reply, without thoughts, and the name of the model. It retries once when the model wrote nothing or the reply broke
// off, and once with twice as many tokens when the reply was too long for r.MaxTokens, which ask sets. With [ErrLength] it returns the partial reply.
func (x *exchange) ask(ctx context.Context, r *Request) (reply, model string, err error) {
	for {
		tight, err := x.afford(r)
		if err != nil {
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
			if bytes, images := r.Size(); images == 0 {
				x.gauge.measured(bytes, promptOf(&done))
			}
			return reply, done.Model, nil
		case ctx.Err() != nil || errors.Is(err, ErrRefused):
			return "", "", err
		case errors.Is(err, errEndless):
			return reply, "", err
		case !x.again && (errors.Is(err, ErrEmpty) || (text != "" && brokeOff(err))):
			x.again = true // without any text, a Client that wraps this one has retried
		case x.dropImages(r, err): // the retry has no images
		case !x.longer && errors.Is(err, ErrLength) && x.lengthen(r):
			x.longer = true
		case errors.Is(err, ErrLength) && tight:
			return reply, "", fmt.Errorf("%w: the answer could have only %d tokens: %w", ErrBudget, r.MaxTokens, err)
		case errors.Is(err, ErrLength):
			return reply, "", err
		default:
			return "", "", err
		}
	}
}

// errEndless is an [ErrLength] that more tokens would not solve.
var errEndless = fmt.Errorf("%w: the reply does not end", ErrLength)

// brokeOff reports whether err, after a partial reply, means that a retry may give a whole one. err may also wrap errors of other endpoints of a
// chain; a reply that is too long did not break off.
func brokeOff(err error) bool {
	return !errors.Is(err, ErrLength) && (errors.Is(err, ErrTruncated) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrRateLimited))
}

// mostBytes bounds a reply to r, in bytes. Tokens have at most eight bytes; the reply may contain thoughts that an endpoint does not count.
func mostBytes(r *Request) int {
	if r.MaxTokens <= 0 || r.MaxTokens > MaxDecision/8 {
		return MaxDecision
	}
	return max(8*r.MaxTokens, 64<<10)
}

// call calls the model once and returns the text, also with an error, and the last chunk.
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
		if left := mostBytes(r) - text.Len(); len(chunk.Text) > left {
			text.WriteString(chunk.Text[:left])
			return text.String(), Chunk{}, fmt.Errorf("%w: it is longer than %d bytes", errEndless, mostBytes(r))
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

// lengthen doubles the wanted length of an answer, and reports whether the window and the budget allow more than the last answer had.
func (x *exchange) lengthen(r *Request) bool {
	next := *r
	x.want *= 2
	_, err := x.afford(&next)
	return err == nil && next.MaxTokens > r.MaxTokens
}

// count adds the cost of a call. If it gave text but no counts, it estimates the tokens, so that budgets are enforced.
func (x *exchange) count(r *Request, text string, u Usage) {
	u = plausible(u)
	switch {
	case u.Tokens() > 0:
	case text == "":
		x.untold += x.gauge.prompt(r)
	default:
		u.Input, u.Output, u.Estimated = x.gauge.prompt(r), x.gauge.tokens(len(text)), true
	}
	x.spent = x.spent.Add(u)
}

// The maximum counts of a single call; sums of them do not overflow.
const (
	mostTokens = 1 << 40
	mostCost   = 1e12
)

// plausible replaces impossible counts of an endpoint.
func plausible(u Usage) Usage {
	u.Input, u.Cached, u.Output = min(max(u.Input, 0), mostTokens), min(max(u.Cached, 0), mostTokens), min(max(u.Output, 0), mostTokens)
	if !(u.Cost > 0) || math.IsInf(u.Cost, 0) {
		u.Cost = 0
	}
	u.Cost = min(u.Cost, mostCost)
	return u
}

// leastAnswer is the smallest useful bound of an answer in tokens: a shorter one would be cut, and paid for in vain.
const leastAnswer = 128

// afford sets the bound of the answer to r, and reports whether the budget limits it. It returns [ErrBudget] when there is no room for r and a short
// answer.
func (x *exchange) afford(r *Request) (tight bool, err error) {
	r.MaxTokens = x.answer(r, x.want)
	b := x.budget
	if b.Cost != 0 && x.spent.Cost >= b.Cost {
		return false, fmt.Errorf("%w: the next question to the model costs money, and nothing is left of %.4g; %.4g is spent", ErrBudget, b.Cost, x.spent.Cost)
	}
	if b.Tokens == 0 {
		return false, nil
	}
	need, left, least := x.gauge.prompt(r), b.Tokens-x.spent.Tokens()-x.untold, leastAnswer
	if r.MaxTokens > 0 {
		least = min(least, r.MaxTokens)
	}
	if need+least > left {
		return false, fmt.Errorf("%w: the next question to the model has about %d tokens, its answer %d or more, and %d of %d are left",
			ErrBudget, need, least, max(0, left), b.Tokens)
	}
	if tight = r.MaxTokens <= 0 || r.MaxTokens > left-need; tight {
		r.MaxTokens = left - need
	}
	return tight, nil
}

// fail returns err with the cost so far.
func (x *exchange) fail(err error) error { return &spentError{err, x.spent, x.repairs} }

// spentError is an error with the sum of several calls, for [UsageOf], and with how often the model was corrected, for [RepairsOf].
type spentError struct {
	error
	spent   Usage
	repairs int
}

func (e *spentError) Unwrap() error { return e.error }
func (e *spentError) Spent() Usage  { return e.spent }
