package rockbot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/app/role/roletest"
	"github.com/cortex-orchestrator/cortex/bridge/rockbot/rockbottest"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
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
	*roletest.World
	o     options
	times times
	leads atomic.Bool

	stop func()
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
	w := &world{World: roletest.New(t, undecided{}), times: usual}
	w.o = options{url: rabbit.URL(), name: w.name("Cortex"), announce: []string{transport.Cortex}}
	w.times.pauses = [2]time.Duration{50 * time.Millisecond, 400 * time.Millisecond}
	w.times.change, w.times.unrouted, w.times.pause, w.times.lead = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond, 20*time.Millisecond
	w.times.handOver = time.Hour // however slow the machine is
	w.leads.Store(true)
	return w
}

// name returns a name that no other test has, since all share one RabbitMQ.
func (w *world) name(name string) string {
	if w.o.name != "" {
		return name + w.o.name[len("Cortex"):]
	}
	return fmt.Sprint(name, "-", worlds.Add(1))
}

// site is what the role gets.
func (w *world) site() *role.Site {
	at := w.Site()
	at.Leads = w.leads.Load
	return at
}

// serve starts the role, again after stop, and returns when it is connected.
func (w *world) serve() {
	w.T.Helper()
	before := w.connections()
	w.start()
	w.Until("it is connected", func() bool { return w.connections() > before })
}

func (w *world) connections() int {
	return bytes.Count([]byte(w.Log.String()), []byte("connected to RabbitMQ"))
}

func (w *world) start() {
	at := w.site()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- lead(ctx, at, &w.o, w.times) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			w.T.Errorf("the role has failed: %v", err)
		}
	})
	w.T.Cleanup(w.stop)
}

// program starts a program of RockBot.
func (w *world) program(p *rockbottest.Program) *rockbottest.Program {
	w.T.Helper()
	p.Name = w.name(p.Name)
	p.Wrong = func(err error) { w.T.Error(err) }
	must(w.T, p.Connect(rabbit.URL()))
	w.T.Cleanup(p.Close)
	return p
}

// agent starts an agent of RockBot, and waits until Cortex can give it work.
func (w *world) agent(p *rockbottest.Program) *rockbottest.Program {
	w.T.Helper()
	w.program(p)
	p.Announce()
	w.Knows(w.o.prefix + p.Name)
	return p
}

// channel returns a channel to RabbitMQ.
func (w *world) channel() *amqp.Channel {
	w.T.Helper()
	conn, err := amqp.Dial(rabbit.URL())
	must(w.T, err)
	w.T.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	must(w.T, err)
	return ch
}

// soon is the context of what happens soon.
func (w *world) soon() context.Context {
	ctx, cancel := context.WithTimeout(w.T.Context(), time.Minute)
	w.T.Cleanup(cancel)
	return ctx
}

// response waits for the n-th response to a task.
func (w *world) response(p *rockbottest.Program, task string, n int) *rockbottest.Message {
	w.T.Helper()
	m, err := p.Response(w.soon(), task, n)
	if err != nil {
		w.T.Fatalf("%v\n%s", err, w.Log.String())
	}
	return m
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
