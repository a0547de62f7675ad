package jetstore

import (
	"context"
	"slices"
	"sync"
)

// maxReads bounds the concurrent reads. The server answers the requests of one connection one after the other, and searches its files for each.
// With more of them the last answers would come after the timeout, and the repeated requests would be additional work for the server.
const maxReads = 4

// gate bounds the reads under way. Of those that wait, the last and the first arrival are let in by turns: after a restart a thousand conversations
// may wait to be read; a new one must not wait behind all of them, nor an old one for ever.
type gate struct {
	mu      sync.Mutex
	free    int
	waiting []chan struct{} // in the order of arrival; each is closed when its turn comes
	oldest  bool            // the next turn is the first's
}

// enter waits for room; the caller then calls leave. It returns ctx's error, after which leave must not be called.
func (g *gate) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	g.waiting = append(g.waiting, turn)
	g.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	i := slices.Index(g.waiting, turn)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	g.mu.Unlock()
	if i < 0 { // its turn came at the same time
		g.leave()
	}
	return ctx.Err()
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.waiting)
	if n == 0 {
		g.free++
		return
	}
	i := n - 1
	if g.oldest {
		i = 0
	}
	g.oldest = !g.oldest
	turn := g.waiting[i]
	g.waiting = slices.Delete(g.waiting, i, i+1)
	close(turn)
}
