package cortex_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestDraftIsNotHeldBack holds that what a model has written is shown also when the model then falls silent.
func TestDraftIsNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, decideFunc(func(ctx context.Context, _ *llm.Turn, stream func(string)) (*llm.Decision, error) {
			stream("Once ")
			stream("upon ")
			stream("a time")
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		w.say("m1", "go")
		pass(time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		var shown strings.Builder
		for _, e := range w.live {
			if d, ok := e.Payload.(*transport.Delta); ok {
				shown.WriteString(d.Text)
			}
		}
		if got, want := shown.String(), "Once upon a time"; got != want {
			t.Errorf("shown while the model is silent: %q, want %q", got, want)
		}
	})
}
