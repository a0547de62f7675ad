package middleware

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/cortex-orchestrator/cortex/llm"
)

// answer calls c and enforces the contract of [llm.Client]: the last value is a chunk with Done, or an error; when ctx has ended, that error wraps
// ctx's.
func answer(ctx context.Context, c llm.Client, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for chunk, err := range c.Generate(ctx, r) {
			if err != nil {
				yield(llm.Chunk{}, ended(ctx, err))
				return
			}
			if !yield(chunk, nil) || chunk.Done {
				return
			}
		}
		yield(llm.Chunk{}, ended(ctx, &llm.Error{Kind: llm.ErrTruncated, Message: "the answer has no end"}))
	}
}

// ended returns err, combined with ctx's error when ctx has ended.
func ended(ctx context.Context, err error) error {
	if end := ctx.Err(); end != nil && !errors.Is(err, end) {
		return fmt.Errorf("%w: %w", end, err)
	}
	return err
}

// added returns an answer's last chunk with the usage of failed attempts added. Its Prompt stays that of the answer.
func added(last llm.Chunk, before llm.Usage) llm.Chunk {
	if last.Prompt == 0 && before.Input != 0 {
		last.Prompt = last.Usage.Input
	}
	last.Usage = before.Add(last.Usage)
	return last
}

// withUsage returns err with u as its [llm.UsageOf]. It does not modify err, which may be shared.
func withUsage(err error, u llm.Usage) error {
	if u == llm.UsageOf(err) {
		return err
	}
	if e, ok := err.(*llm.Error); ok { //nolint:errorlint // one that is wrapped cannot be replaced
		with := *e
		with.Usage = u
		return &with
	}
	return &spent{err, u}
}

// spent is an error with a usage.
type spent struct {
	error
	usage llm.Usage
}

func (s *spent) Unwrap() error    { return s.error }
func (s *spent) Spent() llm.Usage { return s.usage }
