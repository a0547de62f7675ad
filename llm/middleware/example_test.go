package middleware_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
)

// Two models, each with all that belongs around it: the first one's key is wrong, the second is busy at first.
func Example() {
	large := llmtest.Script(llmtest.Fail(&llm.Error{Kind: llm.ErrAuth, Provider: "openai", Model: "large", Status: 401}))
	small := llmtest.Script(
		llmtest.Fail(&llm.Error{Kind: llm.ErrRateLimited, Provider: "local", Model: "small", Status: 429, RetryAfter: time.Millisecond}),
		llmtest.Answer{Pieces: []string{"Good ", "morning."}, Model: "small-1", Usage: llm.Usage{Input: 2000, Cached: 1000, Output: 500}},
	)
	stack := func(c llm.Client, p middleware.Price) llm.Client {
		c = middleware.Prices(c, p)
		c = middleware.Timeout(c, time.Minute)
		c = middleware.RateLimit(c, middleware.Rate{Requests: 60, Tokens: 100_000})
		return middleware.Retry(c, &middleware.RetryOptions{Base: time.Millisecond})
	}
	client := middleware.Fallback([]middleware.Named{
		{Name: "large", Client: stack(large, middleware.Price{Input: 3, Cached: 0.3, Output: 15})},
		{Name: "small", Client: stack(small, middleware.Price{Input: 1, Cached: 0.1, Output: 4})},
	}, slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime})))

	r := &llm.Request{Messages: []llm.Message{llm.User("Good morning!")}}
	for chunk, err := range client.Generate(context.Background(), r) {
		switch {
		case err != nil:
			fmt.Println("failed:", err, llm.UsageOf(err))
		case chunk.Done:
			fmt.Printf("\n%s, %d tokens, %.4f\n", chunk.Model, chunk.Usage.Tokens(), chunk.Usage.Cost)
		default:
			fmt.Print(chunk.Text)
		}
	}
	// Output:
	// level=WARN msg="model failed, asking the next" model=large next=small err="openai large: not authorized (401)"
	// Good morning.
	// small-1, 2500 tokens, 0.0031
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
