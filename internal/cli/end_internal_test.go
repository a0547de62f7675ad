package cli

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAwaitEnd has a service that does not end when it should: its end has a bound, whether it was told to end or its store is broken.
func TestAwaitEnd(t *testing.T) {
	broken := errors.New("the store is given up")
	for name, tt := range map[string]struct {
		begin func(*node, context.CancelFunc)
		ends  bool
		took  time.Duration // at most
		want  error         // nil: any
	}{
		"it ends":                {begin: func(*node, context.CancelFunc) {}, ends: true, took: 0},
		"told, and does not end": {begin: func(_ *node, told context.CancelFunc) { told() }, took: hungEnd + 3*time.Second},
		"its store is broken":    {begin: func(n *node, _ context.CancelFunc) { n.broken.Store(&broken) }, took: brokenEnd + 3*time.Second, want: broken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, told := context.WithCancel(t.Context())
				defer told()
				n, ended, began := &node{}, make(chan error, 1), time.Now()
				if tt.begin(n, told); tt.ends {
					ended <- nil
				}
				err := awaitEnd(ctx, func() *node { return n }, ended)
				if (err == nil) != tt.ends || tt.want != nil && !errors.Is(err, tt.want) || time.Since(began) > tt.took {
					t.Errorf("the end is %v after %v", err, time.Since(began))
				}
			})
		})
	}
}
