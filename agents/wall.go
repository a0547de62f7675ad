package agents

import (
	"context"
	"time"
)

// Bounds of a step of the wall clock.
const (
	wallEvery = 5 * time.Second // between two looks
	wallStep  = 10 * time.Second
)

// wall notices that the wall clock was set forward, or that the machine has slept. Cards expire by that clock: those that a server on this machine has are gone
// then, though nobody was silent, until they are announced again.
type wall struct {
	ahead func() time.Duration // how far the wall clock is ahead of one that nobody sets, and that need not count sleep
	moved chan struct{}        // receives after a step
}

func newWall() *wall {
	start := time.Now()
	return &wall{
		ahead: func() time.Duration {
			now := time.Now()
			return now.Round(0).Sub(start.Round(0)) - now.Sub(start)
		},
		moved: make(chan struct{}, 1),
	}
}

// watch looks until ctx ends.
func (w *wall) watch(ctx context.Context) {
	tick := time.NewTicker(wallEvery)
	defer tick.Stop()
	for was := w.ahead(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		is := w.ahead()
		if is-was >= wallStep {
			select {
			case w.moved <- struct{}{}:
			default:
			}
		}
		was = is
	}
}
