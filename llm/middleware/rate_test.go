package middleware_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
)

// used is a client whose calls all use this many tokens.
func used(tokens int) llm.Client {
	c, _ := calling(func(int) llmtest.Answer {
		return llmtest.Answer{Text: "a", Usage: llm.Usage{Input: tokens - 1, Output: 1}}
	})
	return c
}

// sized returns a request whose estimate is this many tokens.
func sized(tokens int) *llm.Request {
	return &llm.Request{System: strings.Repeat("x", 3*(tokens-10)), MaxTokens: 10}
}

// took makes a call and returns its duration, in whole milliseconds.
func took(t *testing.T, c llm.Client, r *llm.Request) time.Duration {
	t.Helper()
	start := time.Now()
	if g := ask(t, t.Context(), c, r); g.Err != nil {
		t.Error(g.Err)
	}
	return time.Since(start).Round(time.Millisecond)
}

func tooks(t *testing.T, c llm.Client, rs ...*llm.Request) []time.Duration {
	t.Helper()
	var ds []time.Duration
	for _, r := range rs {
		ds = append(ds, took(t, c, r))
	}
	return ds
}

func TestRateLimitOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.RateLimit(used(1e9), middleware.Rate{Requests: 4})
		got := tooks(t, c, request(), request(), request(), request(), request(), request())
		want := []time.Duration{0, 0, 0, 0, 15 * time.Second, 15 * time.Second}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("waits (-want +got):\n%s", diff)
		}
		<-time.After(30 * time.Second)
		got = tooks(t, c, request(), request(), request())
		if diff := cmp.Diff([]time.Duration{0, 0, 15 * time.Second}, got); diff != "" {
			t.Errorf("waits after a pause (-want +got):\n%s", diff)
		}
	})
}

func TestRateLimitOfTokens(t *testing.T) {
	const s = time.Second
	for name, tt := range map[string]struct {
		client llm.Client
		sizes  []int
		want   []time.Duration
	}{ // 600 at first, then 10 per second
		"as estimated":           {used(300), []int{300, 300, 300}, []time.Duration{0, 0, 30 * s}},
		"less is returned":       {used(100), []int{500, 500, 500}, []time.Duration{0, 0, 10 * s}}, // 500, 400, 300 are available
		"more is owed":           {used(700), []int{300, 300, 300}, []time.Duration{0, 40 * s, 70 * s}},
		"larger than a minute's": {used(600), []int{5000, 5000, 5000}, []time.Duration{0, 60 * s, 60 * s}},
		"much more is owed":      {used(1800), []int{5000, 20}, []time.Duration{0, 122 * s}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := middleware.RateLimit(tt.client, middleware.Rate{Tokens: 600})
				var rs []*llm.Request
				for _, n := range tt.sizes {
					rs = append(rs, sized(n))
				}
				if diff := cmp.Diff(tt.want, tooks(t, c, rs...)); diff != "" {
					t.Errorf("waits (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestRateLimitEstimate(t *testing.T) {
	x := strings.Repeat("x", 150)
	for name, tt := range map[string]struct {
		request *llm.Request
		want    int
	}{
		"system":   {&llm.Request{System: x, MaxTokens: 7}, 57},
		"messages": {&llm.Request{Messages: []llm.Message{llm.User(x), llm.User(x)}, MaxTokens: 7}, 107},
		"schema":   {&llm.Request{Schema: []byte(x), MaxTokens: 7}, 57},
		"usual":    {&llm.Request{System: x}, 1074},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// The first call keeps its tokens, so the next waits for the missing ones, at 10 per second.
				release := make(chan struct{})
				c := middleware.RateLimit(yielding(func(_ context.Context, yield func(llm.Chunk, error) bool) {
					<-release
					yield(llm.Chunk{Done: true}, nil)
				}), middleware.Rate{Tokens: 6000})
				go ask(t, t.Context(), c, tt.request)
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				var e *llm.Error
				if g := ask(t, ctx, c, sized(6000)); !errors.As(g.Err, &e) {
					t.Fatalf("err = %v", g.Err)
				}
				if got := int(math.Round(e.RetryAfter.Seconds() * 100)); got != tt.want {
					t.Errorf("%d tokens were taken, want %d", got, tt.want)
				}
				close(release)
			})
		})
	}
}

// TestRateLimitWithoutUsage checks the estimate for a call without usage: what it sent, and what was received.
func TestRateLimitWithoutUsage(t *testing.T) {
	answer := strings.Repeat("a", 90)
	for name, c := range map[string]llm.Client{
		"done":  llmtest.Script(llmtest.Text(answer), llmtest.Text("")),
		"error": llmtest.Script(llmtest.Answer{Text: answer, Err: failure(llm.ErrTruncated)}, llmtest.Text("")),
		"left":  llmtest.Script(llmtest.Text(answer), llmtest.Text("")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := middleware.RateLimit(c, middleware.Rate{Tokens: 600})
				for range c.Generate(t.Context(), &llm.Request{System: strings.Repeat("x", 300), MaxTokens: 400}) {
					if name == "left" {
						break
					}
				}
				// 100 and 30 are used: 470 are available, the rest comes at 10 per second.
				if d := took(t, c, sized(600)); d != 13*time.Second {
					t.Errorf("the next call waited %v, want 13s", d)
				}
			})
		})
	}
}

// A call that fails at once, without a text, keeps others waiting for a minute at most, however large it is.
func TestRateLimitOfCallsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := calling(func(n int) llmtest.Answer {
			if n == 0 {
				return llmtest.Answer{Err: &llm.Error{Kind: llm.ErrTooLong}}
			}
			return llmtest.Answer{Text: "a", Usage: llm.Usage{Input: 1, Output: 1}}
		})
		c := middleware.RateLimit(client, middleware.Rate{Tokens: 1000})
		if g := ask(t, t.Context(), c, sized(8000)); !errors.Is(g.Err, llm.ErrTooLong) {
			t.Errorf("the large one: %v", g.Err)
		}
		if got := took(t, c, sized(1000)); got != time.Minute {
			t.Errorf("the next one waited %v", got)
		}
	})
}

func TestRateLimitKnowsTheUsageOfErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.RateLimit(llmtest.Script(llmtest.Fail(&llm.Error{Kind: llm.ErrLength, Usage: llm.Usage{Output: 200}}), llmtest.Text("")), middleware.Rate{Tokens: 600})
		if g := ask(t, t.Context(), c, sized(50)); !errors.Is(g.Err, llm.ErrLength) {
			t.Fatal(g.Err)
		}
		if d := took(t, c, sized(600)); d != 20*time.Second {
			t.Errorf("the next call waited %v, want 20s", d)
		}
	})
}

func TestRateLimitDoesNotBelieveEverything(t *testing.T) {
	for name, u := range map[string]llm.Usage{
		"large":    {Output: 1e6},
		"huge":     {Output: math.MaxInt},
		"overflow": {Input: math.MaxInt, Output: math.MaxInt},
		"negative": {Input: -1000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				c := middleware.RateLimit(yielding(func(_ context.Context, yield func(llm.Chunk, error) bool) {
					<-release
					yield(llm.Chunk{Done: true, Usage: u}, nil)
				}), middleware.Rate{Tokens: 600})
				for range 8 {
					go ask(t, t.Context(), c, sized(50))
				}
				synctest.Wait()
				close(release)
				synctest.Wait()
				<-time.After(10 * time.Minute)
				if d := took(t, c, sized(50)); d > 10*time.Second {
					t.Errorf("after 10 minutes the next call waited %v more", d)
				}
			})
		})
	}
}

func TestRateLimitGoesByOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		order := make(chan int, 8)
		c, _ := calling(func(int) llmtest.Answer { return llmtest.Text("a") })
		c = middleware.RateLimit(c, middleware.Rate{Requests: 1})
		took(t, c, request())
		for i := range 8 {
			go func() {
				ask(t, t.Context(), c, request())
				order <- i
			}()
			synctest.Wait()
		}
		var got []int
		for range 8 {
			got = append(got, <-order)
		}
		if diff := cmp.Diff([]int{0, 1, 2, 3, 4, 5, 6, 7}, got); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

// TestRateLimitGoesByTurns has somebody make more calls than there is time for: others wait for one of them, and of one requester in order.
func TestRateLimitGoesByTurns(t *testing.T) {
	for name, rate := range map[string]middleware.Rate{"requests": {Requests: 60}, "tokens": {Tokens: 60 * 100}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := middleware.RateLimit(used(100), rate)
				own := func(who string, limit time.Duration) (context.Context, context.CancelFunc) {
					return context.WithTimeout(llm.WithRequester(t.Context(), who), limit)
				}
				done := make(chan error, 500)
				for range 500 {
					go func() {
						ctx, cancel := own("mallory", 2*time.Minute)
						defer cancel()
						done <- ask(t, ctx, c, sized(100)).Err
					}()
				}
				synctest.Wait()
				for _, who := range []string{"ada", "bob"} {
					start := time.Now()
					for range 3 {
						ctx, cancel := own(who, 3*time.Second)
						if g := ask(t, ctx, c, sized(100)); g.Err != nil {
							t.Errorf("%s: %v", who, g.Err)
						}
						cancel()
					}
					if d := time.Since(start).Round(time.Millisecond); d > 6*time.Second {
						t.Errorf("three calls of %s took %v, want six seconds at most", who, d)
					}
				}
				made := 0
				for range 500 {
					switch err := <-done; {
					case err == nil:
						made++
					case !errors.Is(err, llm.ErrRateLimited) && !errors.Is(err, context.DeadlineExceeded):
						t.Error(err)
					}
				}
				if made < 170 {
					t.Errorf("%d calls of mallory were made, want all that are left", made)
				}
			})
		})
	}
}

// TestRateLimitTurnsEnd has calls that wait for their turn give up, at random: the others go on.
func TestRateLimitTurnsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.RateLimit(used(10), middleware.Rate{Requests: 60})
		done := make(chan struct{}, 300)
		for i := range 300 {
			go func() {
				ctx, cancel := context.WithCancel(llm.WithRequester(t.Context(), string(rune('a'+i%7))))
				defer cancel()
				defer time.AfterFunc(time.Duration(i%5)*time.Second, cancel).Stop()
				ask(t, ctx, c, request())
				done <- struct{}{}
			}()
		}
		for range 300 {
			<-done
		}
		if d := took(t, c, request()); d > time.Second {
			t.Errorf("then a call waited %v, want a second at most", d)
		}
	})
}

// TestRateLimitHoldsTheTurn checks that a small call does not overtake a large one that waits.
func TestRateLimitHoldsTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.RateLimit(used(400), middleware.Rate{Tokens: 600})
		took(t, c, sized(400))
		order := make(chan string, 2)
		go func() { ask(t, t.Context(), c, sized(600)); order <- "large" }()
		synctest.Wait()
		ask(t, t.Context(), c, sized(20))
		order <- "small"
		if first := <-order; first != "large" {
			t.Errorf("the %s call came first", first)
		}
		<-order
	})
}

func TestRateLimitThatTakesTooLong(t *testing.T) {
	for name, tt := range map[string]struct {
		rate     middleware.Rate
		deadline time.Duration
		want     string
	}{
		"requests":    {middleware.Rate{Requests: 1}, 59 * time.Second, "rate limited: our own limit of 1 requests a minute; try again in 1m0s"},
		"tokens":      {middleware.Rate{Tokens: 600}, 29 * time.Second, "rate limited: our own limit of 600 tokens a minute; try again in 30s"},
		"both":        {middleware.Rate{Requests: 1, Tokens: 600}, time.Second, "rate limited: our own limit of 1 requests a minute; try again in 1m0s"},
		"enough time": {middleware.Rate{Requests: 1, Tokens: 600}, 61 * time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := middleware.RateLimit(used(300), tt.rate)
				took(t, c, sized(300))
				ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
				defer cancel()
				start := time.Now()
				g := ask(t, ctx, c, sized(600))
				if tt.want == "" {
					if g.Err != nil {
						t.Error(g.Err)
					}
					return
				}
				if g.Err == nil || !errors.Is(g.Err, llm.ErrRateLimited) || g.Err.Error() != tt.want {
					t.Errorf("err = %v, want %s", g.Err, tt.want)
				}
				if time.Since(start) != 0 {
					t.Errorf("it took %v, want no wait", time.Since(start))
				}
			})
		})
	}
}

// TestRateLimitCountsTheQueue checks that a call's wait includes the calls before it.
func TestRateLimitCountsTheQueue(t *testing.T) {
	for name, rate := range map[string]middleware.Rate{"requests": {Requests: 1}, "tokens": {Tokens: 600}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := middleware.RateLimit(used(600), rate)
				took(t, c, sized(600))
				ctx, cancel := context.WithCancel(t.Context())
				for range 3 {
					go func() {
						if g := ask(t, ctx, c, sized(600)); !errors.Is(g.Err, context.Canceled) {
							t.Errorf("err = %v, want canceled", g.Err)
						}
					}()
				}
				synctest.Wait()
				wait := func() time.Duration {
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					defer cancel()
					var e *llm.Error
					if g := ask(t, ctx, c, sized(600)); !errors.As(g.Err, &e) {
						t.Fatalf("err = %v", g.Err)
					}
					return e.RetryAfter.Round(time.Millisecond)
				}
				if d := wait(); d != 4*time.Minute {
					t.Errorf("behind three others the wait is %v, want 4m", d)
				}
				// A call that gives up leaves no gap.
				cancel()
				synctest.Wait()
				if d := wait(); d != time.Minute {
					t.Errorf("when the others gave up the wait is %v, want 1m", d)
				}
				if d := took(t, c, sized(600)); d != time.Minute {
					t.Errorf("the next call waited %v, want 1m", d)
				}
				if d := took(t, c, sized(600)); d != time.Minute {
					t.Errorf("the one after it waited %v, want 1m", d)
				}
			})
		})
	}
}

// TestRateLimitOfACallThatIsOver checks that a call whose context has ended takes nothing.
func TestRateLimitOfACallThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.RateLimit(used(10), middleware.Rate{Requests: 1})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 5 {
			if g := call(t, ctx, c); !errors.Is(g.Err, context.Canceled) {
				t.Errorf("err = %v, want canceled", g.Err)
			}
		}
		if d := took(t, c, request()); d != 0 {
			t.Errorf("the next call waited %v, want no wait", d)
		}
	})
}

// TestRateLimitHeedsTheLongestWait checks that the longest of several waits that the endpoint asks for counts.
func TestRateLimitHeedsTheLongestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := calling(func(n int) llmtest.Answer {
			if n > 1 {
				return llmtest.Text("a")
			}
			return llmtest.Func(func(context.Context, *llm.Request) llmtest.Answer {
				<-time.After(time.Duration(n+1) * time.Second)
				return llmtest.Fail(&llm.Error{Kind: llm.ErrRateLimited, RetryAfter: time.Duration(20-10*n) * time.Second})
			})
		})
		c = middleware.RateLimit(c, middleware.Rate{})
		done := make(chan struct{})
		for range 2 {
			go func() { call(t, t.Context(), c); done <- struct{}{} }()
		}
		<-done
		<-done
		if d := took(t, c, request()); d != 19*time.Second { // 2 s of 21 have passed
			t.Errorf("the next call waited %v, want 19s", d)
		}
	})
}

func TestRateLimitBoundsItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.RateLimit(used(10), middleware.Rate{Requests: 1})
		took(t, c, request())
		refused := make(chan error, 50)
		for range 50 {
			go func() { refused <- call(t, context.Background(), c).Err }()
		}
		n := 0
		for range 50 {
			if err := <-refused; err != nil {
				if n++; !errors.Is(err, llm.ErrRateLimited) {
					t.Error(err)
				}
			}
		}
		if n < 40 || n > 41 { // the tenth is on the edge
			t.Errorf("%d of 50 calls were refused, want those beyond 10 minutes", n)
		}
	})
}

func TestRateLimitWaitEndsWithCtx(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.RateLimit(used(10), middleware.Rate{Requests: 1})
		took(t, c, request())
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		if g := call(t, ctx, c); !errors.Is(g.Err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("%v after %v, want canceled after 1s", g.Err, time.Since(start))
		}
		if g := call(t, ctx, c); !errors.Is(g.Err, context.Canceled) {
			t.Errorf("err = %v, want canceled", g.Err)
		}
	})
}

// TestRateLimitGivesBackToThoseThatWait checks that a waiting call continues as soon as another one returns unused tokens.
func TestRateLimitGivesBackToThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := middleware.RateLimit(yielding(func(_ context.Context, yield func(llm.Chunk, error) bool) {
			<-time.After(2 * time.Second)
			yield(llm.Chunk{Done: true, Usage: llm.Usage{Output: 10}}, nil)
		}), middleware.Rate{Tokens: 600})
		go ask(t, t.Context(), c, sized(600))
		synctest.Wait()
		if d := took(t, c, sized(500)); d != 4*time.Second { // 2 s for its turn, 2 s for itself
			t.Errorf("it took %v, want 4s", d)
		}
	})
}

func TestRateLimitHeedsTheEndpoint(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want time.Duration
	}{
		"wait":               {&llm.Error{Kind: llm.ErrRateLimited, RetryAfter: 20 * time.Second}, 20 * time.Second},
		"a long wait":        {&llm.Error{Kind: llm.ErrRateLimited, RetryAfter: time.Hour}, 30 * time.Second},
		"no wait":            {&llm.Error{Kind: llm.ErrRateLimited}, 0},
		"something else":     {&llm.Error{Kind: llm.ErrUnavailable, RetryAfter: time.Second}, 0},
		"of the kind only":   {llm.ErrRateLimited, 0},
		"not the first kind": {errors.Join(errors.New("x"), &llm.Error{Kind: llm.ErrRateLimited, RetryAfter: 20 * time.Second}), 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, calls := calling(func(n int) llmtest.Answer {
					if n == 0 {
						return llmtest.Fail(tt.err)
					}
					return llmtest.Text("a")
				})
				c = middleware.RateLimit(c, middleware.Rate{})
				call(t, t.Context(), c)
				start := time.Now()
				done := make(chan time.Duration)
				for range 5 {
					go func() { call(t, t.Context(), c); done <- time.Since(start) }()
				}
				synctest.Wait()
				if tt.want > 0 {
					if calls() != 1 {
						t.Errorf("%d calls, want 1 as long as the endpoint wants no more", calls())
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					if g := call(t, ctx, c); !errors.Is(g.Err, llm.ErrRateLimited) || !strings.Contains(g.Err.Error(), "the endpoint asked") {
						t.Errorf("err = %v, want ErrRateLimited", g.Err)
					}
				}
				for range 5 {
					if d := <-done; d != tt.want {
						t.Errorf("a call waited %v, want %v", d, tt.want)
					}
				}
			})
		})
	}
}

// TestRateLimitHeedsTheEndpointForThoseThatWait checks that calls that wait already are delayed, too.
func TestRateLimitHeedsTheEndpointForThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := calling(func(n int) llmtest.Answer {
			if n == 1 {
				return llmtest.Fail(&llm.Error{Kind: llm.ErrRateLimited, RetryAfter: 30 * time.Second})
			}
			return llmtest.Text("a")
		})
		c = middleware.RateLimit(c, middleware.Rate{Requests: 6}) // one in ten seconds
		start := time.Now()
		done := make(chan time.Duration, 1)
		for range 5 {
			call(t, t.Context(), c)
		}
		took(t, c, request())
		go func() { took(t, c, request()); done <- time.Since(start).Round(time.Second) }()
		if d := <-done; d != 30*time.Second {
			t.Errorf("it was let through after %v, want 30s", d)
		}
	})
}

func TestRateLimitUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, perMinute = 200, 60
		c := middleware.RateLimit(used(10), middleware.Rate{Requests: perMinute, Tokens: 1_000_000})
		done := make(chan time.Duration)
		start := time.Now()
		for range calls {
			go func() { call(t, t.Context(), c); done <- time.Since(start) }()
		}
		var last time.Duration
		for i := range calls {
			last = <-done
			if allowed := perMinute + int(last.Seconds()+1e-3); i+1 > allowed {
				t.Fatalf("%d calls in %v, want at most %d", i+1, last, allowed)
			}
		}
		if want := (calls - perMinute) * time.Second; last.Round(time.Second) != want {
			t.Errorf("the last call came after %v, want %v: the limit is not used", last, want)
		}
	})
}
