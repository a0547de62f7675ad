package rtfs

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/semaphore"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// maxLeases bounds the agents.
const maxLeases = 10_000

// leases are the agents that have registered. They are safe for concurrent use.
type leases struct {
	b    *bridge
	keep keeper
	most int           // agents
	held int           // what their cards may take
	more chan struct{} // holds one when there is something to do

	turn   *semaphore.Weighted       // of who changes leases
	served map[string]*a2a.AgentCard // what Cortex knows, by id there; guarded by turn

	mu      sync.RWMutex
	by      map[string]*lease // by the agents' own ids
	refused map[string]string // why agents are left out, by id in Cortex
	next    time.Time         // when run looks at all leases again
}

func newLeases(b *bridge) *leases {
	return &leases{
		b: b, keep: newKeeper(b.at, b.prefix), more: make(chan struct{}, 1), most: maxLeases, held: kit.MaxCards, turn: semaphore.NewWeighted(1),
		served: map[string]*a2a.AgentCard{}, refused: map[string]string{}, by: map[string]*lease{},
	}
}

// wake has run look at all leases again.
func (ls *leases) wake() {
	select {
	case ls.more <- struct{}{}:
	default:
	}
}

func (ls *leases) get(agentID string) *lease {
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	return ls.by[agentID]
}

func (ls *leases) all() []*lease {
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	return slices.Collect(maps.Values(ls.by))
}

// set replaces the lease of an agent.
func (ls *leases) set(l *lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.by[l.Card.AgentID] = l
	if l.Expires.Before(ls.next) {
		ls.wake()
	}
}

// leave notes why an agent is left out; "": it is not. It returns false if that was known.
func (ls *leases) leave(l *lease, why string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	old := ls.refused[l.id]
	if ls.refused[l.id] = why; why == "" {
		delete(ls.refused, l.id)
	}
	return old != why
}

// live returns the leases that hold now.
func (ls *leases) live() []*lease {
	now := ls.b.now()
	return slices.DeleteFunc(ls.all(), func(l *lease) bool { return !l.Expires.After(now) })
}

// shown returns those of them whose agents are not left out.
func (ls *leases) shown() []*lease {
	live := ls.live()
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	return slices.DeleteFunc(live, func(l *lease) bool { return ls.refused[l.id] != "" })
}

// put takes a lease, which replaces that of the same agent. It is stored when put returns.
func (ls *leases) put(ctx context.Context, l *lease) error {
	if err := ls.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer ls.turn.Release(1)
	old := ls.get(l.Card.AgentID)
	if err := ls.admit(l, old); err != nil {
		return err
	}
	if old != nil && old.Endpoint != l.Endpoint {
		ls.b.at.Logger.Warn("an RTFS agent has another endpoint now", "agent", l.id, "endpoint", shorten.Line(l.Endpoint, 100), "before", shorten.Line(old.Endpoint, 100))
	}
	if why := ls.taken(l); why != nil {
		return &refusedError{why}
	}
	if err := ls.keep.put(ctx, l, old); err != nil {
		return err
	}
	ls.set(l)
	ls.serve(ctx, l)
	return nil
}

// admit returns why an agent cannot register, or nil. old is its lease up to now, or nil.
func (ls *leases) admit(l, old *lease) error {
	all := ls.live()
	var was *kit.Card
	if old != nil {
		was = &kit.Card{Weight: old.weight, From: old.From}
	}
	var others []kit.Card
	for _, other := range all {
		if other.Card.AgentID != l.Card.AgentID {
			others = append(others, kit.Card{Weight: other.weight, From: other.From})
		}
	}
	if err := kit.Fits(slices.Values(others), kit.Card{Weight: l.weight, From: l.From}, was, ls.most, ls.held); err != nil {
		return newError(codeFull, "%v", err)
	}
	for _, other := range all {
		if old == nil && other.id == l.id && other.Card.AgentID != l.Card.AgentID {
			return refuse("%s is called %s in Cortex, as %s is: choose another id", l.Card.AgentID, l.id, other.Card.AgentID)
		}
	}
	return nil
}

// taken returns an error if an agent is left out, or has to give way, since its id is somebody else's.
func (ls *leases) taken(l *lease) error {
	return ls.b.names.Taken(l.id, ls.served[l.id] != nil, "choose another id, or start Cortex with --rtfs-prefix to have both")
}

// serve makes Cortex know an agent, or its new card, or that it gives way to another one. What fails is tried again by run.
func (ls *leases) serve(ctx context.Context, l *lease) {
	is, err := ls.served[l.id], ls.taken(l)
	switch {
	case err != nil && is != nil:
		ls.withdraw(l)
	case err != nil:
	case is != nil && reflect.DeepEqual(is, l.known):
		return
	case is != nil:
		err = ls.b.host.Update(ctx, l.known)
	default:
		if err = ls.b.host.Add(ctx, l.known, agents.Handler((&guest{ls.b, l.Card.AgentID}).do)); err != nil {
			ls.b.host.Remove(l.id) // it may be there without having been announced
		}
	}
	if err != nil {
		if ls.leave(l, err.Error()) {
			ls.b.at.Logger.Warn("an RTFS agent is left out", "agent", l.id, "err", err)
		}
		return
	}
	ls.served[l.id] = l.known
	ls.leave(l, "")
}

// extend has a lease hold longer. It returns nil when there is none.
func (ls *leases) extend(ctx context.Context, agentID string, ttl func(now time.Duration) time.Duration) (*lease, error) {
	if err := ls.turn.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer ls.turn.Release(1)
	old := ls.get(agentID)
	if old == nil || !old.Expires.After(ls.b.now()) {
		return nil, nil //nolint:nilnil // no lease
	}
	l := *old
	l.TTL = ttl(old.TTL)
	l.Expires = ls.b.now().Add(l.TTL)
	if err := ls.keep.put(ctx, &l, old); err != nil {
		return nil, err
	}
	ls.set(&l)
	return &l, nil
}

// drop ends a lease, also one that only the store has. It returns false when there is none.
func (ls *leases) drop(ctx context.Context, agentID string) (was bool, err error) {
	if err := ls.turn.Acquire(ctx, 1); err != nil {
		return false, err
	}
	defer ls.turn.Release(1)
	l := ls.get(agentID)
	was = l != nil && l.Expires.After(ls.b.now())
	stored, err := ls.keep.drop(ctx, agentID)
	if err != nil {
		return false, err
	}
	if l != nil {
		ls.remove(l)
	}
	return was || stored && l == nil, nil
}

// remove forgets an agent.
func (ls *leases) remove(l *lease) {
	ls.mu.Lock()
	delete(ls.by, l.Card.AgentID)
	delete(ls.refused, l.id)
	ls.mu.Unlock()
	ls.withdraw(l)
}

// withdraw has Cortex know an agent no longer.
func (ls *leases) withdraw(l *lease) {
	if ls.served[l.id] != nil {
		delete(ls.served, l.id)
		ls.b.host.Remove(l.id)
	}
}
