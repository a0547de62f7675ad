package rockbot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/bridge/rockbot/rockbottest"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/directory"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// rabbit is the RabbitMQ of all tests, which differ in the names of their agents; nil: there is none.
var rabbit *rockbottest.Server

// rabbitFolder has its files.
var rabbitFolder string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rockbot")
	if err == nil {
		defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
		rabbitFolder = dir
		if err = certificates(dir); err == nil {
			if rabbit, err = rockbottest.Start(dir); err == nil {
				err = rabbit.Begin()
				defer rabbit.Kill()
			}
		}
	}
	switch {
	case errors.Is(err, rockbottest.ErrMissing) && os.Getenv("CI") == "":
		fmt.Fprintf(os.Stderr, "NOT RUN: bridge/rockbot: %v\n", err)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// world is a Cortex at RockBot's RabbitMQ. It decides nothing by itself: all that it is asked names an agent.
type world struct {
	t      testing.TB
	bus    *memory.Bus
	store  *memstore.Store
	dir    *directory.Directory
	client *client.Client
	o      options
	times  times
	log    journal
	leads  atomic.Bool

	stop func()
}

// journal is a log.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *journal) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *journal) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// undecided is a model that only continues tasks that wait for a reply, says what they result in, and that it has heard all else.
type undecided struct{}

func (undecided) Decide(_ context.Context, t *llm.Turn, _ func(string)) (*llm.Decision, error) {
	switch {
	case len(t.Steps) > 0:
		return &llm.Decision{Kind: llm.KindRespond, Say: t.Steps[len(t.Steps)-1].Tasks[0].Result}, nil
	case len(t.Waiting) > 0:
		return &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: string(t.Waiting[0].ID), Agent: t.Waiting[0].Agent, Task: t.User}}}, nil
	}
	return &llm.Decision{Kind: llm.KindRespond, Say: "Cortex has heard it"}, nil
}

var worlds atomic.Int64

// newWorld returns a world whose Cortex has a name of its own, and in which agents have, too: see name.
func newWorld(t *testing.T) *world {
	if rabbit == nil {
		t.Log("not tested without RabbitMQ")
		t.SkipNow()
	}
	w := &world{t: t, bus: memory.New(nil), store: memstore.New(), times: usual}
	w.o = options{url: rabbit.URL(), name: w.name("Cortex"), announce: []string{transport.Cortex}}
	w.times.pauses = [2]time.Duration{50 * time.Millisecond, 400 * time.Millisecond}
	w.times.change, w.times.unrouted, w.times.pause, w.times.lead = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond, 20*time.Millisecond
	w.leads.Store(true)
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
		Transport: w.bus, Store: w.store, Decider: undecided{}, Agents: w.dir.Routable, Present: w.dir.Present, NoLearning: true,
	})
	must(t, err)
	w.dir.Tell(o)
	running.Go(func() { _ = w.dir.Registry.Run(ctx, w.bus) })
	running.Go(func() { _ = o.Run(ctx) })
	return w
}

// name returns a name that no other test has, since all share one RabbitMQ.
func (w *world) name(name string) string {
	if w.o.name != "" {
		return name + w.o.name[len("Cortex"):]
	}
	return fmt.Sprint(name, "-", worlds.Add(1))
}

// site is what a role gets.
func (w *world) site() *role.Site {
	out := io.Writer(&w.log)
	if testing.Verbose() {
		out = io.MultiWriter(out, w.t.Output())
	}
	return &role.Site{
		Logger: slog.New(slog.NewTextHandler(out, nil)), Client: w.client, Transport: w.bus, Store: w.store,
		Leads: w.leads.Load, Ready: func() {}, Listeners: 1,
		Agents: func() []*a2a.AgentCard {
			var all []*a2a.AgentCard
			for _, r := range w.dir.Registry.Snapshot().Routable() {
				all = append(all, r.Card)
			}
			return all
		},
	}
}

// serve starts the role, again after stop, and returns when it is connected.
func (w *world) serve() {
	w.t.Helper()
	before := w.connections()
	w.start()
	w.until("it is connected", func() bool { return w.connections() > before })
}

func (w *world) connections() int {
	return bytes.Count([]byte(w.log.String()), []byte("connected to RabbitMQ"))
}

func (w *world) start() {
	at := w.site()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- lead(ctx, at, &w.o, w.times) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			w.t.Errorf("the role has failed: %v", err)
		}
	})
	w.t.Cleanup(w.stop)
}

// program starts a program of RockBot.
func (w *world) program(p *rockbottest.Program) *rockbottest.Program {
	w.t.Helper()
	p.Name = w.name(p.Name)
	p.Wrong = func(err error) { w.t.Error(err) }
	must(w.t, p.Connect(rabbit.URL()))
	w.t.Cleanup(p.Close)
	return p
}

// agent starts an agent of RockBot, and waits until Cortex can give it work.
func (w *world) agent(p *rockbottest.Program) *rockbottest.Program {
	w.t.Helper()
	w.program(p)
	p.Announce()
	w.knows(w.o.prefix + p.Name)
	return p
}

// channel returns a channel to RabbitMQ.
func (w *world) channel() *amqp.Channel {
	w.t.Helper()
	conn, err := amqp.Dial(rabbit.URL())
	must(w.t, err)
	w.t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	must(w.t, err)
	return ch
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
			w.t.Fatalf("it never came true that %s\n%s", what, w.log.String())
		}
	}
}

// send has an agent do something.
func (w *world) send(agent, skill, text, input string) client.Turn {
	w.t.Helper()
	m := client.Text(w.client.NextID(), text)
	if input != "" {
		m.Parts = append(m.Parts, a2a.NewDataPart(json.RawMessage(input)))
	}
	m.To = &transport.Direct{Agent: agent, Skill: skill}
	turn, err := w.client.Send(w.t.Context(), m)
	must(w.t, err)
	return turn
}

// answer waits for the answer to a turn.
func (w *world) answer(turn client.Turn) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	said, err := w.client.Answer(ctx, turn)
	if err != nil {
		w.t.Fatalf("no answer: %v\n%s", err, w.log.String())
	}
	return transport.Text(said.Parts)
}

// ask has an agent do something, and returns the answer.
func (w *world) ask(agent, skill, text, input string) string {
	w.t.Helper()
	return w.answer(w.send(agent, skill, text, input))
}

// join serves one of Cortex's own agents.
func (w *world) join(card *a2a.AgentCard, h agents.Handler) (leave func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = agents.Serve(ctx, w.bus, card, h, nil)
	}()
	leave = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	w.t.Cleanup(leave)
	w.knows(card.Name)
	return leave
}

// soon is the context of what happens soon.
func (w *world) soon() context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	w.t.Cleanup(cancel)
	return ctx
}

// response waits for the n-th response to a task.
func (w *world) response(p *rockbottest.Program, task string, n int) *rockbottest.Message {
	w.t.Helper()
	m, err := p.Response(w.soon(), task, n)
	if err != nil {
		w.t.Fatalf("%v\n%s", err, w.log.String())
	}
	return m
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
