package agenthub

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubtest"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/directory"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// world is a Cortex with a hub.
type world struct {
	t       testing.TB
	bus     *memory.Bus
	store   *memstore.Store
	dir     *directory.Directory
	client  *client.Client
	times   times
	prefix  string
	address string
	gate    chan struct{} // closed: answers that begin with slow are given

	hub  *hub
	stop func()
}

// quick are times for tests.
var quick = times{
	grace: 200 * time.Millisecond, registered: 300 * time.Millisecond, artifact: 2 * time.Second, answer: 10 * time.Second, undelivered: 10 * time.Second,
	open: time.Minute, behind: 10 * time.Second,
}

// decider answers, or gives work to the agent that a text begins with.
type decider struct{ w *world }

func (d decider) Decide(ctx context.Context, t *llm.Turn, _ func(string)) (*llm.Decision, error) {
	if len(t.Steps) > 0 {
		last := t.Steps[len(t.Steps)-1].Tasks[0]
		said := last.Result
		for _, a := range last.Artifacts {
			said += a.Text
		}
		return &llm.Decision{Kind: llm.KindRespond, Say: string(last.State) + ": " + said}, nil
	}
	if strings.HasPrefix(t.User, "slow") {
		select {
		case <-d.w.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if len(t.Waiting) > 0 {
		return &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: string(t.Waiting[0].ID), Agent: t.Waiting[0].Agent, Task: t.User}}}, nil
	}
	if agent, task, ok := strings.Cut(t.User, ": "); ok {
		return &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: "a", Agent: agent, Skill: d.w.skill(agent), Task: task}}}, nil
	}
	return &llm.Decision{Kind: llm.KindRespond, Say: "you said " + t.User}, nil
}

// skill returns the first skill of an agent.
func (w *world) skill(agent string) string {
	if r, ok := w.dir.Registry.Snapshot().Get(agent); ok && len(r.Card.Skills) > 0 {
		return r.Card.Skills[0].ID
	}
	return ""
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, bus: memory.New(nil), store: memstore.New(), times: quick, gate: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
		w.bus.Close()
	})
	w.dir = directory.New(registry.Config{Announce: true})
	w.client = &client.Client{Transport: w.bus, Log: client.ReadLog(w.store, ""), Poll: 20 * time.Millisecond}
	o, err := cortex.New(cortex.Config{
		Transport: w.bus, Store: w.store, Decider: decider{w}, Agents: w.dir.Routable, Present: w.dir.Present, NoLearning: true,
	})
	must(t, err)
	w.dir.Tell(o)
	running.Go(func() { _ = w.dir.Registry.Run(ctx, w.bus) })
	running.Go(func() { _ = o.Run(ctx) })
	return w
}

// site is what a role gets.
func (w *world) site() *role.Site {
	log := slog.DiscardHandler
	if testing.Verbose() {
		log = slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})
	}
	return &role.Site{
		Logger: slog.New(log), Client: w.client, Transport: w.bus, Store: w.store, Leads: func() bool { return true }, Ready: func() {}, Listeners: 1,
		Agents: func() []*a2a.AgentCard {
			var all []*a2a.AgentCard
			for _, r := range w.dir.Registry.Snapshot().Routable() {
				all = append(all, r.Card)
			}
			return all
		},
	}
}

// serve starts the hub, at the same address as before.
func (w *world) serve() {
	w.t.Helper()
	at := w.address
	if at == "" {
		at = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", at)
	must(w.t, err)
	w.address = l.Addr().String()
	w.hub, err = newHub(w.site(), w.prefix, w.times)
	must(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- w.hub.run(ctx, func(ctx context.Context) error { return w.hub.serve(ctx, l) })
	}()
	w.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	w.t.Cleanup(w.stop)
}

// dial connects a program.
func (w *world) dial() hubpb.AgentHubClient {
	w.t.Helper()
	hub, end, err := hubtest.Dial(w.address)
	must(w.t, err)
	w.t.Cleanup(end)
	return hub
}

// join runs an agent, and waits until Cortex knows it. leave ends its stream.
func (w *world) join(a *hubtest.SubAgent) (leave func()) {
	w.t.Helper()
	leave = w.run(a)
	if !a.Silent {
		w.until(a.ID+" is there", func() bool { return w.knows(a.ID) })
	}
	return leave
}

// run runs an agent, and waits until it has subscribed.
func (w *world) run(a *hubtest.SubAgent) (leave func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	hub, subscribed := w.dial(), make(chan struct{})
	a.OnStream = func() { close(subscribed) }
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = a.Run(ctx, hub)
	}()
	leave = func() {
		cancel()
		<-ended
	}
	w.t.Cleanup(leave)
	select {
	case <-subscribed:
	case <-time.After(10 * time.Second):
		w.t.Fatalf("%s does not subscribe", a.ID)
	}
	return leave
}

// knows reports whether Cortex can give work to an agent.
func (w *world) knows(agent string) bool {
	r, ok := w.dir.Registry.Snapshot().Get(agent)
	return ok && r.Routable()
}

// ask asks Cortex, and returns the answer.
func (w *world) ask(context, text string) string {
	w.t.Helper()
	turn, err := w.client.Send(w.t.Context(), client.Text(context, text))
	must(w.t, err)
	return w.answer(turn)
}

func (w *world) answer(turn client.Turn) string {
	w.t.Helper()
	m, err := w.client.Answer(w.t.Context(), turn)
	must(w.t, err)
	return transport.Text(m.Parts)
}

// until waits for a condition.
func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); {
		if time.Now().After(end) {
			w.t.Fatalf("%s: it does not come", what)
		}
		<-time.After(time.Millisecond)
	}
}

// receive returns the next value of a channel.
func receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: it does not come", what)
		panic("unreachable")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
