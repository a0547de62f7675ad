package middleware_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
)

// client is an [llm.Client] that is one function.
type client func(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error]

func (c client) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return c(ctx, r)
}

// yielding returns a client whose answers f yields.
func yielding(f func(ctx context.Context, yield func(llm.Chunk, error) bool)) llm.Client {
	return client(func(ctx context.Context, _ *llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) { f(ctx, yield) }
	})
}

// calling returns a client that answers the n-th call, from 0, with f(n). calls returns the number of calls.
func calling(f func(n int) llmtest.Answer) (c llm.Client, calls func() int) {
	var count atomic.Int64
	c = client(func(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
		return llmtest.Script(f(int(count.Add(1))-1)).Generate(ctx, r)
	})
	return c, func() int { return int(count.Load()) }
}

// always returns a client that always fails with err.
func always(err error) (c llm.Client, calls func() int) {
	return calling(func(int) llmtest.Answer { return llmtest.Fail(err) })
}

// got is the result of a call.
type got struct {
	Text string
	Done llm.Chunk
	Err  error
}

// call reads a whole answer, and checks that it fulfils the contract of clients.
func call(t *testing.T, ctx context.Context, c llm.Client) got {
	t.Helper()
	return ask(t, ctx, c, request())
}

func ask(t *testing.T, ctx context.Context, c llm.Client, r *llm.Request) got {
	t.Helper()
	var g got
	ended := false
	for chunk, err := range c.Generate(ctx, r) {
		if ended {
			t.Errorf("%+v, %v came after the end", chunk, err)
		}
		if err != nil {
			g.Err, ended = err, true
			continue
		}
		g.Text += chunk.Text
		if chunk.Done {
			g.Done, ended = chunk, true
		}
	}
	if !ended {
		t.Error("the answer has no end")
	}
	return g
}

func request() *llm.Request {
	return &llm.Request{System: "s", Messages: []llm.Message{llm.User("hi")}}
}

func failure(kind error) *llm.Error { return &llm.Error{Kind: kind, Provider: "test"} }

// layers returns all middlewares, each around one client, with options that do not change a successful call.
func layers() map[string]func(llm.Client) llm.Client {
	price := func(c llm.Client) llm.Client { return middleware.Prices(c, middleware.Price{Input: 1, Output: 2}) }
	timeout := func(c llm.Client) llm.Client { return middleware.Timeout(c, time.Minute) }
	limit := func(c llm.Client) llm.Client {
		return middleware.RateLimit(c, middleware.Rate{Requests: 1000, Tokens: 1e6})
	}
	retry := func(c llm.Client) llm.Client { return middleware.Retry(c, nil) }
	fall := func(c llm.Client) llm.Client {
		second, _ := always(failure(llm.ErrRefused))
		return middleware.Fallback([]middleware.Named{{Name: "first", Client: c}, {Name: "second", Client: second}}, nil)
	}
	return map[string]func(llm.Client) llm.Client{
		"price": price, "timeout": timeout, "rate": limit, "retry": retry, "fallback": fall,
		"all": func(c llm.Client) llm.Client { return fall(retry(limit(timeout(price(c))))) },
	}
}

// each runs a test for every middleware.
func each(t *testing.T, f func(t *testing.T, around func(llm.Client) llm.Client)) {
	for name, around := range layers() {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, around) }) })
	}
}

func TestAnswersArriveAsTheyWere(t *testing.T) {
	each(t, func(t *testing.T, around func(llm.Client) llm.Client) {
		script := llmtest.Script(llmtest.Answer{Pieces: []string{"one ", "", "two"}, Model: "m", Usage: llm.Usage{Input: 3, Output: 2}})
		r := &llm.Request{System: "s", Messages: []llm.Message{llm.User("hi")}, MaxTokens: 9}
		g := ask(t, t.Context(), around(script), r)
		if g.Err != nil || g.Text != "one two" || g.Done.Model != "m" || g.Done.Usage.Tokens() != 5 {
			t.Errorf("got %+v", g)
		}
		want := &llm.Request{System: "s", Messages: []llm.Message{llm.User("hi")}, MaxTokens: 9}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Errorf("the request was changed (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]*llm.Request{want}, script.Requests()); diff != "" {
			t.Errorf("the requests that arrived (-want +got):\n%s", diff)
		}
	})
}

func TestChunksAreHandedOnAtOnce(t *testing.T) {
	each(t, func(t *testing.T, around func(llm.Client) llm.Client) {
		seen := false
		c := yielding(func(_ context.Context, yield func(llm.Chunk, error) bool) {
			if !yield(llm.Chunk{Text: "first"}, nil) {
				return
			}
			if !seen {
				t.Error("the client goes on before the caller has the first chunk")
			}
			yield(llm.Chunk{Done: true}, nil)
		})
		for range around(c).Generate(t.Context(), request()) {
			seen = true
		}
	})
}

// TestPromptOfTheAnswerThatCame checks that tokens of failed attempts count in the usage, but not in the answer's prompt.
func TestPromptOfTheAnswerThatCame(t *testing.T) {
	for name, around := range map[string]func(first, second llm.Client) llm.Client{
		"retry": func(first, second llm.Client) llm.Client {
			calls := 0
			return middleware.Retry(client(func(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
				if calls++; calls == 1 {
					return first.Generate(ctx, r)
				}
				return second.Generate(ctx, r)
			}), nil)
		},
		"fallback": func(first, second llm.Client) llm.Client { return middleware.Fallback(named(first, second), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failed := llmtest.Fail(&llm.Error{Kind: llm.ErrTruncated, Usage: llm.Usage{Input: 900, Output: 5}})
				ok := llmtest.Answer{Text: "a", Usage: llm.Usage{Input: 1000, Output: 10}}
				g := call(t, t.Context(), around(llmtest.Script(failed), llmtest.Script(ok)))
				if g.Err != nil || g.Done.Prompt != 1000 || g.Done.Usage.Input != 1900 {
					t.Errorf("Done = %+v, %v, want a prompt of 1000 and an input of 1900", g.Done, g.Err)
				}
				// An inner middleware has set it already.
				within := yielding(func(_ context.Context, yield func(llm.Chunk, error) bool) {
					yield(llm.Chunk{Done: true, Prompt: 400, Usage: llm.Usage{Input: 800}}, nil)
				})
				if g := call(t, t.Context(), around(llmtest.Script(failed), within)); g.Done.Prompt != 400 {
					t.Errorf("Prompt = %d, want the 400 of the one inside", g.Done.Prompt)
				}
				if g := call(t, t.Context(), around(llmtest.Script(ok), nil)); g.Done.Prompt != 0 {
					t.Errorf("Prompt = %d, want 0: Usage says it", g.Done.Prompt)
				}
			})
		})
	}
}

// TestNothingComesAfterTheEnd checks that a client that breaks its contract does not make the middleware break it, too.
func TestNothingComesAfterTheEnd(t *testing.T) {
	for name, end := range map[string]struct {
		chunk llm.Chunk
		err   error
	}{"error": {err: failure(llm.ErrRefused)}, "done": {chunk: llm.Chunk{Done: true}}} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, around func(llm.Client) llm.Client) {
				c := yielding(func(_ context.Context, yield func(llm.Chunk, error) bool) {
					_ = yield(end.chunk, end.err) && yield(llm.Chunk{Text: "more"}, nil) && yield(llm.Chunk{Done: true}, nil)
				})
				if g := call(t, t.Context(), around(c)); g.Text != "" || !errors.Is(g.Err, end.err) {
					t.Errorf("got %+v", g)
				}
			})
		})
	}
}

func TestAnswerWithoutEndIsTruncated(t *testing.T) {
	each(t, func(t *testing.T, around func(llm.Client) llm.Client) {
		c, _ := calling(func(int) llmtest.Answer { return llmtest.Answer{Text: "half", Cut: true} })
		if g := call(t, t.Context(), around(c)); g.Text != "half" || !errors.Is(g.Err, llm.ErrTruncated) {
			t.Errorf("got %+v, want half and ErrTruncated", g)
		}
	})
}

func TestLeavingTheLoopEndsTheCall(t *testing.T) {
	each(t, func(t *testing.T, around func(llm.Client) llm.Client) {
		calls, left := 0, false
		c := yielding(func(_ context.Context, yield func(llm.Chunk, error) bool) {
			calls++
			left = !yield(llm.Chunk{Text: "a"}, nil) // yielding after this would panic
		})
		for range around(c).Generate(t.Context(), request()) {
			break
		}
		if !left || calls != 1 {
			t.Errorf("left = %v after %d calls, want true after 1", left, calls)
		}
	})
}

func TestErrorIsHandedOnAsItIs(t *testing.T) {
	each(t, func(t *testing.T, around func(llm.Client) llm.Client) {
		cause := errors.New("cause")
		e := &llm.Error{Kind: llm.ErrRefused, Provider: "p", Message: "no", Err: cause, Usage: llm.Usage{Input: 4, Output: 1}}
		kept := *e
		g := call(t, t.Context(), around(llmtest.Script(llmtest.Answer{Err: e})))
		var found *llm.Error
		if !errors.Is(g.Err, llm.ErrRefused) || !errors.Is(g.Err, cause) || !errors.As(g.Err, &found) || found.Message != "no" {
			t.Errorf("err = %v", g.Err)
		}
		if u := llm.UsageOf(g.Err); u.Input != 4 || u.Output != 1 {
			t.Errorf("UsageOf(err) = %+v", u)
		}
		if !strings.HasSuffix(g.Err.Error(), "p: model refused: no") {
			t.Errorf("Error() = %q", g.Err)
		}
		if *e != kept {
			t.Errorf("the client's error was changed to %+v", *e)
		}
	})
}

func TestEndOfCtxStaysItsError(t *testing.T) {
	waits := yielding(func(ctx context.Context, yield func(llm.Chunk, error) bool) {
		<-ctx.Done()
		yield(llm.Chunk{}, failure(llm.ErrUnavailable)) // as a provider's client may return it
	})
	silent := yielding(func(ctx context.Context, _ func(llm.Chunk, error) bool) { <-ctx.Done() })
	for name, c := range map[string]llm.Client{"another error": waits, "no error": silent} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, around func(llm.Client) llm.Client) {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				start := time.Now()
				if g := call(t, ctx, around(c)); !errors.Is(g.Err, context.DeadlineExceeded) {
					t.Errorf("err = %v, want a deadline", g.Err)
				}
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				if g := call(t, ctx, around(c)); !errors.Is(g.Err, context.Canceled) {
					t.Errorf("err = %v, want canceled", g.Err)
				}
				if d := time.Since(start); d != 4*time.Second {
					t.Errorf("it took %v, want 4s", d)
				}
			})
		})
	}
}

// TestManyCallsAtOnce checks that concurrent calls, which share a middleware's state, get their own answers.
func TestManyCallsAtOnce(t *testing.T) {
	each(t, func(t *testing.T, around func(llm.Client) llm.Client) {
		c := around(client(func(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
			return llmtest.Script(llmtest.Answer{Text: r.Messages[0].Text()}).Generate(ctx, r)
		}))
		texts := make([]string, 64)
		done := make(chan int)
		for i := range texts {
			go func() {
				r := &llm.Request{Messages: []llm.Message{llm.User(string(rune('A' + i)))}}
				texts[i] = ask(t, t.Context(), c, r).Text
				done <- i
			}()
		}
		for range texts {
			i := <-done
			if texts[i] != string(rune('A'+i)) {
				t.Errorf("call %d got %q", i, texts[i])
			}
		}
	})
}
