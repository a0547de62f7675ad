package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
)

const ttl = 90 * time.Second

var epoch = time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)

// world is a registry with a clock, and the events that it has reported.
type world struct {
	*registry.Registry
	now    time.Time
	events []string
	last   registry.Event
	sent   int
}

func newWorld(wellKnown ...registry.WellKnown) *world {
	return newWorldOf(registry.Config{WellKnown: wellKnown})
}

func newWorldOf(cfg registry.Config) *world {
	w := &world{now: epoch}
	cfg.Tenant, cfg.Now = "t", func() time.Time { return w.now }
	cfg.OnEvent = func(e registry.Event) {
		w.events = append(w.events, text(e))
		w.last = e
	}
	w.Registry = registry.New(cfg)
	w.Apply(&transport.Event{Tenant: "t", Payload: &transport.Synced{}})
	return w
}

// text is the short form of an event: "instance-left echo/1 expired", "capabilities-changed echo/1 +a -b".
func text(e registry.Event) string {
	line := fmt.Sprintf("%s %s/%s %s", e.Kind, e.AgentID, e.Instance, e.Reason)
	for _, id := range e.Added {
		line += " +" + id
	}
	for _, id := range e.Removed {
		line += " -" + id
	}
	return strings.TrimSpace(strings.ReplaceAll(line, "  ", " "))
}

func agentCard(name, description string) *a2a.AgentCard {
	return &a2a.AgentCard{Name: name, Description: description, Version: "1.2.0", Skills: []a2a.AgentSkill{{ID: "s", Name: "S"}}}
}

func cardEvent(c *transport.Card) *transport.Event {
	return &transport.Event{ID: "e", Time: epoch, From: c.AgentID, Tenant: "t", Payload: c}
}

// publish applies a card of an instance such as "echo/1", published now.
func (w *world) publish(instance string, c transport.Card) *transport.Event {
	c.AgentID, c.Instance, _ = strings.Cut(instance, "/")
	w.sent++
	e := cardEvent(&c)
	e.ID, e.Time = fmt.Sprint("e", w.sent), w.now
	w.Apply(e)
	return e
}

// announce publishes the card of an instance with this description.
func (w *world) announce(instance, description string) *transport.Event {
	id, _, _ := strings.Cut(instance, "/")
	return w.publish(instance, transport.Card{Card: agentCard(id, description), TTL: ttl})
}

func (w *world) drain(instance, description string) {
	id, _, _ := strings.Cut(instance, "/")
	w.publish(instance, transport.Card{Card: agentCard(id, description), TTL: ttl, Draining: true})
}

func (w *world) goes(instance string, why transport.GoneReason) {
	w.publish(instance, transport.Card{Gone: why})
}

// pass lets time pass, with sweeps.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(min(5*time.Second, end.Sub(w.now)))
		w.Sweep(w.now)
	}
}

func (w *world) want(t *testing.T, events ...string) {
	t.Helper()
	if d := cmp.Diff(events, w.events); d != "" {
		t.Errorf("events differ (-want +got):\n%s", d)
	}
	w.events = nil
}

// wantAgents takes "id:state:description" for each agent, with a "+" where it is routable.
func (w *world) wantAgents(t *testing.T, agents ...string) {
	t.Helper()
	s := w.Snapshot()
	var got []string
	for _, r := range s.Agents() {
		line := fmt.Sprintf("%s:%s:%s", r.ID, r.State, r.Card.Description)
		if slices.Contains(s.Routable(), r) {
			line += "+"
		}
		got = append(got, line)
	}
	if d := cmp.Diff(agents, got); d != "" {
		t.Errorf("agents differ (-want +got):\n%s", d)
	}
}

func TestComingAndGoing(t *testing.T) {
	w := newWorld()
	w.announce("echo/1", "a")
	w.want(t, "registered echo/1")
	w.wantAgents(t, "echo:active:a+")

	for range 3 {
		w.now = w.now.Add(30 * time.Second)
		w.announce("echo/1", "a")
	}
	w.want(t)
	r, _ := w.Snapshot().Get("echo")
	want := &registry.Record{
		ID: "echo", Tenant: "t", Card: agentCard("echo", "a"), Version: "1.2.0", Spec: &agentcard.Spec{},
		State: registry.StateActive, Origin: registry.OriginAnnounced, RegisteredAt: epoch, LastSeen: w.now, ExpiresAt: w.now.Add(ttl),
		Instances: []registry.Instance{{
			ID: "1", State: registry.StateActive, CardHash: r.Instances[0].CardHash, Since: epoch, LastSeen: w.now, ExpiresAt: w.now.Add(ttl),
		}},
	}
	if d := cmp.Diff(want, r); d != "" {
		t.Errorf("record differs (-want +got):\n%s", d)
	}

	w.announce("echo/1", "b")
	w.want(t, "updated echo/1")
	w.wantAgents(t, "echo:active:b+")
	w.drain("echo/1", "b")
	w.drain("echo/1", "b")
	w.want(t, "draining echo/1")
	w.wantAgents(t, "echo:draining:b")
	w.announce("echo/1", "b")
	w.want(t, "updated echo/1")
	w.goes("echo/1", transport.GoneLeft)
	w.goes("echo/1", transport.GoneLeft)
	w.want(t, "deregistered echo/1 requested")
	w.wantAgents(t)
	if r := w.last.Record; r.State != registry.StateGone || r.Card.Description != "b" || len(r.Instances) != 0 {
		t.Errorf("record of an agent that left = %+v, want it gone, with its last card", r)
	}

	w.announce("echo/2", "c")
	w.goes("echo/2", transport.GoneExpired)
	w.want(t, "registered echo/2", "deregistered echo/2 expired")
	w.goes("nobody/1", transport.GoneLeft)
	w.want(t)
}

func TestInstances(t *testing.T) {
	w := newWorld()
	w.announce("echo/b", "v1")
	w.announce("echo/a", "v1")
	w.want(t, "registered echo/b", "instance-joined echo/a")
	r, _ := w.Snapshot().Get("echo")
	if len(r.Instances) != 2 || r.Instances[0].ID != "a" || r.Instances[0].CardHash != r.Instances[1].CardHash {
		t.Errorf("instances = %+v, want a and b with the same card", r.Instances)
	}

	// A new version joins the old one: one warning, and the newer card represents the agent, however often the others are seen.
	w.announce("echo/c", "v2")
	w.want(t, "instance-joined echo/c", "updated echo/c", "conflict echo/c")
	for range 3 {
		w.announce("echo/c", "v2")
		w.announce("echo/a", "v1")
		w.announce("echo/b", "v1")
		w.wantAgents(t, "echo:active:v2+")
	}
	w.want(t)
	w.announce("echo/d", "v2") // the same two cards: no new warning
	w.want(t, "instance-joined echo/d")
	w.announce("echo/a", "v3")
	w.want(t, "updated echo/a", "conflict echo/a")
	w.wantAgents(t, "echo:active:v3+")

	// An active instance takes precedence over a draining one, and an older card returns when the newer one leaves.
	w.drain("echo/a", "v3")
	w.want(t, "draining echo/a", "updated echo/a")
	w.wantAgents(t, "echo:active:v2+")
	w.goes("echo/c", transport.GoneLeft)
	w.goes("echo/d", transport.GoneExpired)
	w.want(t, "instance-left echo/c requested", "instance-left echo/d expired", "updated echo/d")
	w.wantAgents(t, "echo:active:v1+")
	w.goes("echo/b", transport.GoneLeft)
	w.want(t, "instance-left echo/b requested", "draining echo/b", "updated echo/b")
	w.wantAgents(t, "echo:draining:v3")
	w.announce("echo/e", "v4") // beside a draining one: a regular update
	w.want(t, "instance-joined echo/e", "updated echo/e")
	w.wantAgents(t, "echo:active:v4+")
	w.goes("echo/e", transport.GoneLeft)
	w.goes("echo/a", transport.GoneLeft)
	w.want(t, "instance-left echo/e requested", "draining echo/e", "updated echo/e", "deregistered echo/a requested")
	w.wantAgents(t)
}

func TestExpiryOfSeveral(t *testing.T) {
	w := newWorld()
	expires := func() time.Time {
		r, _ := w.Snapshot().Get("echo")
		return r.ExpiresAt
	}
	w.announce("echo/1", "a")
	w.now = w.now.Add(time.Minute)
	w.announce("echo/2", "a")
	if got, want := expires(), w.now.Add(ttl); !got.Equal(want) {
		t.Errorf("ExpiresAt = %v, want that of the last to expire, %v", got, want)
	}
	w.Apply(cardEvent(&transport.Card{AgentID: "echo", Instance: "3", Card: agentCard("echo", "a")}))
	if got := expires(); !got.IsZero() {
		t.Errorf("ExpiresAt = %v, want never, as for one of the instances", got)
	}
}

func TestIgnored(t *testing.T) {
	var log bytes.Buffer
	r := registry.New(registry.Config{
		Tenant: "t", Logger: slog.New(slog.NewTextHandler(&log, nil)), OnEvent: func(e registry.Event) { t.Errorf("event %+v", e) },
	})
	other := cardEvent(&transport.Card{AgentID: "echo", Instance: "1", Card: agentCard("echo", "")})
	other.Tenant = "other"
	impostor := cardEvent(&transport.Card{AgentID: transport.Cortex, Instance: "2", Card: agentCard("cortex", "me too")})
	impostor.From = "impostor"
	for _, e := range []*transport.Event{
		other,
		impostor,
		{Tenant: "other", Payload: &transport.Card{AgentID: "echo", Instance: "1", Gone: transport.GoneLeft}},
		cardEvent(&transport.Card{AgentID: transport.Cortex, Instance: "1", Card: agentCard("cortex", "me")}), // the orchestrator: nothing to report
		cardEvent(&transport.Card{AgentID: "echo", Instance: "1"}),
		cardEvent(&transport.Card{Instance: "1", Card: agentCard("echo", "")}),
		{Tenant: "t", Payload: &transport.Opaque{Kind: "card", Version: "9"}},
		{Tenant: "t", From: transport.Cortex, Payload: &transport.AgentEvent{Kind: "registered", AgentID: "echo", Instance: "1"}},
		{Tenant: "t"},
	} {
		r.Apply(e)
	}
	if n := len(r.Snapshot().Agents()); n != 0 {
		t.Errorf("there are %d agents, want none", n)
	}
	if got := strings.Count(log.String(), "is ignored"); got != 5 {
		t.Errorf("%d cards were reported, want 5:\n%s", got, &log)
	}
}

func TestBounds(t *testing.T) {
	const agents, instances = 20_000, 1_000
	var log bytes.Buffer
	now := time.Now()
	r := registry.New(registry.Config{Tenant: "t", Logger: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return now }})
	card := agentCard("x", "")
	if got := r.Trouble(); len(got) > 0 {
		t.Errorf("an empty registry has trouble: %q", got)
	}
	for i := range instances + 5 {
		r.Apply(cardEvent(&transport.Card{AgentID: "many", Instance: fmt.Sprint(i), Card: card}))
	}
	for i := range agents + 5 {
		r.Apply(cardEvent(&transport.Card{AgentID: fmt.Sprint("a", i), Instance: "1", Card: card}))
	}
	many, _ := r.Snapshot().Get("many")
	if got := len(many.Instances); got != instances {
		t.Errorf("an agent has %d instances, want %d", got, instances)
	}
	if got := len(r.Snapshot().Agents()); got != agents {
		t.Errorf("there are %d agents, want %d", got, agents)
	}
	if got := strings.Count(log.String(), "too many"); got != 1 {
		t.Errorf("the log has %d warnings, want 1:\n%s", got, &log)
	}
	if got := r.Trouble(); len(got) != 1 || !strings.Contains(got[0], `11 cards were ignored, the last one of "a20004"`) {
		t.Errorf("Trouble() = %q", got)
	}
	r.Apply(cardEvent(&transport.Card{AgentID: "many", Instance: "0", Card: agentCard("x", "known ones still change")}))
	if many, _ = r.Snapshot().Get("many"); many.Card.Description == "" {
		t.Error("a full registry does not take the new card of an agent that it has")
	}
	now = now.Add(time.Hour)
	if got := r.Trouble(); len(got) > 0 {
		t.Errorf("an hour later: Trouble() = %q", got)
	}
}

// TestSnapshot checks that a snapshot is immutable, and that asking again is free when nothing has changed.
func TestSnapshot(t *testing.T) {
	w := newWorld()
	for _, id := range []string{"m/1", "z/1", "a/1", "B/1", "m/2"} {
		w.announce(id, "old")
	}
	s := w.Snapshot()
	if w.Snapshot() != s {
		t.Error("Snapshot without a change is not the same one")
	}
	ids := func(s *registry.Snapshot) (ids []string) {
		for _, r := range s.Agents() {
			ids = append(ids, r.ID)
		}
		return ids
	}
	if d := cmp.Diff([]string{"B", "a", "m", "z"}, ids(s)); d != "" {
		t.Errorf("agents are not sorted (-want +got):\n%s", d)
	}
	m, _ := s.Get("m")
	z, _ := s.Get("z")
	w.announce("m/1", "new")
	w.goes("a/1", transport.GoneLeft)
	w.announce("b/1", "new")
	if d := cmp.Diff([]string{"B", "a", "m", "z"}, ids(s)); d != "" || m.Card.Description != "old" || m.Instances[0].CardHash != m.Instances[1].CardHash {
		t.Errorf("an old snapshot changed: %+v\n%s", m, d)
	}
	if d := cmp.Diff([]string{"B", "b", "m", "z"}, ids(w.Snapshot())); d != "" {
		t.Errorf("agents differ (-want +got):\n%s", d)
	}
	if again, _ := w.Snapshot().Get("z"); again != z {
		t.Error("the record of an agent that nothing happened to was made anew")
	}
	for _, id := range []string{"", "aa", "zz"} {
		if r, ok := w.Snapshot().Get(id); ok || r != nil {
			t.Errorf("Get(%q) = %v, %v, want nothing", id, r, ok)
		}
	}

	// Only seen: the same snapshot for up to a second.
	s = w.Snapshot()
	w.now = w.now.Add(999 * time.Millisecond)
	w.announce("z/1", "old")
	if w.Snapshot() != s {
		t.Error("an agent that was merely seen made a new snapshot at once")
	}
	w.now = w.now.Add(time.Millisecond)
	if r, _ := w.Snapshot().Get("z"); !r.LastSeen.Equal(epoch.Add(999 * time.Millisecond)) {
		t.Errorf("LastSeen a second later = %v, want the time when it was seen", r.LastSeen)
	}
}

// TestRetained checks that a card that was published before the registry began does not count as just seen.
func TestRetained(t *testing.T) {
	now := epoch.Add(time.Minute)
	r := registry.New(registry.Config{Tenant: "t", Now: func() time.Time { return now }})
	seen := func(sent time.Time) time.Time {
		e := cardEvent(&transport.Card{AgentID: "echo", Instance: "1", Card: agentCard("echo", fmt.Sprint(sent)), TTL: ttl})
		e.Time = sent
		r.Apply(e)
		rec, _ := r.Snapshot().Get("echo")
		if want := now.Add(ttl); !rec.ExpiresAt.Equal(want) {
			t.Errorf("ExpiresAt = %v, want %v: the transport, not the sender's clock, knows better", rec.ExpiresAt, want)
		}
		return rec.Instances[0].LastSeen
	}
	if got := seen(epoch); !got.Equal(epoch) {
		t.Errorf("LastSeen of a retained card = %v, want when it was sent, %v", got, epoch)
	}
	if got := seen(now.Add(time.Hour)); !got.Equal(now) {
		t.Errorf("LastSeen by a clock that is ahead = %v, want %v", got, now)
	}
	r.Apply(&transport.Event{Tenant: "t", Payload: &transport.Synced{}})
	if got := seen(epoch); !got.Equal(now) {
		t.Errorf("LastSeen of a live card by a clock that is behind = %v, want %v", got, now)
	}
}

func TestConcurrent(t *testing.T) {
	const agents, rounds = 50, 40
	var mu sync.Mutex
	joined := map[string]int{}
	var r *registry.Registry
	r = registry.New(registry.Config{Tenant: "t", OnEvent: func(e registry.Event) {
		if e.Kind == registry.EventRegistered {
			mu.Lock()
			joined[e.AgentID]++
			mu.Unlock()
		}
		if rec, ok := r.Snapshot().Get(e.AgentID); ok && e.Record.State == registry.StateGone {
			t.Errorf("%s is gone and listed as %+v", e.AgentID, rec)
		}
	}})
	var wg sync.WaitGroup
	for i := range agents {
		wg.Go(func() {
			id := fmt.Sprint("a", i)
			for round := range rounds {
				r.Apply(cardEvent(&transport.Card{AgentID: id, Instance: "1", Card: agentCard(id, fmt.Sprint(round)), TTL: ttl}))
				if rec, ok := r.Snapshot().Get(id); !ok || rec.Card.Description != fmt.Sprint(round) {
					t.Errorf("%s is not there with the card it has just announced", id)
				}
				if round%2 == 1 {
					r.Apply(cardEvent(&transport.Card{AgentID: id, Instance: "1", Gone: transport.GoneLeft}))
				}
			}
		})
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				s := r.Snapshot()
				if !slices.IsSortedFunc(s.Agents(), func(a, b *registry.Record) int { return strings.Compare(a.ID, b.ID) }) {
					t.Error("a snapshot is not sorted")
				}
				r.Sweep(epoch)
			}
		})
	}
	wg.Wait()
	close(done)
	readers.Wait()
	if n := len(r.Snapshot().Agents()); n != 0 {
		t.Errorf("%d agents are left, want none", n)
	}
	for i := range agents {
		if n := joined[fmt.Sprint("a", i)]; n != rounds/2 {
			t.Errorf("agent %d joined %d times, want %d", i, n, rounds/2)
		}
	}
}

// script is a transport with one subscription, which delivers what the test sends to events.
type script struct {
	transport.Transport
	events chan *transport.Event
	topic  transport.Topic
	err    error // of Subscribe
	closed chan struct{}
}

func (s *script) Subscribe(_ context.Context, t transport.Topic, o *transport.SubscribeOptions) (transport.Subscription, error) {
	s.topic = t
	if o == nil || o.Concurrency != 1 {
		return nil, errors.New("cards must come one at a time")
	}
	return s, s.err
}

func (s *script) Serve(ctx context.Context, h transport.Handler) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-s.events:
			if !ok {
				return transport.ErrClosed
			}
			if err := h(ctx, e); err != nil {
				return err
			}
		}
	}
}

func (s *script) Close() error {
	close(s.closed)
	return nil
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &script{events: make(chan *transport.Event), closed: make(chan struct{})}
		r := registry.New(registry.Config{Tenant: "t"})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx, tr) }()

		tr.events <- cardEvent(&transport.Card{AgentID: "echo", Instance: "1", Card: agentCard("echo", "a"), TTL: ttl})
		synctest.Wait()
		select {
		case <-r.Synced():
			t.Error("synced before the transport says so")
		default:
		}
		tr.events <- &transport.Event{Tenant: "t", Payload: &transport.Synced{}}
		<-r.Synced()
		tr.events <- &transport.Event{Tenant: "t", Payload: &transport.Synced{}}
		if _, ok := r.Snapshot().Get("echo"); !ok || tr.topic != transport.Cards("t") {
			t.Errorf("after Synced echo is not there, from topic %v", tr.topic)
		}

		<-time.After(ttl)
		synctest.Wait()
		if _, ok := r.Snapshot().Get("echo"); !ok {
			t.Error("an agent is gone before the transport had time to say so")
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		if rec, ok := r.Snapshot().Get("echo"); ok {
			t.Errorf("an agent that the transport forgot is %s, want it gone", rec.State)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v, want nil at the end of ctx", err)
		}
		<-tr.closed
	})
}

// TestRunAgain checks that a Run after one that the transport has ended reports only changes.
func TestRunAgain(t *testing.T) {
	var events []string
	r := registry.New(registry.Config{
		WellKnown: []registry.WellKnown{{ID: "listed", Card: agentCard("listed", "")}},
		OnEvent:   func(e registry.Event) { events = append(events, text(e)) },
	})
	for range 2 {
		tr := &script{events: make(chan *transport.Event), closed: make(chan struct{})}
		close(tr.events)
		if err := r.Run(t.Context(), tr); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("Run = %v, want ErrClosed", err)
		}
	}
	if d := cmp.Diff([]string{"registered listed/"}, events); d != "" {
		t.Errorf("events differ (-want +got):\n%s", d)
	}
}

func TestRunEndsWithTransport(t *testing.T) {
	tr := &script{events: make(chan *transport.Event), closed: make(chan struct{})}
	close(tr.events)
	if err := registry.New(registry.Config{}).Run(t.Context(), tr); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Run = %v, want ErrClosed", err)
	}
	if err := registry.New(registry.Config{}).Run(t.Context(), &script{err: transport.ErrUnavailable}); !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("Run = %v, want ErrUnavailable", err)
	}
}

// TestHostsAreBounded checks that hosts have bounds as agents have, that agents take no places of hosts by naming them, and that a host that goes makes room.
func TestHostsAreBounded(t *testing.T) {
	const hosts, instances = 20_000, 1_000
	now := time.Now()
	r := registry.New(registry.Config{Tenant: "t", Now: func() time.Time { return now }})
	host := func(id, instance string, gone transport.GoneReason) {
		r.Apply(cardEvent(&transport.Card{AgentID: id, Instance: instance, Host: id, Heartbeat: transport.MaxHeartbeat, Gone: gone}))
	}
	ignored := func(want int) {
		t.Helper()
		got := r.Trouble()
		if want == 0 && len(got) != 0 || want != 0 && (len(got) != 1 || !strings.Contains(got[0], fmt.Sprintf(": %d cards were ignored", want))) {
			t.Errorf("trouble %q, want %d ignored cards", got, want)
		}
	}
	for i := range instances {
		r.Apply(cardEvent(&transport.Card{AgentID: "stranger", Instance: fmt.Sprint(i), Host: "h", Card: agentCard("x", "")}))
	}
	for i := range instances {
		host("h", fmt.Sprint(i), "")
	}
	ignored(0)
	host("h", "0", "")
	ignored(0)
	host("h", "another", "")
	ignored(1)
	host("h", "1", transport.GoneLeft)
	host("h", "another", "")
	ignored(1)
	for i := range hosts - instances {
		host(fmt.Sprint("h", i), "1", "")
	}
	ignored(1)
	host("late", "1", "")
	ignored(2)
	now = now.Add(4 * transport.MaxHeartbeat)
	r.Sweep(now) // they have a grace, since time has passed unseen
	now = now.Add(4 * transport.MaxHeartbeat)
	for range 2 {
		r.Sweep(now)
		now = now.Add(time.Second)
	}
	host("late", "1", "")
	ignored(0)
}
