package lapse_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/lapse"
)

// Work goes on as long as its credentials hold, and ends soon after.
func TestWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		revoked := errors.New("revoked")
		looks := atomic.Int32{}
		ctx, end := lapse.While(t.Context(), func() error {
			if looks.Add(1) == 3 {
				return revoked
			}
			return nil
		})
		began := time.Now()
		<-ctx.Done()
		if d := time.Since(began); d != 3*lapse.Each || !errors.Is(context.Cause(ctx), revoked) {
			t.Errorf("it ended after %v: %v", d, context.Cause(ctx))
		}
		end()
	})
}

// Nobody looks at the credentials of work that is over.
func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := atomic.Int32{}
		for range 2 {
			ctx, end := lapse.While(t.Context(), func() error { looks.Add(1); return nil })
			<-time.After(lapse.Each * 5 / 2)
			end()
			if ctx.Err() == nil {
				t.Error("the context goes on")
			}
		}
		<-time.After(10 * lapse.Each)
		if n := looks.Load(); n != 4 {
			t.Errorf("they were looked at %d times", n)
		}
	})
}
