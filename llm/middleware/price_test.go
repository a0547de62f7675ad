package middleware_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
)

func TestPriceCost(t *testing.T) {
	full := middleware.Price{Input: 2, Cached: 0.5, Output: 8}
	tests := []struct {
		name  string
		price middleware.Price
		usage llm.Usage
		want  float64
	}{
		{"nothing", full, llm.Usage{}, 0},
		{"input", full, llm.Usage{Input: 1e6}, 2},
		{"output", full, llm.Usage{Output: 500_000}, 4},
		{"cached is part of the input", full, llm.Usage{Input: 1e6, Cached: 600_000}, 0.8 + 0.3},
		{"without a price of its own, cached is as input", middleware.Price{Input: 2, Output: 8}, llm.Usage{Input: 1e6, Cached: 600_000}, 2},
		{"all", full, llm.Usage{Input: 1000, Cached: 400, Output: 100}, 0.0012 + 0.0002 + 0.0008},
		{"an earlier cost is not added", full, llm.Usage{Input: 1e6, Cost: 7}, 2},
		{"more cached than there was", full, llm.Usage{Input: 1e6, Cached: 9e6}, 0.5},
		{"negative counts", full, llm.Usage{Input: -1e6, Cached: -5, Output: -1}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.price.Cost(tt.usage); math.Abs(got-tt.want) > 1e-12 {
				t.Errorf("Cost(%+v) = %v, want %v", tt.usage, got, tt.want)
			}
		})
	}
}

func TestPricesFillInTheCost(t *testing.T) {
	c := middleware.Prices(llmtest.Script(llmtest.Answer{Text: "a", Usage: llm.Usage{Input: 1e6, Output: 1e6}}), middleware.Price{Input: 1, Output: 2})
	if g := call(t, t.Context(), c); g.Done.Usage != (llm.Usage{Input: 1e6, Output: 1e6, Cost: 3}) {
		t.Errorf("usage = %+v, want a cost of 3", g.Done.Usage)
	}
}

func TestPricesOfErrors(t *testing.T) {
	usage := llm.Usage{Input: 1e6, Output: 1e6}
	shared := &llm.Error{Kind: llm.ErrLength, Usage: usage}
	for name, err := range map[string]error{
		"plain":    shared,
		"wrapped":  fmt.Errorf("call: %w", shared),
		"two":      errors.Join(&llm.Error{Kind: llm.ErrLength, Usage: llm.Usage{Input: 1e6}}, &llm.Error{Kind: llm.ErrAuth, Usage: llm.Usage{Output: 1e6}}),
		"no usage": errors.New("x"),
	} {
		t.Run(name, func(t *testing.T) {
			c := middleware.Prices(llmtest.Script(llmtest.Fail(err)), middleware.Price{Input: 1, Output: 2})
			g := call(t, t.Context(), c)
			want := llm.UsageOf(err)
			want.Cost = float64(want.Input)/1e6 + 2*float64(want.Output)/1e6
			if got := llm.UsageOf(g.Err); got != want {
				t.Errorf("UsageOf(%v) = %+v, want %+v", g.Err, got, want)
			}
			if g.Err.Error() != err.Error() || errors.Is(err, llm.ErrLength) != errors.Is(g.Err, llm.ErrLength) {
				t.Errorf("err = %v, want %v", g.Err, err)
			}
			if shared.Usage != usage {
				t.Fatalf("the shared error was changed to %+v", shared.Usage)
			}
			var e *llm.Error
			if name == "plain" && (!errors.As(g.Err, &e) || e.Usage.Cost != 3) {
				t.Errorf("the error's usage is %+v, want a cost of 3", e.Usage)
			}
		})
	}
}

func TestNoPrice(t *testing.T) {
	c := llmtest.Script()
	if got := middleware.Prices(c, middleware.Price{}); got != llm.Client(c) {
		t.Errorf("Prices without a price = %v, want the client itself", got)
	}
}
