package jetstore

import (
	"context"
	"slices"
	"sync"
)

// maxReads is how many reads are under way at the same time. The server answers the requests of one connection one after the other, and searches
// its files for each. With more at once the last answers would come after the timeout, and be asked for again, which is more work for the server.
const maxReads = 4

// gate lets so many through at the same time. Of those who wait, the one that came last and the one that came first go in by turns: after a
// restart a thousand conversations may wait to be read, and a new one is not to wait behind all of them, nor one of them for ever.
type gate struct {
	mu      sync.Mutex
	free    int
	waiting []chan struct{} // each is closed when its turn has come; the one that came first is first
	oldest  bool            // it is the turn of the first
}

// enter waits until there is room, which leave gives back. An error is ctx's: then there is nothing to give back.
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
