package middleware

import (
	"context"
	"errors"
	"iter"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Rate bounds the calls of a client. A field that is 0 bounds nothing.
type Rate struct {
	Requests int // a minute
	Tokens   int // a minute, read and written
}

const (
	// usualAnswer is how many tokens an answer is taken to have that is not bounded.
	usualAnswer = 1024
	// bytesPerToken is low, so that code and languages other than English are not underestimated.
	bytesPerToken = 3
)

// RateLimit returns a client that makes the calls of c wait for their turn, in the order in which they come, so that all
// calls of it together stay within r. A whole minute's may be made at once; what is used comes back evenly.
//
// How many tokens a call takes is estimated before it, and put right when its usage is known. One that needs more than a
// minute's tokens waits for a whole minute's, and those after it wait for what it took too much.
//
// When the endpoint answers with [llm.ErrRateLimited] and how long to wait, the other calls wait too, for at most 30 s; also
// when r bounds nothing.
//
// A call whose turn would not come before ctx's deadline, or not within 10 minutes, ends at once with an [llm.ErrRateLimited]
// that says by which limit, and in its RetryAfter when the turn would have come. ctx's end ends a wait.
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
		written := 0
		defer func() {
			used := usage.Tokens()
			if used <= 0 { // not known: what was seen counts
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
				usage = llm.UsageOf(err)
				if e, ok := errors.AsType[*llm.Error](err); ok && errors.Is(err, llm.ErrRateLimited) {
					l.gate.hold(e.RetryAfter) // all calls
				}
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}

// estimate returns how many tokens r has, and how many it and its answer have at most, or usually.
func estimate(r *llm.Request) (read, most int) {
	bytes, images := r.Size()
	read = bytes/bytesPerToken + images*llm.ImageTokens
	if r.MaxTokens > 0 {
		return read, read + r.MaxTokens
	}
	return read, read + usualAnswer
}
