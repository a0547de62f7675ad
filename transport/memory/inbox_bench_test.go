package memory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// BenchmarkInbox measures one event from Publish to its acknowledgement, with a number of others that wait in the same inbox behind one that is being
// handled.
func BenchmarkInbox(b *testing.B) {
	for _, waiting := range []int{0, 100_000} {
		b.Run(fmt.Sprint("waiting=", waiting), func(b *testing.B) {
			bus := memory.New(nil)
			defer bus.Close()
			sub, err := bus.Subscribe(b.Context(), inbox, nil)
			if err != nil {
				b.Fatal(err)
			}
			for i := range waiting {
				if err := bus.Publish(b.Context(), inbox, event(fmt.Sprint("w", i), "blocked")); err != nil {
					b.Fatal(err)
				}
			}
			handled, served := make(chan struct{}), make(chan error, 1)
			go func() {
				served <- sub.Serve(b.Context(), func(ctx context.Context, e *transport.Event) error {
					if e.ContextID == "blocked" {
						<-ctx.Done()
						return ctx.Err()
					}
					handled <- struct{}{}
					return nil
				})
			}()
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				if err := bus.Publish(b.Context(), inbox, event(fmt.Sprint("e", n), fmt.Sprint("c", n%64))); err != nil {
					b.Fatal(err)
				}
				<-handled
			}
			_ = sub.Close()
			if err := <-served; !errors.Is(err, transport.ErrClosed) {
				b.Errorf("Serve = %v, want ErrClosed", err)
			}
		})
	}
}
