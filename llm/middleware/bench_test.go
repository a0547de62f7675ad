package middleware_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
)

// BenchmarkGenerate measures the cost of the layers for each call and, with many chunks, for each chunk. "bare" is the client alone.
func BenchmarkGenerate(b *testing.B) {
	stacks := layers()
	stacks["bare"] = func(c llm.Client) llm.Client { return c }
	stacks["rate"] = func(c llm.Client) llm.Client { // it never waits
		return middleware.RateLimit(c, middleware.Rate{Requests: 1e15, Tokens: 1e15})
	}
	rate, retry := stacks["rate"], stacks["retry"]
	stacks["all"] = func(c llm.Client) llm.Client {
		return stacks["fallback"](retry(rate(stacks["timeout"](stacks["price"](c)))))
	}
	r := &llm.Request{System: strings.Repeat("x", 8<<10), Messages: []llm.Message{llm.User("hi")}}
	for _, name := range []string{"bare", "price", "timeout", "rate", "retry", "fallback", "all"} {
		for _, chunks := range []int{1, 1000} {
			c := stacks[name](yielding(func(_ context.Context, yield func(llm.Chunk, error) bool) {
				for range chunks {
					if !yield(llm.Chunk{Text: "word "}, nil) {
						return
					}
				}
				yield(llm.Chunk{Done: true, Usage: llm.Usage{Input: 10, Output: 10}}, nil)
			}))
			b.Run(name+map[int]string{1: "/call", 1000: "/1000chunks"}[chunks], func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					for _, err := range c.Generate(b.Context(), r) {
						if err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
