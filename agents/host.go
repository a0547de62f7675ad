package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Costs of a host that does nothing.
const (
	hostedTTL    = time.Hour        // of a card: the host's own presence says sooner that it is gone
	hostedPeriod = 20 * time.Minute // in which each card is announced once more
	hostedQuiet  = 5 * time.Second  // between two looks at an inbox in which nothing waits; after two it is only watched
	hostedAwake  = 1024             // inboxes that are served at once; others wait for their turn
	hostedAtOnce = 16               // cards that are published at once
)

// Host serves many agents in one process: a bridge's, or those of a catalog. Those that nobody asks for cost next to nothing: they have one
// heartbeat together, and one watch of all their inboxes; an inbox is subscribed to when something comes into it. Each agent works
// as [Serve] says.
//
// The transport must be a [transport.InboxWatcher] and a [transport.InboxDepth].
type Host struct {
	tr      transport.Transport
	watcher transport.InboxWatcher
	o       Options
	self    *agent // publishes what is not one agent's
	awake   chan struct{}

	mu     sync.Mutex
	guests map[string]*guest
	watch  transport.InboxWatch // while Serve runs
	ctx    context.Context      //nolint:containedctx // of Serve, for what is woken
	wg     sync.WaitGroup       // of what is awake; grows under mu only while ctx lives
}

// guest is an agent of a host.
type guest struct {
	agent *agent
	stop  context.CancelFunc // ends it while it is awake
	awake bool
	rung  bool // something may have come since it was looked at
	gone  bool
}

// NewHost returns a host without agents. Its name is the id of its presence, as of an agent, though it is none; options are as for [Serve], for
// each of the agents. Once is not for hosts.
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
	return &Host{tr: tr, watcher: watcher, o: self.o, self: self, awake: make(chan struct{}, hostedAwake), guests: map[string]*guest{}}, nil
}

// Add adds an agent, as [Serve] would serve it, before or while Serve runs; then it is announced when Add returns. It is an error to add one of a
// name that the host has.
func (h *Host) Add(ctx context.Context, card *a2a.AgentCard, x Executor) error {
	o := h.o
	o.Instance = h.self.o.Instance
	a, err := newAgent(h.tr, card, x, &o)
	if err != nil {
		return err
	}
	a.hosted, a.seq = true, h.self.seq
	h.mu.Lock()
	if h.guests[a.id] != nil || a.id == h.self.id {
		h.mu.Unlock()
		return fmt.Errorf("host %s: there is an agent %s already", h.self.id, a.id)
	}
	h.guests[a.id] = &guest{agent: a}
	watch := h.watch
	h.mu.Unlock()
	if watch == nil {
		return nil // Serve does it
	}
	if err := h.self.retry(ctx, "watch", func() error { return watch.Add(ctx, h.inbox(a)) }); err != nil {
		return err
	}
	return h.announce(ctx, a)
}

// Remove takes an agent away: it takes no more tasks, those that it has get [Options].Grace, and it has said goodbye when Remove returns.
func (h *Host) Remove(id string) {
	h.mu.Lock()
	g := h.guests[id]
	if g == nil {
		h.mu.Unlock()
		return
	}
	delete(h.guests, id)
	g.gone = true
	if h.watch != nil {
		h.watch.Remove(h.inbox(g.agent))
	}
	if g.stop != nil {
		g.stop()
	}
	serving := h.watch != nil
	h.mu.Unlock()
	if serving {
		g.agent.publishCard(context.Background(), h.goodbye())
	}
}

// Serve serves the agents until its context ends, and then returns nil: what is worked on has [Options].Grace, as with the function Serve. It returns an error
// when the transport was closed. It is called once.
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
	h.leave()
	return ended(asked, fmt.Errorf("host %s: %w", h.self.id, err))
}

// all returns the agents in the order of their ids; h.mu is held.
func (h *Host) all() []*agent {
	all := make([]*agent, 0, len(h.guests))
	for _, g := range h.guests {
		all = append(all, g.agent)
	}
	slices.SortFunc(all, func(a, b *agent) int { return strings.Compare(a.id, b.id) })
	return all
}

func (h *Host) inbox(a *agent) transport.Topic { return transport.Inbox(a.o.Tenant, a.id) }

// wake serves the inbox of an agent, unless that is done already.
func (h *Host) wake(inbox transport.Topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.guests[inbox.ID]
	if g == nil || h.ctx.Err() != nil {
		return
	}
	g.rung = true
	if !g.awake {
		ctx, stop := context.WithCancel(h.ctx)
		g.awake, g.stop = true, stop
		h.wg.Go(func() {
			defer stop()
			h.attend(ctx, g)
		})
	}
}

// attend serves an agent until nothing is left to do for it.
func (h *Host) attend(ctx context.Context, g *guest) {
	select {
	case h.awake <- struct{}{}:
	case <-ctx.Done(): // the agent is taken away, or the host ends: nothing wakes it any more
		return
	}
	defer func() { <-h.awake }()
	for {
		h.mu.Lock()
		g.rung = false
		h.mu.Unlock()
		err := g.agent.serve(ctx)
		h.mu.Lock()
		over := ctx.Err() != nil || errors.Is(err, transport.ErrClosed) || err == nil && !g.rung
		if over {
			g.awake = false // what comes from now on wakes it
		}
		h.mu.Unlock()
		if over {
			return
		}
		if err != nil {
			g.agent.log.Warn("inbox not served", "err", err)
			select {
			case <-time.After(hostedQuiet):
			case <-ctx.Done():
			}
		}
	}
}

// beat announces the agents, and then, again and again, that the host is there.
func (h *Host) beat(ctx context.Context, first []*agent) error {
	tick := time.NewTicker(h.o.Heartbeat)
	defer tick.Stop()
	next, began := "", false
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
			// Some of them each time, so that all have been once more in their period.
			from, _ := slices.BinarySearchFunc(all, next, func(a *agent, id string) int { return strings.Compare(a.id, id) })
			n := min(len(all), int(int64(len(all))*int64(h.o.Heartbeat)/int64(hostedPeriod))+1)
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
		}
	}
}

// announce publishes the cards of agents.
func (h *Host) announce(ctx context.Context, agents ...*agent) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(hostedAtOnce)
	for _, a := range agents {
		g.Go(func() error {
			h.mu.Lock()
			there := h.guests[a.id] != nil
			h.mu.Unlock()
			if !there {
				return nil
			}
			return a.publish(ctx, transport.Cards(a.o.Tenant), a.cardEvent(&transport.Card{Card: a.shown(), Host: h.self.id, TTL: max(hostedTTL, h.self.ttl())}))
		})
	}
	return g.Wait()
}

func (h *Host) goodbye() *transport.Card {
	return &transport.Card{Gone: transport.GoneLeft}
}

// leave says goodbye: by the host's own card all are gone, and theirs are taken away as far as that is soon done.
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
	_ = g.Wait() // what is not taken away goes with the host
	h.self.log.Info("host left")
}

// untilQuiet returns nil when nothing has waited in the inbox for a while, which includes what is being worked on.
func (a *agent) untilQuiet(ctx context.Context) error {
	depth := a.tr.(transport.InboxDepth) //nolint:errcheck // NewHost has looked
	tick := time.NewTicker(hostedQuiet)
	defer tick.Stop()
	for quiet := 0; quiet < 2; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		n, err := depth.Waiting(ctx, transport.Inbox(a.o.Tenant, a.id))
		if quiet++; err != nil || n > 0 {
			quiet = 0
		}
	}
	return nil
}
