package middleware_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
)

// pieces returns a client that yields a piece after each of these waits, and then is done. It ends with its context, and reports that on gone.
func pieces(gone chan<- error, waits ...time.Duration) llm.Client {
	return yielding(func(ctx context.Context, yield func(llm.Chunk, error) bool) {
		for _, d := range waits {
			select {
			case <-time.After(d):
			case <-ctx.Done():
				gone <- ctx.Err()
				yield(llm.Chunk{}, ctx.Err())
				return
			}
			if !yield(llm.Chunk{Text: "x"}, nil) {
				return
			}
		}
		yield(llm.Chunk{Done: true}, nil)
	})
}

func TestTimeoutEndsASilentCall(t *testing.T) {
	for name, tt := range map[string]struct {
		waits   []time.Duration
		text    string
		message string
		after   time.Duration
	}{
		"before the first chunk": {[]time.Duration{time.Hour}, "", "model unavailable: no answer for 60s", time.Minute},
		"between two": {
			[]time.Duration{time.Second, time.Second, time.Hour},
			"xx",
			"model unavailable: no answer for 60s, in the middle of one", 62 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, gone := time.Now(), make(chan error, 1)
				g := call(t, t.Context(), middleware.Timeout(pieces(gone, tt.waits...), time.Minute))
				var e *llm.Error
				if !errors.Is(g.Err, llm.ErrUnavailable) || !errors.As(g.Err, &e) || g.Err.Error() != tt.message || g.Text != tt.text {
					t.Errorf("got %q, %v, want %q, %s", g.Text, g.Err, tt.text, tt.message)
				}
				if errors.Is(g.Err, context.Canceled) {
					t.Error("the error looks like the end of the caller's context")
				}
				if d := time.Since(start); d != tt.after {
					t.Errorf("it took %v, want %v", d, tt.after)
				}
				if err := <-gone; !errors.Is(err, context.Canceled) {
					t.Errorf("the client's context ended with %v", err)
				}
			})
		})
	}
}

func TestTimeoutLetsASlowDripGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := make([]time.Duration, 500)
		for i := range waits {
			waits[i] = 30 * time.Second
		}
		if g := call(t, t.Context(), middleware.Timeout(pieces(nil, waits...), time.Minute)); g.Err != nil || len(g.Text) != 500 {
			t.Errorf("got %d pieces, %v", len(g.Text), g.Err)
		}
	})
}

func TestTimeoutDoesNotCountTheCallersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		for chunk, err := range middleware.Timeout(pieces(nil, time.Second, time.Second), time.Minute).Generate(t.Context(), request()) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; !chunk.Done {
				<-time.After(time.Hour)
			}
		}
		if n != 3 {
			t.Errorf("%d chunks, want 3", n)
		}
	})
}

func TestTimeoutAtTheEndOfCtx(t *testing.T) {
	slow := yielding(func(ctx context.Context, _ func(llm.Chunk, error) bool) {
		<-ctx.Done()
		<-time.After(2 * time.Second)
	})
	for name, tt := range map[string]struct {
		client   llm.Client
		deadline time.Duration
	}{
		"before the time is over": {pieces(make(chan error, 1), time.Hour), 59 * time.Second},
		"while the call ends":     {slow, 61 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
				defer cancel()
				g := call(t, ctx, middleware.Timeout(tt.client, time.Minute))
				if !errors.Is(g.Err, context.DeadlineExceeded) || errors.Is(g.Err, llm.ErrUnavailable) {
					t.Errorf("err = %v, want the deadline", g.Err)
				}
			})
		})
	}
}

// TestTimeoutWhenTheAnswerComesInTheLastMoment uses a client that notices its end too late to return an error.
func TestTimeoutWhenTheAnswerComesInTheLastMoment(t *testing.T) {
	for name, tt := range map[string]struct {
		last llm.Chunk
		want error
	}{"whole": {llm.Chunk{Done: true, Model: "m"}, nil}, "not whole": {llm.Chunk{Text: "late"}, llm.ErrUnavailable}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := yielding(func(ctx context.Context, yield func(llm.Chunk, error) bool) {
					<-ctx.Done()
					yield(tt.last, nil)
				})
				g := call(t, t.Context(), middleware.Timeout(c, time.Minute))
				if !errors.Is(g.Err, tt.want) || g.Done.Model != tt.last.Model || g.Text != "" {
					t.Errorf("got %+v, want %v", g, tt.want)
				}
			})
		})
	}
}

func TestTimeoutKeepsTheUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		usage := llm.Usage{Input: 5, Output: 1}
		c := yielding(func(ctx context.Context, yield func(llm.Chunk, error) bool) {
			<-ctx.Done()
			yield(llm.Chunk{}, &llm.Error{Kind: llm.ErrUnavailable, Usage: usage, Err: ctx.Err()})
		})
		if g := call(t, t.Context(), middleware.Timeout(c, time.Minute)); llm.UsageOf(g.Err) != usage {
			t.Errorf("UsageOf(%v) = %+v, want %+v", g.Err, llm.UsageOf(g.Err), usage)
		}
	})
}

func TestTimeoutPassesErrorsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := call(t, t.Context(), middleware.Timeout(llmtest.Script(llmtest.Fail(failure(llm.ErrAuth))), time.Minute))
		if !errors.Is(g.Err, llm.ErrAuth) || errors.Is(g.Err, llm.ErrUnavailable) {
			t.Errorf("err = %v, want ErrAuth", g.Err)
		}
	})
}

func TestTimeoutEndsTheContextOfACallThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inner context.Context
		c := middleware.Timeout(yielding(func(ctx context.Context, yield func(llm.Chunk, error) bool) {
			inner = ctx
			yield(llm.Chunk{Text: "a"}, nil)
		}), time.Minute)
		for range c.Generate(t.Context(), request()) {
			break
		}
		if inner.Err() == nil {
			t.Error("the caller has left and the client's context goes on")
		}
	})
}

func TestNoTimeout(t *testing.T) {
	c := llmtest.Script()
	if got := middleware.Timeout(c, 0); got != llm.Client(c) {
		t.Errorf("Timeout of 0 = %v, want the client itself", got)
	}
}
