package middleware_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
)

// named gives clients the names a, b, c, …
func named(clients ...llm.Client) []middleware.Named {
	var ns []middleware.Named
	for i, c := range clients {
		ns = append(ns, middleware.Named{Name: string(rune('a' + i)), Client: c})
	}
	return ns
}

// says returns a client that always answers with text.
func says(text string) (c llm.Client, calls func() int) {
	return calling(func(int) llmtest.Answer { return llmtest.Text(text) })
}

func TestFallbackAsksTheNext(t *testing.T) {
	for _, kind := range []error{
		llm.ErrUnavailable, llm.ErrRateLimited, llm.ErrTruncated, llm.ErrEmpty, llm.ErrQuota, llm.ErrAuth, llm.ErrNoModel,
		llm.ErrTooLong, errors.New("unknown"),
	} {
		t.Run(kind.Error(), func(t *testing.T) {
			first, _ := always(failure(kind))
			second, _ := says("yes")
			if g := call(t, t.Context(), middleware.Fallback(named(first, second), nil)); g.Err != nil || g.Text != "yes" {
				t.Errorf("got %+v", g)
			}
		})
	}
}

func TestFallbackDoesNotAskTheNext(t *testing.T) {
	for _, kind := range []error{llm.ErrRefused, llm.ErrBadRequest, llm.ErrLength, llm.ErrBudget, llm.ErrInvalidDecision} {
		t.Run(kind.Error(), func(t *testing.T) {
			first, _ := always(failure(kind))
			second, calls := says("yes")
			g := call(t, t.Context(), middleware.Fallback(named(first, second), nil))
			if !errors.Is(g.Err, kind) || calls() != 0 || g.Err.Error() != "a: test: "+kind.Error() {
				t.Errorf("err = %v, the second was called %d times", g.Err, calls())
			}
		})
	}
}

func TestFallbackIsOverWhenCtxIs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	first := yielding(func(_ context.Context, yield func(llm.Chunk, error) bool) {
		cancel()
		yield(llm.Chunk{}, failure(llm.ErrUnavailable))
	})
	second, calls := says("yes")
	g := call(t, ctx, middleware.Fallback(named(first, second), nil))
	if !errors.Is(g.Err, context.Canceled) || calls() != 0 {
		t.Errorf("err = %v, the second was called %d times", g.Err, calls())
	}
}

func TestFallbackNotAfterText(t *testing.T) {
	first, _ := calling(func(int) llmtest.Answer { return llmtest.Answer{Text: "half", Err: failure(llm.ErrUnavailable)} })
	second, calls := says("yes")
	g := call(t, t.Context(), middleware.Fallback(named(first, second), nil))
	if !errors.Is(g.Err, llm.ErrUnavailable) || g.Text != "half" || calls() != 0 {
		t.Errorf("got %+v, the second was called %d times", g, calls())
	}
}

func TestFallbackWhenAllFail(t *testing.T) {
	one := &llm.Error{Kind: llm.ErrAuth, Provider: "one", Usage: llm.Usage{Input: 1}}
	two := &llm.Error{Kind: llm.ErrUnavailable, Provider: "two", RetryAfter: time.Second, Usage: llm.Usage{Input: 2, Cost: 1}}
	c := middleware.Fallback(named(llmtest.Script(llmtest.Fail(one)), llmtest.Script(llmtest.Fail(two)), llmtest.Script(llmtest.Fail(llm.ErrQuota))), nil)
	g := call(t, t.Context(), c)
	for _, kind := range []error{llm.ErrAuth, llm.ErrUnavailable, llm.ErrQuota} {
		if !errors.Is(g.Err, kind) {
			t.Errorf("errors.Is(%v, %v) = false", g.Err, kind)
		}
	}
	if want := "a: one: not authorized; b: two: model unavailable; try again in 1s; c: quota used up"; g.Err.Error() != want {
		t.Errorf("err = %v, want %s", g.Err, want)
	}
	if got, want := llm.UsageOf(g.Err), (llm.Usage{Input: 3, Cost: 1}); got != want {
		t.Errorf("UsageOf(err) = %+v, want %+v", got, want)
	}
}

func TestFallbackAddsUpWhatWasSpent(t *testing.T) {
	first, _ := always(&llm.Error{Kind: llm.ErrEmpty, Usage: llm.Usage{Input: 5, Output: 1, Cost: 0.5}})
	second := llmtest.Script(llmtest.Answer{Text: "a", Usage: llm.Usage{Input: 6, Output: 2, Cost: 1}})
	g := call(t, t.Context(), middleware.Fallback(named(first, second), nil))
	if want := (llm.Usage{Input: 11, Output: 3, Cost: 1.5}); g.Done.Usage != want {
		t.Errorf("usage = %+v, want %+v", g.Done.Usage, want)
	}
}

// TestFallbackTooLong checks that the small window of a fallback does not make the conversation too long for the first client.
func TestFallbackTooLong(t *testing.T) {
	long := func(provider string) llm.Client {
		return llmtest.Script(llmtest.Fail(&llm.Error{Kind: llm.ErrTooLong, Provider: provider, Usage: llm.Usage{Input: 7}}))
	}
	down := func() llm.Client { c, _ := always(failure(llm.ErrUnavailable)); return c }
	for name, tt := range map[string]struct {
		clients []llm.Client
		want    bool
	}{
		"the first is down":         {[]llm.Client{down(), long("small")}, false},
		"the first does not fit":    {[]llm.Client{long("big"), down()}, true},
		"none fits":                 {[]llm.Client{long("big"), long("small")}, true},
		"the first of many is down": {[]llm.Client{down(), long("small"), long("tiny")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := call(t, t.Context(), middleware.Fallback(named(tt.clients...), nil))
			if errors.Is(g.Err, llm.ErrTooLong) != tt.want {
				t.Errorf("errors.Is(%q, ErrTooLong) = %v, want %v", g.Err, !tt.want, tt.want)
			}
			said := strings.Count(g.Err.Error(), "prompt too long")
			if spent := llm.UsageOf(g.Err).Input; said == 0 || spent != 7*said {
				t.Errorf("%q has the usage %d, want 7 for each that says so", g.Err, spent)
			}
		})
	}
}

// switched returns a client that fails with *err while that is not nil.
func switched(err *error) (c llm.Client, calls func() int) {
	return calling(func(int) llmtest.Answer {
		if *err != nil {
			return llmtest.Fail(*err)
		}
		return llmtest.Text("first")
	})
}

func TestFallbackLeavesOutWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down error = failure(llm.ErrUnavailable)
		first, calls := switched(&down)
		second, _ := says("second")
		c := middleware.Fallback(named(first, second), nil)
		expect := func(when, text string, n int) {
			t.Helper()
			if g := call(t, t.Context(), c); g.Err != nil || g.Text != text || calls() != n {
				t.Errorf("%s: %q, %v; the first was called %d times; want %q and %d", when, g.Text, g.Err, calls(), text, n)
			}
		}
		expect("first failure", "second", 1)
		expect("second", "second", 2)
		expect("third", "second", 3)
		expect("left out", "second", 3)
		<-time.After(29 * time.Second)
		expect("still", "second", 3)
		<-time.After(time.Second)
		expect("a trial that fails", "second", 4)
		expect("left out again", "second", 4)
		<-time.After(30 * time.Second)
		down = nil
		expect("a trial that works", "first", 5)
		expect("as if nothing had been", "first", 6)
		down = failure(llm.ErrUnavailable)
		expect("it takes three again", "second", 7)
		expect("it takes three again", "second", 8)
		down = nil
		expect("in a row", "first", 9)
		down = failure(llm.ErrUnavailable)
		expect("in a row", "second", 10)
		expect("in a row", "second", 11)
		expect("in a row", "second", 12)
		expect("left out", "second", 12)
	})
}

func TestFallbackMakesOneTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		calls := 0
		first := yielding(func(ctx context.Context, yield func(llm.Chunk, error) bool) {
			if calls++; calls <= 3 {
				yield(llm.Chunk{}, failure(llm.ErrUnavailable))
				return
			}
			select {
			case <-release:
				yield(llm.Chunk{Text: "first"}, nil)
				yield(llm.Chunk{Done: true}, nil)
			case <-ctx.Done():
			}
		})
		second, _ := says("second")
		c := middleware.Fallback(named(first, second), nil)
		for range 3 {
			call(t, t.Context(), c)
		}
		<-time.After(30 * time.Second)

		// A trial that the caller cancels is inconclusive: the next call is a trial.
		ctx, cancel := context.WithCancel(t.Context())
		given := make(chan got)
		go func() { given <- call(t, ctx, c) }()
		synctest.Wait()
		if g := call(t, t.Context(), c); g.Text != "second" || calls != 4 {
			t.Errorf("during a trial: %q after %d calls of the first, want second after 4", g.Text, calls)
		}
		cancel()
		if g := <-given; !errors.Is(g.Err, context.Canceled) {
			t.Errorf("err = %v, want canceled", g.Err)
		}

		go func() { given <- call(t, t.Context(), c) }()
		synctest.Wait()
		for range 5 {
			if g := call(t, t.Context(), c); g.Text != "second" || calls != 5 {
				t.Errorf("during a trial: %q after %d calls of the first, want second after 5", g.Text, calls)
			}
		}
		close(release)
		if g := <-given; g.Text != "first" {
			t.Errorf("the trial got %+v", g)
		}
		if g := call(t, t.Context(), c); g.Text != "first" {
			t.Errorf("after the trial: %+v", g)
		}
	})
}

// TestFallbackWhatIsNoFailureOfTheClient checks that errors that are not about the endpoint do not count against it, and show that it works.
func TestFallbackWhatIsNoFailureOfTheClient(t *testing.T) {
	for _, kind := range []error{llm.ErrTooLong, llm.ErrRefused, llm.ErrBadRequest, llm.ErrLength} {
		t.Run(kind.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var err error
				first, calls := switched(&err)
				second, _ := says("second")
				c := middleware.Fallback(named(first, second), nil)
				down := failure(llm.ErrUnavailable)
				for _, err = range []error{down, down, failure(kind), down, down, failure(kind), failure(kind), failure(kind), failure(kind)} {
					call(t, t.Context(), c)
				}
				if calls() != 9 {
					t.Errorf("the first was called %d times, want 9", calls())
				}
			})
		})
	}
}

func TestFallbackCanceledCallsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		first := yielding(func(ctx context.Context, yield func(llm.Chunk, error) bool) {
			calls++
			<-ctx.Done()
			yield(llm.Chunk{}, ctx.Err())
		})
		second, _ := says("second")
		c := middleware.Fallback(named(first, second), nil)
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			call(t, ctx, c)
			cancel()
		}
		if calls != 5 {
			t.Errorf("the first was called %d times, want 5", calls)
		}
	})
}

func TestFallbackBrokenOffAnswersCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, calls := calling(func(int) llmtest.Answer { return llmtest.Answer{Text: "half", Cut: true} })
		second, _ := says("second")
		c := middleware.Fallback(named(first, second), nil)
		for range 3 {
			if g := call(t, t.Context(), c); g.Text != "half" || !errors.Is(g.Err, llm.ErrTruncated) {
				t.Errorf("got %+v", g)
			}
		}
		if g := call(t, t.Context(), c); g.Text != "second" || calls() != 3 {
			t.Errorf("got %+v, the first was called %d times", g, calls())
		}
	})
}

// TestFallbackAnswersThatAreLeftCount checks that an answer whose loop the caller has left shows that the client works.
func TestFallbackAnswersThatAreLeftCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err error = failure(llm.ErrUnavailable)
		first, calls := switched(&err)
		second, _ := says("second")
		c := middleware.Fallback(named(first, second), nil)
		for i := range 8 {
			if err = failure(llm.ErrUnavailable); i == 2 || i == 5 {
				err = nil
			}
			for range c.Generate(t.Context(), request()) {
				break
			}
		}
		if calls() != 8 {
			t.Errorf("the first was called %d times, want 8", calls())
		}
	})
}

func TestFallbackAsksAllTheSameWhenAllAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down error = failure(llm.ErrUnavailable)
		first, calls := switched(&down)
		second, seconds := always(failure(llm.ErrQuota))
		c := middleware.Fallback(named(first, second), nil)
		for range 5 {
			if g := call(t, t.Context(), c); g.Err == nil || g.Err.Error() != "a: test: model unavailable; b: test: quota used up" {
				t.Errorf("err = %v", g.Err)
			}
		}
		if calls() != 5 || seconds() != 5 {
			t.Errorf("%d and %d calls, want 5 each", calls(), seconds())
		}
		down = nil
		if g := call(t, t.Context(), c); g.Text != "first" {
			t.Errorf("got %+v", g)
		}
		if g := call(t, t.Context(), c); g.Text != "first" {
			t.Errorf("got %+v", g)
		}
	})
}

// TestFallbackAsksWhatIsLeftOutLast checks that excluded clients are called after the others, rather than giving up.
func TestFallbackAsksWhatIsLeftOutLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down, down2 error = failure(llm.ErrUnavailable), nil
		first, _ := switched(&down)
		second, _ := switched(&down2)
		c := middleware.Fallback(named(first, second), nil)
		for range 3 {
			call(t, t.Context(), c)
		}
		down2 = failure(llm.ErrAuth)
		if g := call(t, t.Context(), c); g.Err == nil || g.Err.Error() != "b: test: not authorized; a: test: model unavailable" {
			t.Errorf("err = %v", g.Err)
		}
	})
}

func TestFallbackLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
		first, _ := always(failure(llm.ErrAuth))
		second, _ := says("my answer")
		c := middleware.Fallback(named(first, second), log)
		r := &llm.Request{System: "my system", Messages: []llm.Message{llm.User("my words")}}
		for range 4 {
			ask(t, t.Context(), c, r)
		}
		<-time.After(30 * time.Second)
		ask(t, t.Context(), c, r)
		next := `level=WARN msg="model failed, asking the next" model=a next=b err="test: not authorized"`
		left := `level=WARN msg="model failed several times, asking it last" model=a for=30s`
		want := []string{next, next, left, next, next, ""}
		if diff := cmp.Diff(want, strings.Split(out.String(), "\n")); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
		if strings.Contains(out.String(), "my ") {
			t.Error("the log has what was said")
		}
	})
}

func TestFallbackUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := yielding(func(_ context.Context, yield func(llm.Chunk, error) bool) {
			<-time.After(time.Second)
			yield(llm.Chunk{}, failure(llm.ErrUnavailable))
		})
		second := yielding(func(_ context.Context, yield func(llm.Chunk, error) bool) {
			_ = yield(llm.Chunk{Text: "second"}, nil) && yield(llm.Chunk{Done: true}, nil)
		})
		c := middleware.Fallback(named(first, second), nil)
		done := make(chan got)
		for i := range 300 {
			go func() {
				<-time.After(time.Duration(i) * 300 * time.Millisecond)
				done <- call(t, t.Context(), c)
			}()
		}
		for range 300 {
			if g := <-done; g.Err != nil || g.Text != "second" {
				t.Errorf("got %+v", g)
			}
		}
	})
}

func TestFallbackOfOneAndOfNone(t *testing.T) {
	c := llmtest.Script()
	if got := middleware.Fallback(named(c), nil); got != llm.Client(c) {
		t.Errorf("Fallback of one client = %v, want the client itself", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("Fallback of no client does not panic")
		}
	}()
	middleware.Fallback(nil, nil)
}
