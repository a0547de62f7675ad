package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Intervals and limits of a host.
const (
	hostedTTL    = time.Hour        // of a card: the host's own presence expires sooner
	hostedPeriod = 20 * time.Minute // within which each card is announced again
	hostedQuiet  = 5 * time.Second  // between checks of an inbox; after two empty ones, or one while others wait, it is only watched
	hostedAwake  = 1024             // inboxes that are served at a time; others wait, and nobody's tasks keep all, see places
	hostedAtOnce = 16               // cards that are published at a time
)

// Host serves many agents in one process, such as those of another protocol or a catalog. Idle agents cost almost nothing: they share one
// heartbeat and one watch of all their inboxes; the host subscribes to an inbox when something arrives in it. Each agent behaves
// as with the function [Serve].
//
// The transport must be a [transport.InboxWatcher] and a [transport.InboxDepth].
type Host struct {
	tr      transport.Transport
	watcher transport.InboxWatcher
	o       Options
	self    *agent // publishes the host's own events
	awake   chan struct{}
	waiting atomic.Int32 // agents that wait to be awake
	places  *places
	memory  *memories // of the agents

	mu     sync.Mutex
	agents map[string]*hostedAgent
	watch  transport.InboxWatch // while Serve runs
	ctx    context.Context      //nolint:containedctx // of Serve, for agents that wake up
	wg     sync.WaitGroup       // of awake agents; grows under mu only while ctx lives
}

// hostedAgent is an agent of a host.
type hostedAgent struct {
	agent    *agent
	stop     context.CancelFunc // stops serving it while it is awake
	awake    bool
	notified bool // something may have arrived since the last check
}

// NewHost returns a host without agents. The name becomes the id of the host's presence, like an agent's, although it is no agent. Options apply
// to each agent as in [Serve]; Once is an error.
func NewHost(tr transport.Transport, name string, o *Options) (*Host, error) {
	watcher, ok := tr.(transport.InboxWatcher)
	if _, depth := tr.(transport.InboxDepth); !ok || !depth {
		return nil, fmt.Errorf("host %s: the transport %T cannot watch inboxes", name, tr)
	}
	if o != nil && o.Once {
		return nil, fmt.Errorf("host %s: a host does not run once", name)
	}
	self, err := newAgent(tr, &a2a.AgentCard{Name: name}, Handler(func(context.Context, *Task) (*Result, error) { return nil, nil }), o)
	if err != nil {
		return nil, err
	}
	self.card = nil
	var given Options // their defaults are those of each agent
	if o != nil {
		given = *o
	}
	given.Instance, given.Heartbeat = self.o.Instance, self.o.Heartbeat
	return &Host{tr: tr, watcher: watcher, o: given, self: self, awake: make(chan struct{}, hostedAwake), places: newPlaces(hostedAwake), memory: new(memories), agents: map[string]*hostedAgent{}}, nil
}

// Add adds an agent, which is served as by [Serve]. While Serve runs, the agent has been announced when Add returns. Add returns an error when
// the host has an agent of that name.
func (h *Host) Add(ctx context.Context, card *a2a.AgentCard, x Executor) error {
	o := h.o
	a, err := newAgent(h.tr, card, x, &o)
	if err != nil {
		return err
	}
	a.host, a.seq = h, h.self.seq
	a.rememberIn(h.memory)
	h.mu.Lock()
	if h.agents[a.id] != nil || a.id == h.self.id {
		h.mu.Unlock()
		return fmt.Errorf("host %s: there is an agent %s already", h.self.id, a.id)
	}
	h.agents[a.id] = &hostedAgent{agent: a}
	watch := h.watch
	h.mu.Unlock()
	if watch == nil {
		return nil // Serve watches and announces it
	}
	if err := h.self.retry(ctx, "watch", func() error { return watch.Add(ctx, h.inbox(a)) }); err != nil {
		return err
	}
	return h.announceOne(ctx, a)
}

// Update gives the agent of that name another card, and announces it while Serve runs. It returns an error when the host has no such agent.
func (h *Host) Update(ctx context.Context, card *a2a.AgentCard) error {
	id, err := transport.AgentID(card.Name)
	if err != nil {
		return err
	}
	h.mu.Lock()
	g, serving := h.agents[id], h.watch != nil
	h.mu.Unlock()
	if g == nil {
		return fmt.Errorf("host %s: there is no agent %s", h.self.id, id)
	}
	if err := g.agent.change(card); err != nil || !serving {
		return err
	}
	return h.announceOne(ctx, g.agent)
}

// Remove removes an agent: it takes no more tasks, and its present ones get [Options].Grace. It has announced that it left when Remove returns.
func (h *Host) Remove(id string) {
	h.mu.Lock()
	g := h.agents[id]
	if g == nil {
		h.mu.Unlock()
		return
	}
	delete(h.agents, id)
	if h.watch != nil {
		h.watch.Remove(h.inbox(g.agent))
	}
	if g.stop != nil {
		g.stop()
	}
	if !g.awake {
		g.agent.forget() // else when its tasks have ended
	}
	serving := h.watch != nil
	h.mu.Unlock()
	if serving {
		g.agent.publishCard(context.Background(), h.goodbye())
	}
}

// Serve serves the agents until its context ends, and then returns nil after [Options].Grace for present tasks, as the function Serve does. It
// returns an error when the transport was closed. The agents leave then, unless [Options].HandOver says that they stay for a while. It is called once.
func (h *Host) Serve(asked context.Context) error {
	ctx, cancel := context.WithCancel(asked)
	defer cancel()
	var watch transport.InboxWatch
	if err := h.self.retry(ctx, "watch", func() (err error) { watch, err = h.watcher.WatchInboxes(ctx); return err }); err != nil {
		return ended(ctx, fmt.Errorf("host %s: %w", h.self.id, err))
	}
	defer watch.Close()
	h.mu.Lock()
	h.watch, h.ctx = watch, ctx
	guests := h.all()
	h.mu.Unlock()
	g, work := errgroup.WithContext(ctx)
	g.Go(func() error { return watch.Serve(work, h.wake) })
	g.Go(func() error { h.self.wall.watch(work); return nil })
	g.Go(func() error {
		var inboxes []transport.Topic
		for _, a := range guests {
			inboxes = append(inboxes, h.inbox(a))
		}
		if err := h.self.retry(work, "watch", func() error { return watch.Add(work, inboxes...) }); err != nil {
			return err
		}
		return h.beat(work, guests)
	})
	err := g.Wait()
	cancel()
	h.mu.Lock()
	h.watch = nil
	h.mu.Unlock()
	h.wg.Wait()
	if h.o.HandOver > 0 {
		h.handOver()
	} else {
		h.leave()
	}
	return ended(asked, fmt.Errorf("host %s: %w", h.self.id, err))
}

// all returns the agents sorted by id; h.mu is held.
func (h *Host) all() []*agent {
	all := make([]*agent, 0, len(h.agents))
	for _, g := range h.agents {
		all = append(all, g.agent)
	}
	slices.SortFunc(all, func(a, b *agent) int { return strings.Compare(a.id, b.id) })
	return all
}

func (h *Host) inbox(a *agent) transport.Topic { return transport.Inbox(a.o.Tenant, a.id) }

// wake serves the inbox of an agent, unless it is awake.
func (h *Host) wake(inbox transport.Topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.agents[inbox.ID]
	if g == nil || h.ctx.Err() != nil {
		return
	}
	g.notified = true
	if !g.awake {
		ctx, stop := context.WithCancel(h.ctx)
		g.awake, g.stop = true, stop
		h.wg.Go(func() {
			defer stop()
			h.serveUntilEmpty(ctx, g)
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.agents[g.agent.id] != g { // it was removed meanwhile
				g.agent.forget()
			}
		})
	}
}

// serveUntilEmpty serves an awake agent until its inbox stays empty.
func (h *Host) serveUntilEmpty(ctx context.Context, g *hostedAgent) {
	h.waiting.Add(1)
	select {
	case h.awake <- struct{}{}:
		h.waiting.Add(-1)
	case <-ctx.Done(): // the agent was removed, or the host ends
		h.waiting.Add(-1)
		return
	}
	defer func() { <-h.awake }()
	for {
		h.mu.Lock()
		g.notified = false
		h.mu.Unlock()
		err := g.agent.serve(ctx)
		h.mu.Lock()
		over := ctx.Err() != nil || errors.Is(err, transport.ErrClosed) || err == nil && !g.notified
		if over {
			g.awake = false // later events wake it again
		}
		h.mu.Unlock()
		if over {
			return
		}
		if err != nil {
			g.agent.log.Warn("inbox not served", "err", err)
			_ = rest.For(ctx, hostedQuiet)
		}
	}
}

// beat announces the agents, and then the host's presence at every heartbeat, and all of them when the wall clock was set forward.
func (h *Host) beat(ctx context.Context, first []*agent) error {
	tick := time.NewTicker(h.o.Heartbeat)
	defer tick.Stop()
	next, began, moved := "", false, false
	for {
		presence := &transport.Card{Host: h.self.id, TTL: h.self.ttl(), Heartbeat: min(h.o.Heartbeat, transport.MaxHeartbeat)}
		if err := h.self.publish(ctx, transport.Cards(h.o.Tenant), h.self.cardEvent(presence)); err != nil {
			return err
		}
		if !began {
			if err := h.announce(ctx, first...); err != nil {
				return err
			}
			h.self.log.Info("host joined", "instance", h.o.Instance, "agents", len(first))
			began = true
		} else {
			h.mu.Lock()
			all := h.all()
			h.mu.Unlock()
			// Announce a share of the agents each time, so that each is announced once per hostedPeriod.
			from, _ := slices.BinarySearchFunc(all, next, func(a *agent, id string) int { return strings.Compare(a.id, id) })
			n := min(len(all), int(int64(len(all))*int64(h.o.Heartbeat)/int64(hostedPeriod))+1)
			if moved {
				n, moved = len(all), false
			}
			again := slices.Concat(all[from:], all[:from])[:n]
			if err := h.announce(ctx, again...); err != nil {
				return err
			}
			if n > 0 {
				next = again[n-1].id + "\x00"
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-h.self.wall.moved:
			moved = true
		}
	}
}

// announce publishes the cards of agents. One that cannot be published does not end the others.
func (h *Host) announce(ctx context.Context, agents ...*agent) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(hostedAtOnce)
	for _, a := range agents {
		g.Go(func() error {
			err := h.announceOne(ctx, a)
			if errors.Is(err, transport.ErrInvalid) {
				a.log.Error("agent is not announced: its card cannot be sent", "err", err)
				return nil
			}
			return err
		})
	}
	return g.Wait()
}

// announceOne publishes the card of an agent if it is there.
func (h *Host) announceOne(ctx context.Context, a *agent) error {
	h.mu.Lock()
	there := h.agents[a.id] != nil
	h.mu.Unlock()
	if !there {
		return nil
	}
	return a.publish(ctx, transport.Cards(a.o.Tenant), a.cardEvent(&transport.Card{Card: a.shown(), Host: h.self.id, TTL: max(hostedTTL, h.self.ttl())}))
}

func (h *Host) goodbye() *transport.Card {
	return &transport.Card{Gone: transport.GoneLeft}
}

// handOver announces the host a last time. Whatever is decided before another process announces the agents would otherwise be told that there are none.
func (h *Host) handOver() {
	ttl := max(h.o.HandOver, time.Second)
	h.self.publishCard(context.Background(), &transport.Card{Host: h.self.id, TTL: ttl, Heartbeat: min(ttl/3, transport.MaxHeartbeat)})
	h.self.log.Info("host handed over", "for", ttl)
}

// leave announces that the host has left, which includes its agents, and removes the agents' own cards as far as announceTimeout allows.
func (h *Host) leave() {
	h.self.publishCard(context.Background(), &transport.Card{Host: h.self.id, Gone: transport.GoneLeft})
	ctx, cancel := context.WithTimeout(context.Background(), announceTimeout)
	defer cancel()
	h.mu.Lock()
	all := h.all()
	h.mu.Unlock()
	g := errgroup.Group{}
	g.SetLimit(hostedAtOnce)
	for _, a := range all {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { return h.tr.Publish(ctx, transport.Cards(a.o.Tenant), a.cardEvent(h.goodbye())) })
	}
	_ = g.Wait() // the rest is gone with the host
	h.self.log.Info("host left")
}
