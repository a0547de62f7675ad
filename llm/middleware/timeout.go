package middleware

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Timeout returns a client that ends a call of c when nothing has come from it for d, neither before the first chunk nor
// between two: with an [llm.ErrUnavailable] that says so. An answer that keeps coming is never too slow for it, however slow
// it is; that is for the deadline of ctx, whose end stays ctx's error. The time that the caller takes for a chunk does not
// count. d <= 0 bounds nothing: c itself is returned.
//
// Retry does not try such a call again, and Fallback leaves the client out at once: to wait as long for it once more is the
// last thing that may help.
//
// The call is ended by ending the context that c has, without a goroutine of Timeout's own. So a client that
// does not end with its context, as [llm.Client] asks, is not ended by Timeout either: nothing can end it.
func Timeout(c llm.Client, d time.Duration) llm.Client {
	if d <= 0 {
		return c
	}
	return &timed{c, d}
}

type timed struct {
	client  llm.Client
	silence time.Duration
}

var _ llm.Client = (*timed)(nil)

func (t *timed) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		call, cancel := context.WithCancel(ctx)
		defer cancel()
		timer := time.AfterFunc(t.silence, cancel)
		defer timer.Stop()
		begun := false
		for chunk, err := range answer(call, t.client, r) {
			silent := !timer.Stop()
			// A whole answer counts even when it comes in the moment in which the time is over.
			if silent && !chunk.Done && ctx.Err() == nil {
				err = t.tooLong(begun, llm.UsageOf(err))
			}
			if err != nil {
				yield(llm.Chunk{}, ended(ctx, err))
				return
			}
			if !yield(chunk, nil) {
				return
			}
			begun = true
			timer.Reset(t.silence)
		}
	}
}

// errSilent is the cause of an error of Timeout.
var errSilent = errors.New("silent")

// tooLong is the error of a call that was silent for too long. That its context was canceled is not a cause that the caller
// should find: it would look like the caller's own.
func (t *timed) tooLong(begun bool, u llm.Usage) error {
	message := "no answer for " + strconv.FormatFloat(t.silence.Seconds(), 'f', -1, 64) + "s"
	if begun {
		message += ", in the middle of one"
	}
	return &llm.Error{Kind: llm.ErrUnavailable, Message: message, Usage: u, Err: errSilent}
}
