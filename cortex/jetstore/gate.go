package jetstore

import (
	"context"
	"slices"
	"sync"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// maxReads bounds the concurrent reads. The server answers the requests of one connection one after the other, and searches its files for each.
// With more of them the last answers would come after the timeout, and the repeated requests would be additional work for the server.
const maxReads = 4

// gate bounds the reads under way. Those that wait are let in by turns of their requesters, see [storage.WithRequester], so that nobody waits for all reads
// of another one. Of one requester, the last and the first arrival are let in by turns: after a restart a thousand conversations may wait to be read; a new
// one must not wait behind all of them, nor an old one for ever.
type gate struct {
	mu      sync.Mutex
	free    int
	waiting map[string]*readers // by requester
	order   []string            // requesters, the next one first
}

// readers are the reads of one requester that wait.
type readers struct {
	turns  []chan struct{} // in the order of arrival; each is closed when its turn comes
	oldest bool            // the next turn is the first's
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
	turn, requester := make(chan struct{}), storage.Requester(ctx)
	g.add(requester, turn)
	g.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	if !g.remove(requester, turn) { // its turn came at the same time
		g.leave()
	}
	return ctx.Err()
}

// add has a read wait for its turn. g.mu is held.
func (g *gate) add(requester string, turn chan struct{}) {
	of := g.waiting[requester]
	if of == nil {
		if g.waiting == nil {
			g.waiting = map[string]*readers{}
		}
		of = &readers{}
		g.waiting[requester] = of
		g.order = append(g.order, requester)
	}
	of.turns = append(of.turns, turn)
}

// remove removes a turn that has not come, and reports whether it was there.
func (g *gate) remove(requester string, turn chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.waiting[requester]
	if of == nil {
		return false
	}
	i := slices.Index(of.turns, turn)
	if i < 0 {
		return false
	}
	of.turns = slices.Delete(of.turns, i, i+1)
	if len(of.turns) == 0 {
		delete(g.waiting, requester)
		g.order = slices.DeleteFunc(g.order, func(r string) bool { return r == requester })
	}
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.order) == 0 {
		g.free++
		return
	}
	requester := g.order[0]
	g.order = g.order[1:]
	of := g.waiting[requester]
	i := len(of.turns) - 1
	if of.oldest {
		i = 0
	}
	of.oldest = !of.oldest
	turn := of.turns[i]
	if of.turns = slices.Delete(of.turns, i, i+1); len(of.turns) > 0 {
		g.order = append(g.order, requester)
	} else {
		delete(g.waiting, requester)
	}
	close(turn)
}
