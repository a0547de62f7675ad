package agenthub

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/semaphore"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxGuests bounds the registered agents.
const maxGuests = 4096

// guest is a registered agent. It is one of Cortex's as long as it has a stream, and a little longer.
type guest struct {
	bridge *bridge
	name   string // as its programs know it
	id     string // as Cortex does

	turn *semaphore.Weighted // of who changes what Cortex knows of the agent

	mu      sync.Mutex
	card    *a2a.AgentCard
	weight  int    // of the card
	from    string // the machine that it came from, see [kit.Other]
	streams int
	came    bool        // it has had a stream
	until   time.Time   // when it is forgotten, without a stream
	timer   *time.Timer // then
	known   *a2a.AgentCard
	refused string // why it is left out
}

// shown returns the agent's card.
func (g *guest) shown() *a2a.AgentCard {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.card
}

// guests are the registered agents, by name. They are safe for concurrent use.
type guests struct {
	b    *bridge
	held int // what all cards may take

	mu      sync.Mutex
	by      map[string]*guest
	streams map[string]int // of peers, by name: they may subscribe before they register
}

// register takes an agent, or its new card, which a machine has sent, see [kit.Other]. The error says why Cortex cannot have it.
func (gs *guests) register(ctx context.Context, name string, card *a2a.AgentCard, from string) error {
	id, err := transport.AgentID(card.Name)
	if err != nil {
		return err
	}
	if transport.IsReserved(id) {
		return fmt.Errorf("the name %s is Cortex's own: choose another, or start Cortex with --agenthub-prefix", id)
	}
	weight := kit.Weight(card)
	gs.mu.Lock()
	g := gs.by[name]
	if err := gs.fits(g, kit.Card{Weight: weight, From: from}); err != nil {
		gs.mu.Unlock()
		return err
	}
	if g == nil {
		for _, other := range gs.by {
			if other.id == id {
				gs.mu.Unlock()
				return fmt.Errorf("%s is called %s in Cortex, as %s is: choose another name", name, id, other.name)
			}
		}
		g = &guest{bridge: gs.b, name: name, id: id, turn: semaphore.NewWeighted(1), streams: gs.streams[name]}
		g.came = g.streams > 0
		gs.by[name] = g
	}
	g.mu.Lock()
	g.card, g.weight, g.from = card, weight, from
	if g.streams == 0 {
		g.expire(gs.b.times.registered)
	}
	g.mu.Unlock()
	gs.mu.Unlock()
	return g.settle(ctx)
}

// fits returns an error if there is no room for a card of g, which is nil for an agent that is not registered. gs.mu is held.
func (gs *guests) fits(g *guest, c kit.Card) error {
	var old *kit.Card
	var others []kit.Card
	for _, other := range gs.by {
		other.mu.Lock()
		is := kit.Card{Weight: other.weight, From: other.from}
		other.mu.Unlock()
		if other == g {
			old = &is
		} else {
			others = append(others, is)
		}
	}
	return kit.Fits(slices.Values(others), c, old, maxGuests, gs.held)
}

// opened takes note of a stream of a peer.
func (gs *guests) opened(name string) {
	gs.mu.Lock()
	gs.streams[name]++
	g := gs.by[name]
	if g != nil {
		g.mu.Lock()
		g.streams++
		g.came = true
		g.mu.Unlock()
	}
	gs.mu.Unlock()
	if g != nil {
		gs.b.wg.Go(func() { _ = g.settle(gs.b.ctx) }) // logged
	}
}

// closed takes note of the end of a stream of a peer.
func (gs *guests) closed(name string) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if gs.streams[name]--; gs.streams[name] == 0 {
		delete(gs.streams, name)
	}
	if g := gs.by[name]; g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.streams--; g.streams == 0 {
			g.expire(gs.b.times.grace)
		}
	}
}

// expire forgets the agent after d, unless it has a stream by then. g.mu is held.
func (g *guest) expire(d time.Duration) {
	g.until = time.Now().Add(d)
	if g.timer != nil {
		g.timer.Stop()
	}
	g.timer = time.AfterFunc(d, func() { _ = g.settle(g.bridge.ctx) })
}

// changed looks again at the agents with an id, of whom somebody else may be there or gone.
func (gs *guests) changed(ctx context.Context, id string) {
	gs.mu.Lock()
	all := []*guest{}
	for _, g := range gs.by {
		if g.id == id {
			all = append(all, g)
		}
	}
	gs.mu.Unlock()
	for _, g := range all {
		_ = g.settle(ctx) // logged
	}
}

// settle makes Cortex know what there is to know of the agent: that it is there, its card, or that it is not.
func (g *guest) settle(ctx context.Context) error {
	if err := g.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer g.turn.Release(1)
	b := g.bridge
	wanted := b.guests.keep(g)
	g.mu.Lock()
	card, known := g.card, g.known
	g.mu.Unlock()
	err := b.names.Taken(g.id, known != nil, "it is left out; start Cortex with --agenthub-prefix to have both")
	switch {
	case !wanted && known != nil:
		b.host.Remove(g.id)
		card, err = nil, nil
	case !wanted:
		return nil
	case err != nil:
		if known != nil {
			b.host.Remove(g.id)
			g.mu.Lock()
			g.known = nil
			g.mu.Unlock()
		}
	case known != nil && reflect.DeepEqual(card, known):
		return nil
	case known != nil:
		err = b.host.Update(ctx, card)
	default:
		if err = b.host.Add(ctx, card, g); err != nil {
			b.host.Remove(g.id) // it may be there without having been announced
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		if g.refused != err.Error() {
			b.at.Logger.Warn("agent of AgentHub is left out", "agent", g.id, "err", err)
		}
		g.refused = err.Error()
		return err
	}
	g.known, g.refused = card, ""
	return nil
}

// keep reports whether Cortex is to know the agent. It forgets an agent that nobody waits for any more.
func (gs *guests) keep(g *guest) (wanted bool) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.streams > 0 || time.Now().Before(g.until) {
		return g.came
	}
	if gs.by[g.name] == g {
		delete(gs.by, g.name)
	}
	return false
}

// named returns the name that the agent with this id in Cortex has among its peers: the id itself for others' agents.
func (gs *guests) named(id string) string {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	for _, g := range gs.by {
		if g.id == id {
			return g.name
		}
	}
	return id
}

// has reports whether an agent of this name is registered.
func (gs *guests) has(name string) bool {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	return gs.by[name] != nil
}
