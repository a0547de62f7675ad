// Package rest sleeps in a context.
package rest

import (
	"context"
	"time"
)

// For sleeps for d. It returns the error of ctx when that ends first.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
