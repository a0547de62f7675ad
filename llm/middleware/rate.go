package middleware

import (
	"context"
	"errors"
	"iter"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Rate bounds the calls of a client. A zero field is no bound.
type Rate struct {
	Requests int // per minute
	Tokens   int // per minute, read and written
}

const (
	// usualAnswer is the estimated size of an unbounded answer, in tokens.
	usualAnswer = 1024
	// bytesPerToken is low, so that code and languages other than English are not underestimated.
	bytesPerToken = 3
)

// RateLimit returns a client that makes the calls of c wait for their turn, so that together they stay within r: by turns of those for whom they are made,
// see [llm.WithRequester], and in the order of arrival. The amount of a whole minute may be used at once; it is replenished evenly.
//
// The tokens of a call are estimated before it, and corrected when its usage is known. A call that needs more tokens than r allows in a minute waits
// for a whole minute's, and later calls wait for the excess, unless it fails before any answer.
//
// When the endpoint answers with [llm.ErrRateLimited] and how long to wait, the other calls wait, too, for at most 30 s, even if r has no bounds.
//
// A call whose turn would not come before ctx's deadline, or within 10 minutes, fails at once with an [llm.ErrRateLimited] that names the limit, and
// has in its RetryAfter when the turn would have come. The end of ctx ends a wait.
func RateLimit(c llm.Client, r Rate) llm.Client {
	return &limited{c, newGate(r)}
}

type limited struct {
	client llm.Client
	gate   *gate
}

var _ llm.Client = (*limited)(nil)

func (l *limited) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		read, most := estimate(r)
		taken, err := l.gate.enter(ctx, most)
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		var usage llm.Usage
		written, failed := 0, false
		defer func() {
			used := usage.Tokens()
			switch {
			case used > 0:
			case failed && written == 0: // most likely it has cost nothing, and keeps nobody else waiting for more than a minute
				used = min(read, taken)
			default: // unknown: estimate from what was received
				used = read + written/bytesPerToken
			}
			l.gate.settle(taken, used)
		}()
		for chunk, err := range answer(ctx, l.client, r) {
			written += len(chunk.Text)
			if chunk.Done {
				usage = chunk.Usage
			}
			if err != nil {
				usage, failed = llm.UsageOf(err), true
				if e, ok := errors.AsType[*llm.Error](err); ok && errors.Is(err, llm.ErrRateLimited) {
					l.gate.hold(e.RetryAfter) // for all calls
				}
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}

// estimate returns the tokens of r, and those of r and its answer at most, or usually.
func estimate(r *llm.Request) (read, most int) {
	bytes, images := r.Size()
	read = bytes/bytesPerToken + images*llm.ImageTokens
	if r.MaxTokens > 0 {
		return read, read + r.MaxTokens
	}
	return read, read + usualAnswer
}
