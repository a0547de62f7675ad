// Package lapse ends work that was begun with credentials when they hold no longer, such as a stream that its client keeps open for hours.
package lapse

import (
	"context"
	"sync"
	"time"
)

// Each is how often credentials are looked at.
const Each = 3 * time.Second

// While returns a context that ends with ctx, or soon after holds returns an error, which is its cause then. end stops that, and ends the context. holds
// is called by one goroutine at a time, and not before [Each] has passed: most work is over by then.
func While(ctx context.Context, holds func() error) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var mu sync.Mutex
	var next *time.Timer
	mu.Lock()
	defer mu.Unlock()
	next = time.AfterFunc(Each, func() {
		if ctx.Err() != nil {
			return
		}
		if err := holds(); err != nil {
			cancel(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		next.Reset(Each)
	})
	return ctx, func() {
		cancel(nil)
		next.Stop()
	}
}
