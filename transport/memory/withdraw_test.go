package memory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestWithdrawnIsNotTriedAgain checks that an event that is withdrawn while it is handled, or while it rests after a failure, is not delivered again.
func TestWithdrawnIsNotTriedAgain(t *testing.T) {
	for _, o := range []*transport.SubscribeOptions{nil, {Unordered: true}} {
		synctest.Test(t, func(t *testing.T) {
			b := memory.New(nil)
			defer b.Close()
			calls, hold := 0, make(chan struct{})
			sub, err := b.Subscribe(t.Context(), inbox, o)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_ = sub.Serve(t.Context(), func(context.Context, *transport.Event) error {
					if calls++; calls == 1 {
						<-hold
					}
					return errors.New("no")
				})
			}()
			withdraw := func(id string) {
				t.Helper()
				if err := b.Withdraw(t.Context(), inbox, "c1", "user", id); err != nil {
					t.Fatal(err)
				}
			}
			publish(t, b, inbox, event("handled", "c1"))
			synctest.Wait()
			withdraw("handled")
			close(hold)
			synctest.Wait()
			publish(t, b, inbox, event("resting", "c1"))
			synctest.Wait() // it has failed once
			withdraw("resting")
			<-time.After(time.Minute)
			synctest.Wait()
			if n, err := b.Waiting(t.Context(), inbox); n != 0 || err != nil || calls != 2 {
				t.Errorf("%d events wait, %v, after %d calls of the handler, want none after 2", n, err, calls)
			}
		})
	}
}
