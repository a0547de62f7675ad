package rtfs

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/directory"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// world is a Cortex with a registry. It decides nothing by itself: all that it is asked names an agent.
type world struct {
	t      testing.TB
	bus    *memory.Bus
	store  *memstore.Store
	dir    *directory.Directory
	client *client.Client
	o      options
	times  times
	log    words

	b       *bridge
	address string
	stop    func()
}

// words is a log.
type words struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *words) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *words) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// undecided is a model that is not asked.
type undecided struct{}

func (undecided) Decide(context.Context, *llm.Turn, func(string)) (*llm.Decision, error) {
	return &llm.Decision{Kind: llm.KindRespond, Say: "nobody should ask this"}, nil
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, bus: memory.New(nil), store: memstore.New(), times: usual, o: options{address: "127.0.0.1:0"}}
	w.times.again = 10 * time.Millisecond
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
		w.bus.Close()
	})
	w.dir = directory.New(registry.Config{Announce: true})
	w.client = &client.Client{Transport: w.bus, Log: client.ReadLog(w.store, ""), Poll: 20 * time.Millisecond}
	w.client.OnSend = func(e *transport.Event) { e.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" }
	o, err := cortex.New(cortex.Config{
		Transport: w.bus, Store: w.store, Decider: undecided{}, Agents: w.dir.Routable, Present: w.dir.Present, NoLearning: true,
	})
	must(t, err)
	w.dir.Tell(o)
	running.Go(func() { _ = w.dir.Registry.Run(ctx, w.bus) })
	running.Go(func() { _ = o.Run(ctx) })
	return w
}

// site is what a role gets.
func (w *world) site() *role.Site {
	out := io.Writer(&w.log)
	if testing.Verbose() {
		out = io.MultiWriter(out, w.t.Output())
	}
	return &role.Site{
		Logger: slog.New(slog.NewTextHandler(out, nil)), Client: w.client, Transport: w.bus, Store: w.store,
		Leads: func() bool { return true }, Ready: func() {}, Listeners: 1,
		Agents: func() []*a2a.AgentCard {
			var all []*a2a.AgentCard
			for _, r := range w.dir.Registry.Snapshot().Routable() {
				all = append(all, r.Card)
			}
			return all
		},
	}
}

// serve starts the registry, again after stop.
func (w *world) serve() {
	w.t.Helper()
	at := w.site()
	b, err := newBridge(at, &w.o, w.times)
	must(w.t, err)
	w.b = b
	ctx, cancel := context.WithCancel(context.Background())
	ended, ready := make(chan error, 1), make(chan string, 1)
	go func() {
		ended <- b.run(ctx, func(ctx context.Context) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			ready <- l.Addr().String()
			return at.Serve(ctx, l, b.handler())
		})
	}()
	w.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	w.t.Cleanup(w.stop)
	select {
	case w.address = <-ready:
	case <-time.After(10 * time.Second):
		w.t.Fatal("the registry does not start")
	}
}

// plainAgent is an agent that is called by HTTP, and keeps the calls.
type plainAgent struct {
	*httptest.Server
	mu    sync.Mutex
	calls []string
	heads []http.Header
	do    func(w http.ResponseWriter, n int, r *http.Request)
}

func newAgent(t testing.TB, do func(w http.ResponseWriter, n int, r *http.Request)) *plainAgent {
	a := &plainAgent{do: do}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.calls, a.heads = append(a.calls, string(body)), append(a.heads, r.Header)
		n := len(a.calls)
		a.mu.Unlock()
		a.do(w, n, r)
	}))
	t.Cleanup(a.Close)
	return a
}

// says answers a call.
func says(answer string) func(http.ResponseWriter, int, *http.Request) {
	return func(w http.ResponseWriter, _ int, _ *http.Request) { _, _ = io.WriteString(w, answer) }
}

func (a *plainAgent) called() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.calls)
}

// knows waits until Cortex can give work to an agent.
func (w *world) knows(id string) {
	w.t.Helper()
	w.until(id+" is there", func() bool { return w.has(id) })
}

func (w *world) has(id string) bool {
	r, ok := w.dir.Registry.Snapshot().Get(id)
	return ok && r.Routable()
}

// until waits until something is true.
func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("it never came true that %s", what)
		}
	}
}

// ask has an agent do something, and returns the answer.
func (w *world) ask(agent, skill, text, input string) string {
	w.t.Helper()
	m := client.Text(w.client.NextID(), text)
	if input != "" {
		m.Parts = a2a.ContentParts{a2a.NewDataPart(json.RawMessage(input))}
	}
	m.To = &transport.Direct{Agent: agent, Skill: skill}
	turn, err := w.client.Send(w.t.Context(), m)
	must(w.t, err)
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	said, err := w.client.Answer(ctx, turn)
	must(w.t, err)
	return transport.Text(said.Parts)
}

// join serves one of Cortex's own agents.
func (w *world) join(card *a2a.AgentCard, h agents.Handler) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = agents.Serve(ctx, w.bus, card, h, nil)
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
	})
	w.knows(card.Name)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
