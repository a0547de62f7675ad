package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// patience bounds every wait.
const patience = time.Minute

// onEach runs a scenario on every transport.
func onEach(t *testing.T, play func(t *testing.T, dial func() transport.Transport)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		bus := memory.New(nil)
		t.Cleanup(func() { _ = bus.Close() })
		play(t, func() transport.Transport { return bus })
	})
	t.Run("nats", func(t *testing.T) {
		t.Parallel()
		srv, err := nats.StartServer(t.Context(), &nats.ServerOptions{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.Shutdown)
		play(t, func() transport.Transport { return dialNATS(t, &nats.Options{Server: srv}) })
	})
}

func dialNATS(t *testing.T, o *nats.Options) *nats.Bus {
	t.Helper()
	bus, err := nats.Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bus.Close() })
	return bus
}

// node is a registry that runs on a transport, with its own clock.
type node struct {
	*registry.Registry
	t      *testing.T
	bus    transport.Transport
	events chan string
	clock  *clock
	stop   func()
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}

// run begins a Run, and returns when the registry has the present cards.
func run(t *testing.T, bus transport.Transport, cfg registry.Config) *node {
	t.Helper()
	n := &node{t: t, bus: bus, events: make(chan string, 1000), clock: &clock{now: time.Now().Round(0)}}
	cfg.Tenant, cfg.Now = "t", n.clock.read
	cfg.OnEvent = func(e registry.Event) { n.events <- text(e) }
	n.Registry = registry.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := n.Run(ctx, bus); err != nil {
			t.Error(err)
		}
	})
	n.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(n.stop)
	select {
	case <-n.Synced():
	case <-time.After(patience):
		t.Fatal("the cards did not come")
	}
	return n
}

// want waits for these events, and checks that no others come before the last of them.
func (n *node) want(events ...string) {
	n.t.Helper()
	var got []string
	for range events {
		select {
		case e := <-n.events:
			got = append(got, e)
		case <-time.After(patience):
			n.t.Fatalf("after %q nothing came, want %q", got, events)
		}
	}
	if d := cmp.Diff(events, got); d != "" {
		n.t.Fatalf("events differ (-want +got):\n%s", d)
	}
}

// pass lets time pass, with sweeps.
func (n *node) pass(d time.Duration) {
	for range d / (5 * time.Second) {
		n.Sweep(n.clock.add(5 * time.Second))
	}
}

// publish publishes a card of an instance such as "echo/1".
func publish(t *testing.T, bus transport.Transport, instance string, c transport.Card) {
	t.Helper()
	c.AgentID, c.Instance, _ = strings.Cut(instance, "/")
	if c.Gone == "" && c.Card == nil {
		c.Card = agentCard(c.AgentID, "a")
	}
	e := cardEvent(&c)
	e.ID, e.Time = fmt.Sprint("e", time.Now().UnixNano()), time.Now()
	if err := bus.Publish(t.Context(), transport.Cards("t"), e); err != nil {
		t.Fatal(err)
	}
}

// told subscribes to AgentEvents.
func told(t *testing.T, bus transport.Transport) func(want string) {
	t.Helper()
	sub, err := bus.Subscribe(t.Context(), transport.Cards("t"), nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1000)
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = sub.Serve(context.WithoutCancel(t.Context()), func(_ context.Context, e *transport.Event) error {
			if p, ok := e.Payload.(*transport.AgentEvent); ok {
				lines <- strings.TrimSpace(p.Kind + " " + p.AgentID + " " + p.Reason + strings.Join(p.Added, " +"))
			}
			return nil
		})
	})
	t.Cleanup(func() { _ = sub.Close(); wg.Wait() })
	return func(want string) {
		t.Helper()
		select {
		case got := <-lines:
			if got != want {
				t.Fatalf("%q is told, want %q", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("nothing is told, want %q", want)
		}
	}
}

// TestLife follows an agent's life, as seen by the running Cortex, an observer, and a subscriber of Cortex's events.
func TestLife(t *testing.T) {
	onEach(t, func(t *testing.T, dial func() transport.Transport) {
		agent := dial()
		cortex, observer := run(t, dial(), registry.Config{Announce: true}), run(t, dial(), registry.Config{})
		hears := told(t, dial())
		both := func(events ...string) {
			t.Helper()
			cortex.want(events...)
			observer.want(events...)
		}
		publish(t, agent, "echo/1", transport.Card{TTL: time.Hour, Heartbeat: 20 * time.Minute})
		both("registered echo/1")
		hears("registered echo")
		more := agentCard("echo", "b")
		more.Skills[0].ID = "new"
		publish(t, agent, "echo/1", transport.Card{Card: more, TTL: time.Hour})
		both("updated echo/1", "capabilities-changed echo/1 +new -s")
		hears("updated echo")
		hears("capabilities-changed echo new")
		publish(t, agent, "echo/2", transport.Card{Card: more, TTL: time.Hour})
		both("instance-joined echo/2")
		hears("instance-joined echo")
		publish(t, agent, "echo/1", transport.Card{Card: more, TTL: time.Hour, Draining: true})
		both("draining echo/1")
		hears("draining echo")
		publish(t, agent, "echo/1", transport.Card{Gone: transport.GoneLeft})
		both("instance-left echo/1 requested")
		hears("instance-left echo requested")
		publish(t, agent, "echo/2", transport.Card{Gone: transport.GoneLeft})
		both("deregistered echo/2 requested")
		hears("deregistered echo requested")

		publish(t, agent, "beats/1", transport.Card{TTL: time.Second, Heartbeat: time.Second / 3})
		both("registered beats/1", "deregistered beats/1 missed-heartbeats")
		publish(t, agent, "leased/1", transport.Card{TTL: time.Second})
		both("registered leased/1", "deregistered leased/1 expired")
		for _, line := range []string{"registered beats", "deregistered beats missed-heartbeats", "registered leased", "deregistered leased expired"} {
			hears(line)
		}
	})
}

// TestAllAgree lets an agent fall silent whose card has no TTL: the running Cortex removes it for all.
func TestAllAgree(t *testing.T) {
	onEach(t, func(t *testing.T, dial func() transport.Transport) {
		agent := dial()
		cortex, observer := run(t, dial(), registry.Config{Announce: true}), run(t, dial(), registry.Config{})
		publish(t, agent, "beats/1", transport.Card{Heartbeat: 30 * time.Second})
		cortex.want("registered beats/1")
		observer.want("registered beats/1")
		cortex.Sweep(cortex.clock.read())
		cortex.pass(90 * time.Second)
		cortex.want("deregistered beats/1 missed-heartbeats")
		observer.want("deregistered beats/1 missed-heartbeats") // the observer's own clock stands still
		if late := run(t, dial(), registry.Config{}); len(late.Snapshot().Agents()) != 0 {
			t.Error("who comes later still finds the card")
		}
		publish(t, agent, "beats/1", transport.Card{Heartbeat: 30 * time.Second})
		cortex.want("registered beats/1")
		observer.want("registered beats/1")
	})
}

// TestRestartOnTransport restarts Cortex within and after the time for which the transport retains cards.
func TestRestartOnTransport(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"within": time.Hour, "beyond": time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, dial func() transport.Transport) {
				agent, s := dial(), newShelf()
				n := run(t, dial(), registry.Config{Keep: s})
				for _, id := range []string{"alive", "dead"} {
					publish(t, agent, id+"/1", transport.Card{TTL: 10 * time.Minute, Heartbeat: 30 * time.Second})
					n.want("registered " + id + "/1")
				}
				n.stop()
				if ttl == time.Second { // while Cortex is away, an observer sees that they expire
					observer := run(t, dial(), registry.Config{})
					observer.want("registered alive/1", "registered dead/1")
					for _, id := range []string{"alive", "dead"} {
						publish(t, agent, id+"/1", transport.Card{TTL: ttl, Heartbeat: 30 * time.Second})
						observer.want("deregistered " + id + "/1 missed-heartbeats")
					}
				}
				n = run(t, dial(), registry.Config{Keep: s})
				n.want("registered alive/", "registered dead/")
				if got := len(n.Snapshot().Routable()); got != 2 {
					t.Errorf("%d agents may be given work after the restart, want both", got)
				}
				n.Sweep(n.clock.read())
				n.pass(60 * time.Second)
				returned := []string(nil)
				if ttl == time.Second {
					n.want("draining alive/1", "draining dead/1") // they are late
					returned = []string{"updated alive/1"}
				}
				publish(t, agent, "alive/1", transport.Card{TTL: time.Hour, Heartbeat: 30 * time.Second})
				publish(t, agent, "witness/1", transport.Card{TTL: time.Hour})
				n.want(append(returned, "registered witness/1")...) // and so alive was heard of
				n.pass(30 * time.Second)
				n.want("deregistered dead/1 missed-heartbeats")
				if _, ok := n.Snapshot().Get("alive"); !ok {
					t.Error("an agent that lives is gone")
				}
			})
		})
	}
}

// TestLeftWhileAway lets agents say goodbye just before the end of Cortex, which does not hear it, and while it is away.
func TestLeftWhileAway(t *testing.T) {
	onEach(t, func(t *testing.T, dial func() transport.Transport) {
		agent, s := dial(), newShelf()
		inner := dial()
		_, remembers := inner.(*nats.Bus) // goodbyes; only a server outlives Cortex
		deaf := &deafBus{Transport: inner}
		n := run(t, deaf, registry.Config{Keep: s, Announce: true})
		for _, id := range []string{"before", "dead", "stays", "while"} {
			publish(t, agent, id+"/1", transport.Card{TTL: time.Hour, Heartbeat: 30 * time.Second})
			n.want("registered " + id + "/1")
		}
		deaf.is.Store(true)
		publish(t, agent, "before/1", transport.Card{Gone: transport.GoneLeft})
		n.stop()
		n.want("deregistered before/1 requested")
		if remembers {
			publish(t, agent, "while/1", transport.Card{Gone: transport.GoneLeft})
		}
		n = run(t, dial(), registry.Config{Keep: s, Announce: true})
		n.want("registered dead/", "registered stays/", "registered while/")
		if remembers {
			n.want("deregistered while/1 requested")
		}
		publish(t, agent, "last/1", transport.Card{TTL: time.Hour})
		n.want("registered last/1")
	})
}

// deafBus is a transport whose first subscription stops receiving at some time.
type deafBus struct {
	transport.Transport
	is   atomic.Bool
	subs atomic.Int32
}

func (b *deafBus) Subscribe(ctx context.Context, t transport.Topic, o *transport.SubscribeOptions) (transport.Subscription, error) {
	sub, err := b.Transport.Subscribe(ctx, t, o)
	if err != nil || b.subs.Add(1) > 1 {
		return sub, err
	}
	return deafSubscription{sub, &b.is}, nil
}

type deafSubscription struct {
	transport.Subscription
	is *atomic.Bool
}

func (s deafSubscription) Serve(ctx context.Context, h transport.Handler) error {
	return s.Subscription.Serve(ctx, func(ctx context.Context, e *transport.Event) error {
		if s.is.Load() {
			<-ctx.Done()
			return nil
		}
		return h(ctx, e)
	})
}

// TestLostConnection stops the server until the cards in it have expired: the agents must not be removed.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	o := &nats.ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0"}
	srv, err := nats.StartServer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	o.Listen = u.Host // the same for the next server
	agent := dialNATS(t, &nats.Options{URL: srv.URL()})
	conn := make(chan bool, 10)
	bus := dialNATS(t, &nats.Options{URL: srv.URL(), OnConn: func(up bool, _ error) { conn <- up }})
	n := run(t, bus, registry.Config{})
	becomes := func(up bool) {
		t.Helper()
		select {
		case got := <-conn:
			if got != up {
				t.Fatalf("the connection is up: %v, want %v", got, up)
			}
		case <-time.After(patience):
			t.Fatalf("the connection does not change")
		}
	}
	const lease = 6 * time.Second // in which a slow machine, too, gets to the end of the server
	for _, id := range []string{"alive", "dead", "leaves"} {
		publish(t, agent, id+"/1", transport.Card{TTL: lease, Heartbeat: 30 * time.Second})
		n.want("registered " + id + "/1")
	}
	n.Sweep(n.clock.read())
	srv.Shutdown()
	becomes(false)
	n.Pause()
	n.pass(10 * time.Minute)
	<-time.After(lease) // which ends in the meantime
	if srv, err = nats.StartServer(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	becomes(true)
	n.Resume()
	publish(t, agent, "leaves/1", transport.Card{TTL: time.Hour, Heartbeat: 30 * time.Second})
	publish(t, agent, "leaves/1", transport.Card{Gone: transport.GoneLeft})
	n.want("deregistered leaves/1 requested")
	n.pass(60 * time.Second)
	publish(t, agent, "alive/1", transport.Card{TTL: time.Hour, Heartbeat: 30 * time.Second})
	publish(t, agent, "witness/1", transport.Card{TTL: time.Hour})
	n.want("registered witness/1")
	n.pass(30 * time.Second)
	n.want("deregistered dead/1 missed-heartbeats")
	if _, ok := n.Snapshot().Get("alive"); !ok {
		t.Error("an agent that lives is gone")
	}
}

// TestForeignHost runs a host that announces itself every two minutes, and leaves with an announcement that says so.
func TestForeignHost(t *testing.T) {
	t.Parallel()
	srv, err := nats.StartServer(t.Context(), &nats.ServerOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	bus := dialNATS(t, &nats.Options{Server: srv})
	n := run(t, bus, registry.Config{WellKnown: []registry.WellKnown{{ID: "pinned", Card: agentCard("pinned", "listed")}}})
	n.want("registered pinned/")
	n.Sweep(n.clock.read())
	said := 0
	say := func(agent string, announcement map[string]any) {
		t.Helper()
		said++
		announcement["agentId"], announcement["instance"] = agent, "1"
		body, err := json.Marshal(announcement)
		if err != nil {
			t.Fatal(err)
		}
		m := &natsgo.Msg{Subject: "$KV.CORTEX_AGENTS.t." + agent + ".1", Data: body, Header: natsgo.Header{
			"Cortex-Id": {fmt.Sprint("said-", said)}, "Cortex-Kind": {"card"}, "Cortex-Version": {"1"},
		}}
		if _, err := bus.Conn().RequestMsgWithContext(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	card := func(id string) map[string]any { return map[string]any{"name": id, "description": "a host's"} }
	every := (2 * time.Minute).Nanoseconds()
	for _, id := range []string{"rock", "pinned", "quiet"} {
		say(id, map[string]any{"card": card(id), "heartbeat": every})
	}
	n.want("registered rock/1", "instance-joined pinned/1", "updated pinned/1", "capabilities-changed pinned/1 -s", "registered quiet/1")
	for range 5 {
		n.pass(2 * time.Minute)
		for _, id := range []string{"rock", "pinned", "quiet"} {
			say(id, map[string]any{"card": card(id), "heartbeat": every})
		}
		say("witness", map[string]any{"card": card("witness")})
		n.want("registered witness/1")
		say("witness", map[string]any{"card": card("witness"), "isDeregistering": true})
		n.want("deregistered witness/1 requested")
	}
	say("rock", map[string]any{"card": card("rock"), "isDeregistering": true})
	leaving := card("pinned")
	leaving["isDeregistering"] = true
	say("pinned", map[string]any{"card": leaving})
	n.want("deregistered rock/1 requested", "instance-left pinned/1 requested", "updated pinned/1", "capabilities-changed pinned/1 +s")
	n.pass(6 * time.Minute)
	n.want("deregistered quiet/1 missed-heartbeats")
	if r, ok := n.Snapshot().Get("pinned"); !ok || !r.Routable() {
		t.Error("a well-known agent that left cannot be given work")
	}
}
