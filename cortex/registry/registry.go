package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// Grace is how long after its expiry an instance counts as running, for the transport to say that it has gone.
	Grace = 30 * time.Second

	sweepEvery = 5 * time.Second
	// seenLag is how old a snapshot may be that misses nothing but that agents were seen: thousands of agents are seen
	// all the time, and nobody needs to know it sooner.
	seenLag = time.Second

	maxAgents    = 20_000 // of a registry
	maxInstances = 1_000  // of an agent
)

// Config configures a Registry. The zero value is right for the default tenant.
type Config struct {
	Tenant    string      // "" is the default tenant
	WellKnown []WellKnown // agents that are always listed
	// OnChange, if not nil, is called with every change, one at a time and in order, the cards that were retained when
	// Run began included. It may read the registry, and must not call Apply or Sweep; the registry waits for it.
	OnChange func(Change)
	Now      func() time.Time // nil is time.Now
	Logger   *slog.Logger     // nil discards
}

// Registry holds the records of a tenant's agents. All methods are safe for concurrent use.
type Registry struct {
	cfg    Config
	synced chan struct{}

	applying sync.Mutex // keeps changes in order; held while OnChange runs

	mu      sync.Mutex
	agents  map[string]*agent
	order   []*agent // by id
	serial  uint64   // of what was announced
	refused int

	// A snapshot is built when somebody asks for it, from these counts: of changes, and of agents merely seen.
	changes   atomic.Uint64
	sightings atomic.Uint64
	snapshot  atomic.Pointer[Snapshot]
}

// New returns a Registry that knows the well-known agents only. It starts nothing; see Run.
func New(cfg Config) *Registry {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{cfg: cfg, synced: make(chan struct{}), agents: map[string]*agent{}}
	for _, w := range cfg.WellKnown {
		r.agent(w.ID).pinned = w.Card
	}
	r.snapshot.Store(r.build())
	return r
}

// Run takes the cards of the tenant from tr until ctx ends, and returns nil then; it returns an error when tr gives up. It
// also calls Sweep from time to time. Run is called once.
func (r *Registry) Run(ctx context.Context, tr transport.Transport) error {
	// One at a time: what an instance said last must be what is known of it.
	cards, err := tr.Subscribe(ctx, transport.Cards(r.cfg.Tenant), &transport.SubscribeOptions{Concurrency: 1})
	if err != nil {
		return fmt.Errorf("subscribe to cards: %w", err)
	}
	g, ctx2 := errgroup.WithContext(ctx)
	g.Go(func() error {
		return cards.Serve(ctx2, func(_ context.Context, e *transport.Event) error {
			r.Apply(e)
			return nil
		})
	})
	g.Go(func() error {
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx2.Done():
				return nil
			case <-tick.C:
				r.Sweep(r.cfg.Now())
			}
		}
	})
	err = g.Wait()
	_ = cards.Close()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("cards: %w", err)
}

// Synced is closed once the cards that were there when Run began are in the registry.
func (r *Registry) Synced() <-chan struct{} { return r.synced }

// Apply takes in an event of the tenant's cards topic, which the registry keeps. Other events are ignored.
func (r *Registry) Apply(e *transport.Event) {
	r.applying.Lock()
	defer r.applying.Unlock()
	switch p := e.Payload.(type) {
	case *transport.Synced:
		if !r.isSynced() {
			close(r.synced)
		}
	case *transport.Card:
		switch {
		case e.Tenant != r.cfg.Tenant:
			r.cfg.Logger.Warn("card of another tenant is ignored", "agent", p.AgentID, "tenant", e.Tenant)
		case p.AgentID == transport.Cortex && e.From == transport.Cortex:
			// The orchestrator says that it runs; it is no agent.
		case p.Gone != "":
			r.report(r.gone(p))
		case p.AgentID == transport.Cortex || p.AgentID == "" || p.Card == nil:
			r.cfg.Logger.Warn("card is ignored: it has no name of its own", "agent", p.AgentID, "from", e.From)
		default:
			r.report(r.announced(p, e.Time))
		}
	}
}

// Sweep marks instances as stale that expired more than Grace ago, without a word from the transport. They are not
// removed: that they are gone is for the transport to say.
func (r *Registry) Sweep(now time.Time) {
	r.applying.Lock()
	defer r.applying.Unlock()
	r.report(r.sweep(now))
}

func (r *Registry) report(changes []Change) {
	if r.cfg.OnChange == nil {
		return
	}
	for _, c := range changes {
		r.cfg.OnChange(c)
	}
}

func (r *Registry) isSynced() bool {
	select {
	case <-r.synced:
		return true
	default:
		return false
	}
}

// agent returns the agent with this id, a new one if there is none.
func (r *Registry) agent(id string) *agent {
	a := r.agents[id]
	if a == nil {
		a = &agent{id: id, tenant: r.cfg.Tenant, instances: map[string]*instance{}}
		r.agents[id] = a
		i, _ := r.find(id)
		r.order = slices.Insert(r.order, i, a)
	}
	return a
}

func (r *Registry) find(id string) (int, bool) {
	return slices.BinarySearchFunc(r.order, id, func(a *agent, id string) int { return cmp.Compare(a.id, id) })
}

func (r *Registry) announced(c *transport.Card, sent time.Time) []Change {
	content, err := json.Marshal(c.Card)
	if err != nil {
		r.cfg.Logger.Warn("card is ignored: it cannot be compared", "agent", c.AgentID, "err", err)
		return nil
	}
	sum := sha256.Sum256(content)
	hash := hex.EncodeToString(sum[:])
	now := r.cfg.Now()
	seen := now
	if !r.isSynced() && sent.Before(now) && !sent.IsZero() {
		seen = sent // a retained card; later ones have just been sent, whatever the sender's clock says
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full(c) {
		return nil
	}
	a := r.agent(c.AgentID)
	in := a.instances[c.Instance]
	var kind ChangeKind
	state := StateActive
	if c.Draining {
		state = StateDraining
	}
	switch {
	case in == nil:
		in = &instance{Instance: Instance{ID: c.Instance, Since: now}}
		a.instances[c.Instance] = in
		kind = ChangeJoined
	case in.State == StateStale:
		kind = ChangeJoined
	case in.CardHash != hash:
		kind = ChangeUpdated
	case in.State != state && c.Draining:
		kind = ChangeDraining
	case in.State != state:
		kind = ChangeUpdated
	}
	if in.CardHash != hash {
		r.serial++
		in.CardHash, in.card, in.announced = hash, c.Card, r.serial
	}
	in.State, in.LastSeen, in.ExpiresAt = state, seen, time.Time{}
	if c.TTL > 0 {
		in.ExpiresAt = now.Add(c.TTL)
	}
	if a.registered.IsZero() {
		a.registered = now
	}
	if seen.After(a.seen) {
		a.seen = seen
	}
	a.record = nil
	if kind == "" {
		r.sightings.Add(1)
		return nil
	}
	return r.changed(a, kind, c.Instance, now)
}

// full reports whether c would be one too many, and tells the operator now and then.
func (r *Registry) full(c *transport.Card) bool {
	a := r.agents[c.AgentID]
	switch {
	case a == nil && len(r.agents) >= maxAgents:
	case a != nil && a.instances[c.Instance] == nil && len(a.instances) >= maxInstances:
	default:
		return false
	}
	if r.refused%1000 == 0 {
		r.cfg.Logger.Warn("card is ignored: there are too many", "agent", c.AgentID, "instance", c.Instance,
			"max_agents", maxAgents, "max_instances", maxInstances, "ignored", r.refused+1)
	}
	r.refused++
	return true
}

func (r *Registry) gone(c *transport.Card) []Change {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.agents[c.AgentID]
	if a == nil || a.instances[c.Instance] == nil {
		return nil
	}
	a.last = a.current().Card
	delete(a.instances, c.Instance)
	if len(a.instances) == 0 && a.pinned == nil {
		delete(r.agents, a.id)
		i, _ := r.find(a.id)
		r.order = slices.Delete(r.order, i, i+1)
	}
	kind := ChangeLeft
	if c.Gone == transport.GoneExpired {
		kind = ChangeExpired
	}
	return r.changed(a, kind, c.Instance, r.cfg.Now())
}

func (r *Registry) sweep(now time.Time) (changes []Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.order {
		for _, known := range a.current().Instances {
			in := a.instances[known.ID]
			if in.State != StateStale && !in.ExpiresAt.IsZero() && now.After(in.ExpiresAt.Add(Grace)) {
				in.State = StateStale
				changes = append(changes, r.changed(a, ChangeStale, in.ID, now)...)
			}
		}
	}
	return changes
}

// changed returns the change that readers are told of, and a warning when it makes the agent's cards differ.
func (r *Registry) changed(a *agent, kind ChangeKind, instance string, now time.Time) []Change {
	r.changes.Add(1)
	a.record = nil
	changes := []Change{{kind, a.id, instance, a.current(), now}}
	cards := a.cards()
	if (kind == ChangeJoined || kind == ChangeUpdated) && len(cards) > 1 && !slices.Equal(cards, a.warned) {
		changes = append(changes, Change{ChangeConflict, a.id, instance, a.record, now})
	}
	a.warned = cards
	return changes
}
