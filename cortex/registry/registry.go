package registry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// seenLag is the maximum age of a snapshot that lacks only heartbeats. Thousands of agents send them all the time, and no reader needs them sooner.
	seenLag = time.Second
)

// Config configures a Registry. The zero value is valid, for the default tenant.
type Config struct {
	Tenant    string      // "" is the default tenant
	WellKnown []WellKnown // agents that are always listed
	// OnEvent, if not nil, is called with every event, one at a time and in order: first with the present agents when Run begins, as registered, then
	// with each change. The registry waits for it. It may call Snapshot, but no other method of the registry.
	OnEvent func(Event)
	// Seen enables EventSeen: thousands of agents cause hundreds of them per second.
	Seen bool
	// Announce is set for the registry of the running Cortex, which is authoritative: Run publishes its events, except EventSeen, on the tenant's cards
	// topic, and removes silent agents from that topic. Publishing is best effort.
	Announce bool
	// Leads reports whether this one of a tenant's orchestrators announces at the moment, so that only one does; nil stands for always.
	Leads func() bool
	// StrictAbilities refuses an agent with a skill whose id another agent has that was there before. The agent is accepted as soon as no other has the
	// skill.
	StrictAbilities bool
	// Keep stores the agents for the Run of the next process, so that a restart of Cortex does not look like the end of all agents. With nil nothing is
	// stored.
	Keep   Keeper
	Now    func() time.Time // nil is time.Now
	Logger *slog.Logger     // nil discards
}

// Registry holds the records of a tenant's agents. All methods are safe for concurrent use.
type Registry struct {
	cfg       Config
	synced    chan struct{}
	notes     *notes
	announcer announcer

	applying sync.Mutex // orders changes; held while OnEvent runs
	begun    bool       // guarded by applying

	mu     sync.Mutex
	agents map[string]*agent
	hosts  map[hostKey]*host
	order  []*agent          // by id
	claims map[string]string // the owner of each exclusive ability, with Config.StrictAbilities
	serial uint64            // of announcements
	// hostsOf has how many instances of each host are known, by its id.
	hostsOf map[string]int
	full    overfull
	bytes   int            // of the cards of all agents
	bytesOf map[string]int // of them those of the agents of each host, by its id
	swept   time.Time      // when the clock was last checked; zero: never
	paused  bool

	// Snapshots are built on demand, when these counts of changes and of heartbeats have grown.
	changes   atomic.Uint64
	sightings atomic.Uint64
	heard     atomic.Uint64 // see Heard
	snapshot  atomic.Pointer[Snapshot]
}

// New returns a Registry with the well-known agents only. It starts nothing; see Run.
func New(cfg Config) *Registry {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	r := &Registry{
		cfg: cfg, synced: make(chan struct{}), agents: map[string]*agent{}, hosts: map[hostKey]*host{}, hostsOf: map[string]int{}, bytesOf: map[string]int{}, claims: map[string]string{},
		notes:     &notes{wake: make(chan struct{}, 1), marked: map[string]struct{}{}},
		announcer: announcer{queue: make(chan *transport.Event, maxUnsaid)},
	}
	for _, w := range cfg.WellKnown {
		hash, _ := hashOf(w.Card) // no error: the list was decoded from JSON
		a := r.agent(w.ID)
		a.pinned = newContent(w.Card, hash)
		r.judge(a)
	}
	r.snapshot.Store(r.build())
	return r
}

// Run reads the tenant's cards from tr until ctx ends, then returns nil; it returns an error when tr gives up. It also calls Sweep periodically, and
// does what Config.Keep and Config.Announce ask for. At most one Run may be active at a time.
func (r *Registry) Run(ctx context.Context, tr transport.Transport) error {
	// One at a time, since the last announcement of an instance counts.
	cards, err := tr.Subscribe(ctx, transport.Cards(r.cfg.Tenant), &transport.SubscribeOptions{Concurrency: 1})
	if err != nil {
		return fmt.Errorf("subscribe to cards: %w", err)
	}
	r.begin(ctx)
	g, ctx2 := errgroup.WithContext(ctx)
	g.Go(func() error {
		return cards.Serve(ctx2, func(_ context.Context, e *transport.Event) error {
			r.Apply(e)
			return nil
		})
	})
	g.Go(func() error {
		for rest.For(ctx2, sweepEvery) == nil {
			r.Sweep(r.cfg.Now())
		}
		return nil
	})
	if r.cfg.Keep != nil {
		g.Go(func() error { return r.keep(ctx2) })
	}
	if r.cfg.Announce {
		g.Go(func() error { return r.speak(ctx2, tr) })
	}
	err = g.Wait()
	_ = cards.Close()
	r.flush(ctx, tr)
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("cards: %w", err)
}

// begin restores the stored agents, and reports the present agents to OnEvent before any card arrives.
func (r *Registry) begin(ctx context.Context) {
	r.applying.Lock()
	defer r.applying.Unlock()
	if r.begun {
		return
	}
	r.begun = true
	if r.cfg.Keep != nil {
		r.restore(ctx)
	}
	if r.cfg.OnEvent == nil {
		return
	}
	r.mu.Lock()
	now := r.now()
	var events []Event
	for _, a := range r.order {
		events = append(events, compare(view{}, a.view(), "", "", now)...)
	}
	r.mu.Unlock()
	for _, e := range events {
		r.cfg.OnEvent(e)
	}
}

// Synced returns a channel that is closed when the registry has the cards that were retained when Run began.
func (r *Registry) Synced() <-chan struct{} { return r.synced }

func (r *Registry) isSynced() bool {
	select {
	case <-r.synced:
		return true
	default:
		return false
	}
}

// Heard returns how many events of the cards topic have been applied: a long list arrives as long as it grows.
func (r *Registry) Heard() uint64 { return r.heard.Load() }

// now returns the wall-clock time, without the monotonic reading, which stops while the machine is suspended.
func (r *Registry) now() time.Time { return r.cfg.Now().Round(0) }

// Apply applies an event of the tenant's cards topic, which the registry retains. It ignores other events.
func (r *Registry) Apply(e *transport.Event) {
	r.applying.Lock()
	defer r.applying.Unlock()
	defer r.heard.Add(1)
	switch p := e.Payload.(type) {
	case *transport.Synced:
		if !r.isSynced() {
			r.report(r.settle())
			close(r.synced)
		}
	case *transport.Card:
		switch {
		case e.Tenant != r.cfg.Tenant:
			r.cfg.Logger.Warn("card of another tenant is ignored", "agent", p.AgentID, "tenant", e.Tenant)
		case p.AgentID == transport.Cortex && e.From == transport.Cortex:
			// The orchestrator announces itself, and is no agent.
		case p.Gone == "" && p.IsHost():
			r.hostHeard(p, e)
		case p.Gone != "":
			r.report(r.gone(p))
		case transport.IsReserved(p.AgentID) || p.AgentID == "" || p.Card == nil:
			r.cfg.Logger.Warn("card is ignored: it has no name of its own", "agent", p.AgentID, "from", e.From)
		default:
			r.report(r.announced(p, e))
		}
	}
}

// report passes events to OnEvent, and publishes them on the cards topic.
func (r *Registry) report(events []Event) {
	for _, e := range events {
		if r.announces() && e.Kind != EventSeen {
			r.announcer.say(r.announcement(e))
		}
		if r.cfg.OnEvent != nil {
			r.cfg.OnEvent(e)
		}
	}
}

func (r *Registry) announces() bool {
	return r.cfg.Announce && (r.cfg.Leads == nil || r.cfg.Leads())
}

// agent returns the agent with this id, creating it if necessary.
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

// announced applies an announcement c from the event e.
func (r *Registry) announced(c *transport.Card, e *transport.Event) []Event {
	hash, err := hashOf(c.Card)
	if err != nil {
		r.cfg.Logger.Warn("card is ignored: it cannot be compared", "agent", c.AgentID, "err", err)
		return nil
	}
	r.mu.Lock()
	known := r.known(c.AgentID, hash)
	r.mu.Unlock()
	isNew := known == nil
	if isNew {
		known = newContent(c.Card, hash) // which takes long, and changes are made one after the other anyway
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if r.isFull(c, known, isNew) {
		former := r.former(c)
		if former == nil {
			return nil
		}
		known, hash = former, former.hash
	}
	retained, seen := !r.isSynced(), r.heardAt(e, now)
	a := r.agent(c.AgentID)
	var before view
	if a.there() {
		before = a.view()
	}
	in := a.instances[c.Instance]
	if in == nil {
		in = &instance{id: c.Instance, since: now}
		a.instances[c.Instance] = in
	}
	same := in.content != nil && in.content.hash == hash && in.draining == c.Draining && !in.absent
	if in.grace && in.event == e.ID && in.sent.Equal(e.Time) && same && !in.reread && !retained {
		in.reread = true // the same announcement again: the transport reads its retained cards again
		in.lost, in.absent = false, false
		return nil
	}
	in.event, in.sent = e.ID, e.Time
	in.lost, in.absent = false, false
	if in.grace && retained {
		in.ttl, in.heartbeat = c.TTL, c.Heartbeat // an older announcement is no heartbeat
	} else {
		in.hear(c, now)
	}
	in.host = r.hostOf(c, now)
	if c.Host != a.within {
		r.count(a, a.bytes) // it is known from before a start
	}
	if in.host != nil && in.host.seen.After(seen) {
		seen = in.host.seen // its agents announce themselves seldom
	}
	a.hear(in, seen)
	if a.registered.IsZero() {
		a.registered = now
	}
	if same {
		r.sightings.Add(1)
		if r.cfg.Seen && !retained {
			return []Event{{Kind: EventSeen, Time: now, AgentID: a.id, Instance: in.id, Record: a.view().record}}
		}
		return nil
	}
	if in.content == nil || in.content.hash != hash {
		r.serial++
		in.content, in.announced = known, r.serial
	}
	in.draining = c.Draining
	return r.changed(a, before, in.id, "", now)
}

// heardAt returns when an announcement was sent: a retained one at the time in it, a newer one just now, whatever the sender's clock says.
func (r *Registry) heardAt(e *transport.Event, now time.Time) time.Time {
	if r.isSynced() || e.Time.IsZero() || !e.Time.Before(now) {
		return now
	}
	return e.Time.Round(0)
}

// gone applies a goodbye of an instance, or the end of its lease as the transport reports it.
func (r *Registry) gone(c *transport.Card) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.look(now)
	if h := r.hosts[hostKey{c.AgentID, c.Instance}]; h != nil {
		return r.hostGone(h, c.Gone, now)
	}
	a := r.agents[c.AgentID]
	if a == nil || a.instances[c.Instance] == nil {
		return nil
	}
	in := a.instances[c.Instance]
	if c.Gone != transport.GoneExpired {
		return r.remove(a, in, ReasonRequested, now)
	}
	in.lost = true
	if in.grace {
		return nil
	}
	return r.remove(a, in, in.silence(), now)
}

// remove removes an instance, and with the last one an agent that is not well known.
func (r *Registry) remove(a *agent, in *instance, reason string, now time.Time) []Event {
	before := a.view()
	a.last = before.content
	delete(a.instances, in.id)
	if !a.there() {
		delete(r.agents, a.id)
		i, _ := r.find(a.id)
		r.order = slices.Delete(r.order, i, i+1)
	}
	return r.changed(a, before, in.id, reason, now)
}

// changed returns the events that follow from the change of an agent since the view before.
func (r *Registry) changed(a *agent, before view, instance, reason string, now time.Time) []Event {
	r.changes.Add(1)
	freed := r.judge(a)
	r.count(a, a.size())
	a.shown = view{}
	after := a.view()
	if r.cfg.Keep != nil {
		r.notes.mark(a.id)
	}
	events := compare(before, after, instance, reason, now)
	cards := a.cards()
	if reason == "" && len(cards) > 1 && !slices.Equal(cards, a.warned) && !slices.ContainsFunc(events, func(e Event) bool { return e.Kind == EventDraining }) {
		events = append(events, Event{Kind: EventConflict, Time: now, AgentID: a.id, Instance: instance, Record: after.record})
	}
	a.warned = cards
	if len(freed) > 0 {
		events = append(events, r.reconsider(freed, now)...)
	}
	return events
}

func (r *Registry) tenantName() string {
	if r.cfg.Tenant == "" {
		return "the default tenant"
	}
	return fmt.Sprintf("tenant %q", shorten.Marked(r.cfg.Tenant, 100, "…"))
}
