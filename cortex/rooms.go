package cortex

import (
	"context"
	"slices"
	"sync"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// roomSizes bound the conversations in use, of one owner and of all, that take more than so many bytes, as estimated by
// [conversation.Conversation.Weight]. Such a one has large messages in open turns. A person may have a hundred, and their deadlines may all be over at
// the same time, as after a restart.
var roomSizes = [...]struct{ above, own, all int }{
	{1 << 20, 16, 128},
	{16 << 20, 2, 8},
}

// rooms are the places for large conversations. The zero value is ready, and safe for concurrent use.
type rooms [len(roomSizes)]room

// room is where a limited number of conversations have place.
type room struct {
	mu      sync.Mutex
	all     int
	of      map[string]int // by owner
	waiting []*newcomer    // in the order of arrival
}

type newcomer struct {
	owner string
	let   chan struct{} // closed when there is place
}

// places are what one use of a conversation has of the rooms: its place in each of the first n. Nobody waits for a smaller room while in a larger one,
// so that none wait for each other.
type places struct {
	in    *rooms
	owner string
	n     int
}

// hold waits until there is place for a conversation of that weight. It may be called again, when more of the conversation was read.
func (p *places) hold(ctx context.Context, owner string, weight int) error {
	for p.n < len(roomSizes) && weight > roomSizes[p.n].above {
		if p.n == 0 {
			p.owner = owner
		}
		if err := p.in[p.n].enter(ctx, p.owner, roomSizes[p.n].own, roomSizes[p.n].all); err != nil {
			return transport.Temporary(err)
		}
		p.n++
	}
	return nil
}

// leave gives the places back.
func (p *places) leave() {
	for ; p.n > 0; p.n-- {
		p.in[p.n-1].leave(p.owner, roomSizes[p.n-1].own, roomSizes[p.n-1].all)
	}
}

func (r *room) enter(ctx context.Context, owner string, own, all int) error {
	r.mu.Lock()
	w := &newcomer{owner, make(chan struct{})}
	r.waiting = append(r.waiting, w)
	r.admit(own, all)
	r.mu.Unlock()
	select {
	case <-w.let:
		return nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	i := slices.Index(r.waiting, w)
	if i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
	}
	r.mu.Unlock()
	if i < 0 { // it was let in at the same time
		r.leave(owner, own, all)
	}
	return context.Cause(ctx)
}

func (r *room) leave(owner string, own, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	if r.of[owner]--; r.of[owner] == 0 {
		delete(r.of, owner)
	}
	r.admit(own, all)
}

// admit lets in those who find place. r.mu is held.
func (r *room) admit(own, all int) {
	r.waiting = slices.DeleteFunc(r.waiting, func(w *newcomer) bool {
		if r.all >= all || r.of[w.owner] >= own {
			return false
		}
		if r.of == nil {
			r.of = map[string]int{}
		}
		r.all++
		r.of[w.owner]++
		close(w.let)
		return true
	})
}

// loadIn loads a conversation that finds place meanwhile.
func (o *Orchestrator) loadIn(ctx context.Context, p *places, contextID string) (*conversation.Conversation, error) {
	return storage.LoadWith(ctx, o.cfg.Store, o.cfg.Tenant, contextID, func(conv *conversation.Conversation) error {
		return p.hold(ctx, conv.Owner, conv.Weight())
	})
}

// looked is a conversation that several tasks look at.
type looked struct {
	mu   sync.Mutex
	conv *conversation.Conversation
}

// look calls f with the conversation of a task as the log says it now. Those who ask for it at the same time share a reading: of one conversation there may
// be hundreds of tasks. f changes nothing, keeps nothing that may change, and is quick.
func (o *Orchestrator) look(ctx context.Context, t *queuedTask, f func(*conversation.Conversation)) error {
	is, err := o.looks.Get(ctx, lookedAt{t.contextID, t.requester}, func(ctx context.Context) (*looked, error) {
		p := places{in: &o.rooms}
		defer p.leave()
		conv, err := o.loadIn(ctx, &p, t.contextID)
		return &looked{conv: conv}, err
	})
	if err != nil {
		return err
	}
	is.mu.Lock()
	defer is.mu.Unlock()
	f(is.conv)
	return nil
}

// lookedAt is what those share who look. They are one person's, since the reads of a person wait for one another.
type lookedAt struct{ contextID, requester string }
