package middleware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/llm"
)

// RetryOptions configures Retry.
type RetryOptions struct {
	Attempts int           // calls in all, including the first; 0 is 4
	Base     time.Duration // the longest wait before the second attempt, which doubles with each further one; 0 is 1 s
	Max      time.Duration // the longest wait, even if the endpoint asks for a longer one; 0 is 30 s
	// OnRetry, if set, is called when a call that failed with err is made again, after the wait. It is called concurrently.
	OnRetry func(err error)
}

// Retry returns a client that retries a call of c after [llm.ErrUnavailable], [llm.ErrRateLimited] and [llm.ErrTruncated]; never after a silence that
// [Timeout] ended, and never once it has passed on text. The decider handles [llm.ErrEmpty] with one more call: a retry here would double the cost. o
// may be nil.
//
// The waits are random, between zero and a bound that doubles (full jitter), so that calls that failed together do not return together. When the
// endpoint says how long to wait, the wait is at least that long. If it would be longer than Max, or past ctx's deadline, the call ends at once with
// the error, so that another model can be called. The end of ctx ends a wait.
//
// The last chunk, or the error, has the usage of all attempts, and the chunk has the prompt of the one that answered. An error states how many there
// were.
func Retry(c llm.Client, o *RetryOptions) llm.Client {
	t := &retried{client: c}
	if o != nil {
		t.options = *o
	}
	t.options.Attempts = cmp.Or(max(t.options.Attempts, 0), 4)
	t.options.Base = cmp.Or(max(t.options.Base, 0), time.Second)
	t.options.Max = cmp.Or(max(t.options.Max, 0), 30*time.Second)
	return t
}

type retried struct {
	client  llm.Client
	options RetryOptions
}

var _ llm.Client = (*retried)(nil)

func (t *retried) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		var usage llm.Usage
		waits := t.schedule()
		for attempt := 1; ; attempt++ {
			begun := false
			var failure error
			for chunk, err := range answer(ctx, t.client, r) {
				if err != nil {
					failure = err
					break
				}
				if chunk.Done {
					chunk = added(chunk, usage)
				}
				begun = begun || chunk.Text != ""
				if !yield(chunk, nil) || chunk.Done {
					return
				}
			}
			usage = usage.Add(llm.UsageOf(failure))
			if begun || attempt >= t.options.Attempts || !mayPass(failure) ||
				!t.pause(ctx, waits.NextBackOff(), failure) {
				if failure = ended(ctx, failure); attempt > 1 {
					failure = fmt.Errorf("after %d attempts: %w", attempt, failure)
				}
				yield(llm.Chunk{}, withUsage(failure, usage))
				return
			}
			if t.options.OnRetry != nil {
				t.options.OnRetry(failure)
			}
		}
	}
}

// schedule returns the random waits of one call: up to Base, up to twice as much, … up to Max.
func (t *retried) schedule() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{ // a wait is between 0 and twice the interval
		InitialInterval:     min(t.options.Base, t.options.Max) / 2,
		MaxInterval:         t.options.Max / 2,
		Multiplier:          2,
		RandomizationFactor: 1,
	}
}

// pause waits for the next attempt after err: for a random time, or for what the endpoint asks plus up to that time. It returns false, at once, when
// that would take too long, and when ctx ends.
func (t *retried) pause(ctx context.Context, random time.Duration, err error) bool {
	wait := random
	if e, ok := errors.AsType[*llm.Error](err); ok && e.RetryAfter > 0 {
		if e.RetryAfter > t.options.Max {
			return false
		}
		wait = min(e.RetryAfter+random, t.options.Max)
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false
	}
	return rest.For(ctx, wait) == nil && ctx.Err() == nil
}

// mayPass reports whether err is of a temporary kind, and of no permanent kind.
func mayPass(err error) bool {
	return isAny(err, llm.ErrUnavailable, llm.ErrRateLimited, llm.ErrTruncated) &&
		!isAny(err, errSilent, llm.ErrEmpty, llm.ErrQuota, llm.ErrAuth, llm.ErrNoModel, llm.ErrBadRequest, llm.ErrTooLong, llm.ErrLength,
			llm.ErrRefused, llm.ErrBudget, llm.ErrInvalidDecision)
}

func isAny(err error, kinds ...error) bool {
	return slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
}
