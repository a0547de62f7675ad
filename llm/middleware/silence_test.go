package middleware_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
)

// TestSilenceIsNotRepeated checks that a call that was ended for its silence is not retried: the next model is called, and the silent one is excluded
// from the next call, too.
func TestSilenceIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		mute := yielding(func(ctx context.Context, _ func(llm.Chunk, error) bool) {
			calls++
			<-ctx.Done()
		})
		guarded := middleware.Retry(middleware.Timeout(mute, 40*time.Second), nil)
		second, _ := says("second")
		c := middleware.Fallback(named(guarded, second), nil)
		began := time.Now()
		for range 3 {
			if g := call(t, t.Context(), c); g.Text != "second" || g.Err != nil {
				t.Errorf("answer %q, %v, want that of the second", g.Text, g.Err)
			}
		}
		if took := time.Since(began); calls != 1 || took != 40*time.Second {
			t.Errorf("the silent one was asked %d times, and all took %v; want once, and 40s", calls, took)
		}
	})
}
