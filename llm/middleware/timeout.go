package middleware

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Timeout returns a client that ends a call of c with an [llm.ErrUnavailable] when nothing arrives for d, before the first chunk or between two. An
// answer that keeps arriving is never too slow; the deadline of ctx bounds that, and stays ctx's error. The time that the caller spends on a chunk
// does not count. With d <= 0 it returns c itself.
//
// Retry does not repeat such a call, and Fallback excludes the client at once: waiting as long again is unlikely to help.
//
// Timeout ends the call by cancelling the context of c, without a goroutine of its own. So it cannot end a client that ignores its context, contrary
// to the contract of [llm.Client].
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
			// A complete answer counts even when it arrives at the moment of the timeout.
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

// errSilent marks errors of Timeout.
var errSilent = errors.New("silent")

// tooLong returns the error of a call that was silent for too long. It does not wrap the cancellation of its context, which would look like that of
// the caller's own.
func (t *timed) tooLong(begun bool, u llm.Usage) error {
	message := "no answer for " + strconv.FormatFloat(t.silence.Seconds(), 'f', -1, 64) + "s"
	if begun {
		message += ", in the middle of one"
	}
	return &llm.Error{Kind: llm.ErrUnavailable, Message: message, Usage: u, Err: errSilent}
}
