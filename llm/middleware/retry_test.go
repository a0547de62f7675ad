package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
)

func TestRetryTriesAgain(t *testing.T) {
	for _, kind := range []error{llm.ErrUnavailable, llm.ErrRateLimited, llm.ErrTruncated} {
		t.Run(kind.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := llmtest.Script(llmtest.Fail(failure(kind)), llmtest.Fail(fmt.Errorf("call: %w", kind)), llmtest.Text("yes"))
				if g := call(t, t.Context(), middleware.Retry(c, nil)); g.Err != nil || g.Text != "yes" {
					t.Errorf("got %+v", g)
				}
				if n := len(c.Requests()); n != 3 {
					t.Errorf("%d calls, want 3", n)
				}
			})
		})
	}
}

func TestRetryDoesNotTryAgain(t *testing.T) {
	unknown := errors.New("x")
	for name, err := range map[string]error{
		"empty":       llm.ErrEmpty,
		"auth":        llm.ErrAuth,
		"quota":       llm.ErrQuota,
		"model":       llm.ErrNoModel,
		"bad request": llm.ErrBadRequest,
		"too long":    llm.ErrTooLong,
		"length":      llm.ErrLength,
		"refused":     llm.ErrRefused,
		"budget":      llm.ErrBudget,
		"invalid":     llm.ErrInvalidDecision,
		"unknown":     unknown,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err != unknown { // even if combined with a temporary kind
					if c, calls := always(&llm.Error{Kind: llm.ErrRateLimited, Err: err}); call(t, t.Context(), middleware.Retry(c, nil)).Err == nil || calls() != 1 {
						t.Errorf("%d calls, want 1", calls())
					}
				}
				c, calls := always(err)
				start := time.Now()
				g := call(t, t.Context(), middleware.Retry(c, nil))
				if g.Err != err || calls() != 1 || time.Since(start) != 0 { //nolint:errorlint // the very error
					t.Errorf("err = %v after %d calls and %v, want the client's after 1", g.Err, calls(), time.Since(start))
				}
			})
		})
	}
}

// TestRetryEndsWithAnEmptyAnswer checks that an empty answer ends the attempts, even after other errors.
func TestRetryEndsWithAnEmptyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := llmtest.Script(llmtest.Fail(failure(llm.ErrUnavailable)), llmtest.Fail(failure(llm.ErrEmpty)), llmtest.Text("yes"))
		if g := call(t, t.Context(), middleware.Retry(c, nil)); !errors.Is(g.Err, llm.ErrEmpty) || len(c.Requests()) != 2 {
			t.Errorf("err = %v after %d calls, want ErrEmpty after 2", g.Err, len(c.Requests()))
		}
	})
}

func TestRetryGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			options *middleware.RetryOptions
			calls   int
			text    string
		}{
			{nil, 4, "after 4 attempts: test: model unavailable"},
			{&middleware.RetryOptions{Attempts: 2}, 2, "after 2 attempts: test: model unavailable"},
			{&middleware.RetryOptions{Attempts: 1}, 1, "test: model unavailable"},
		} {
			c, calls := always(failure(llm.ErrUnavailable))
			g := call(t, t.Context(), middleware.Retry(c, tt.options))
			if calls() != tt.calls || g.Err.Error() != tt.text || !errors.Is(g.Err, llm.ErrUnavailable) {
				t.Errorf("with %+v: %d calls, %v, want %d, %s", tt.options, calls(), g.Err, tt.calls, tt.text)
			}
		}
	})
}

func TestRetryNeverRepeatsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, calls := calling(func(int) llmtest.Answer {
			return llmtest.Answer{Text: "half", Err: failure(llm.ErrTruncated), Cut: true}
		})
		if g := call(t, t.Context(), middleware.Retry(c, nil)); g.Text != "half" || !errors.Is(g.Err, llm.ErrTruncated) || calls() != 1 {
			t.Errorf("got %+v after %d calls", g, calls())
		}
	})
}

// TestRetryAfterChunksWithoutText checks that chunks without text do not prevent a retry.
func TestRetryAfterChunksWithoutText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		c := yielding(func(_ context.Context, yield func(llm.Chunk, error) bool) {
			if calls++; yield(llm.Chunk{}, nil) && calls == 1 {
				yield(llm.Chunk{}, failure(llm.ErrUnavailable))
				return
			}
			yield(llm.Chunk{Done: true}, nil)
		})
		if g := call(t, t.Context(), middleware.Retry(c, nil)); g.Err != nil || calls != 2 {
			t.Errorf("got %+v after %d calls, want 2", g, calls)
		}
	})
}

// waits makes a call that always fails, and returns the waits between the attempts.
func waits(t *testing.T, o *middleware.RetryOptions, err error) []time.Duration {
	t.Helper()
	var at []time.Time
	c := yielding(func(_ context.Context, yield func(llm.Chunk, error) bool) {
		at = append(at, time.Now())
		yield(llm.Chunk{}, err)
	})
	call(t, t.Context(), middleware.Retry(c, o))
	var ds []time.Duration
	for i := 1; i < len(at); i++ {
		ds = append(ds, at[i].Sub(at[i-1]))
	}
	return ds
}

func TestRetryWaitsRandomlyAndLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds = 400
		bounds := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second, 5 * time.Second}
		low, high := make([]int, len(bounds)), make([]int, len(bounds))
		for range rounds {
			ds := waits(t, &middleware.RetryOptions{Attempts: 7, Max: 5 * time.Second}, failure(llm.ErrUnavailable))
			if len(ds) != len(bounds) {
				t.Fatalf("%d waits, want %d", len(ds), len(bounds))
			}
			for i, d := range ds {
				if d < 0 || d > bounds[i] {
					t.Fatalf("wait %d is %v, want at most %v", i, d, bounds[i])
				}
				if d < bounds[i]/4 {
					low[i]++
				}
				if d > bounds[i]*3/4 {
					high[i]++
				}
			}
		}
		// A quarter is expected in each: 100 of 400. Less than 40 is seven standard deviations away.
		for i := range bounds {
			if low[i] < 40 || high[i] < 40 {
				t.Errorf("wait %d: %d of %d are short and %d long", i, low[i], rounds, high[i])
			}
		}
	})
}

func TestRetryDefaultsOfWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var longest [12]time.Duration
		for range 200 {
			for i, d := range waits(t, &middleware.RetryOptions{Attempts: 13}, failure(llm.ErrUnavailable)) {
				longest[i] = max(longest[i], d)
			}
		}
		if d := longest[0]; d < 800*time.Millisecond || d > time.Second {
			t.Errorf("the longest first wait is %v, want about 1s", d)
		}
		if d := longest[11]; d < 24*time.Second || d > 30*time.Second {
			t.Errorf("the longest last wait is %v, want about 30s", d)
		}
	})
}

func TestRetryHonoursWhatTheEndpointAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, kind := range []error{llm.ErrRateLimited, llm.ErrUnavailable} {
			err := fmt.Errorf("call: %w", &llm.Error{Kind: kind, RetryAfter: 20 * time.Second})
			spread := map[time.Duration]bool{}
			for range 20 {
				for i, d := range waits(t, nil, err) {
					if most := 20*time.Second + time.Second<<i; d < 20*time.Second || d > most {
						t.Errorf("wait %d is %v, want 20s to %v", i, d, most)
					}
					spread[d] = true
				}
			}
			if len(spread) < 10 {
				t.Errorf("only %d different waits: all callers come back together", len(spread))
			}
		}
		for _, d := range waits(t, nil, &llm.Error{Kind: llm.ErrRateLimited, RetryAfter: 30 * time.Second}) {
			if d != 30*time.Second {
				t.Errorf("a wait of %v, want 30s and not more", d)
			}
		}
	})
}

func TestRetryEndsAtOnceWhenTheEndpointAsksForTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := llmtest.Script(llmtest.Fail(failure(llm.ErrUnavailable)), llmtest.Fail(&llm.Error{Kind: llm.ErrRateLimited, RetryAfter: 10 * time.Second}))
		g := call(t, t.Context(), middleware.Retry(c, &middleware.RetryOptions{Base: time.Second, Max: 9 * time.Second}))
		if want := "after 2 attempts: rate limited; try again in 10s"; g.Err.Error() != want {
			t.Errorf("err = %v, want %s", g.Err, want)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

func TestRetryAndTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := &llm.Error{Kind: llm.ErrRateLimited, RetryAfter: 5 * time.Second}
		for _, tt := range []struct {
			left  time.Duration
			calls int
		}{{5 * time.Second, 1}, {4 * time.Second, 1}, {9 * time.Second, 2}} {
			ctx, cancel := context.WithTimeout(t.Context(), tt.left)
			start := time.Now()
			c, calls := always(err)
			g := call(t, ctx, middleware.Retry(c, &middleware.RetryOptions{Max: 5 * time.Second})) // so it waits 5 s
			if calls() != tt.calls || !errors.Is(g.Err, llm.ErrRateLimited) || errors.Is(g.Err, context.DeadlineExceeded) {
				t.Errorf("with %v left: %v after %d calls, want ErrRateLimited after %d", tt.left, g.Err, calls(), tt.calls)
			}
			if d := time.Since(start); tt.calls == 1 && d != 0 {
				t.Errorf("with %v left: it took %v, want no wait", tt.left, d)
			}
			cancel()
		}
	})
}

func TestRetryWaitEndsWithCtx(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, cancel)
		start := time.Now()
		c, calls := always(&llm.Error{Kind: llm.ErrRateLimited, RetryAfter: 10 * time.Second, Usage: llm.Usage{Input: 3}})
		g := call(t, ctx, middleware.Retry(c, nil))
		if !errors.Is(g.Err, context.Canceled) || calls() != 1 || time.Since(start) != 2*time.Second {
			t.Errorf("%v after %d calls and %v, want canceled after 1 and 2s", g.Err, calls(), time.Since(start))
		}
		if u := llm.UsageOf(g.Err); u.Input != 3 {
			t.Errorf("UsageOf(%v) = %+v", g.Err, u)
		}
	})
}

func TestRetryIsOverWhenCtxIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			c := yielding(func(_ context.Context, yield func(llm.Chunk, error) bool) {
				calls++
				cancel()
				yield(llm.Chunk{}, failure(llm.ErrUnavailable))
			})
			// A zero wait ends with ctx, too.
			if g := call(t, ctx, middleware.Retry(c, &middleware.RetryOptions{Base: 1})); !errors.Is(g.Err, context.Canceled) || calls != 1 {
				t.Fatalf("%v after %d calls, want canceled after 1", g.Err, calls)
			}
		}
	})
}

func TestRetryAddsUpWhatWasSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := llmtest.Fail(&llm.Error{Kind: llm.ErrUnavailable, Usage: llm.Usage{Input: 10, Cached: 4, Output: 1, Cost: 0.5}})
		cut := llmtest.Fail(fmt.Errorf("call: %w", &llm.Error{Kind: llm.ErrTruncated, Usage: llm.Usage{Input: 10, Output: 2, Cost: 0.25}}))
		ok := llmtest.Answer{Text: "a", Usage: llm.Usage{Input: 10, Output: 3, Cost: 1}}
		g := call(t, t.Context(), middleware.Retry(llmtest.Script(failed, cut, ok), nil))
		if want := (llm.Usage{Input: 30, Cached: 4, Output: 6, Cost: 1.75}); g.Done.Usage != want {
			t.Errorf("usage = %+v, want %+v", g.Done.Usage, want)
		}
		g = call(t, t.Context(), middleware.Retry(llmtest.Script(failed, cut, cut, cut), nil))
		if want := (llm.Usage{Input: 40, Cached: 4, Output: 7, Cost: 1.25}); llm.UsageOf(g.Err) != want {
			t.Errorf("UsageOf(%v) = %+v, want %+v", g.Err, llm.UsageOf(g.Err), want)
		}
	})
}

func TestRetryStopsWhenTheCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		c := client(func(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
			return func(yield func(llm.Chunk, error) bool) {
				calls++
				yield(llm.Chunk{}, nil)
			}
		})
		for range middleware.Retry(c, nil).Generate(t.Context(), request()) {
			break
		}
		if calls != 1 {
			t.Errorf("%d calls, want 1", calls)
		}
	})
}

func TestRetryOptionsAreCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &middleware.RetryOptions{Attempts: 2}
		c, calls := always(failure(llm.ErrUnavailable))
		r := middleware.Retry(c, o)
		o.Attempts = 9
		if g := call(t, t.Context(), r); calls() != 2 || !strings.HasPrefix(g.Err.Error(), "after 2 attempts") {
			t.Errorf("%d calls, %v", calls(), g.Err)
		}
	})
}
