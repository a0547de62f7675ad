package cli

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestReadyWhileItIsSlow has a check that takes long, as a write does behind large ones of others: readiness is said soon, as it was before, until the check has
// failed, or was fine too long ago. All who ask meanwhile have one run of the checks.
func TestReadyWhileItIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var takes atomic.Int64
		var runs atomic.Int32
		r := &readiness{checks: []readyCheck{{"store", func(ctx context.Context) error {
			runs.Add(1)
			select {
			case <-time.After(time.Duration(takes.Load())):
				return nil
			case <-ctx.Done():
				return errors.New("too slow")
			}
		}}}}
		ask := func(what string, ready bool) {
			t.Helper()
			began := time.Now()
			if err := r.ask(t.Context()); (err == nil) != ready {
				t.Errorf("%s: %v", what, err)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%s: it takes %v", what, took)
			}
		}
		takes.Store(int64(4 * time.Second))
		ask("slow from the beginning", false)
		time.Sleep(time.Minute)
		ask("slow when nobody has asked for a minute", false)
		time.Sleep(10 * time.Second)
		for range 10 {
			ask("slow, and asked often", true)
		}
		takes.Store(0)
		time.Sleep(10 * time.Second)
		ask("fast", true)
		takes.Store(int64(time.Hour))
		ask("it hangs", true)
		time.Sleep(4 * time.Second) // until the check has failed
		ask("it hangs still", false)
		time.Sleep(10 * time.Second)
		before := runs.Load()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { _ = r.ask(t.Context()) })
		}
		all.Wait()
		if n := runs.Load() - before; n != 1 {
			t.Errorf("a hundred who ask at the same time have %d runs", n)
		}
		time.Sleep(time.Minute)
	})
}

// TestReadyLoadsNobodysConversation checks that nobody can begin the conversation that is loaded to see whether the store answers, and make that slow.
func TestReadyLoadsNobodysConversation(t *testing.T) {
	if transport.CheckID(noConversationID) == nil {
		t.Errorf("%q can be a conversation", noConversationID)
	}
}
