// Package roletest is for tests of roles (package app/role): a Cortex in memory, beside which a role runs.
package roletest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
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

// World is a Cortex in memory. It ends with its test. Its methods are for the test's goroutine.
type World struct {
	T         testing.TB
	Bus       *memory.Bus
	Store     *memstore.Store
	Directory *directory.Directory
	Client    *client.Client
	Log       Log // of the role

	mu    sync.Mutex
	waits error
}

// Waits returns why the role waits, as it told last.
func (w *World) Waits() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waits
}

// New starts a Cortex with a decider.
func New(t testing.TB, d llm.Decider) *World {
	w := &World{T: t, Bus: memory.New(nil), Store: memstore.New(), Directory: directory.New(registry.Config{Announce: true})}
	w.Client = &client.Client{Transport: w.Bus, Log: client.ReadLog(w.Store, ""), Poll: 20 * time.Millisecond}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
		w.Bus.Close()
	})
	o, err := cortex.New(cortex.Config{
		Transport: w.Bus, Store: w.Store, Decider: d, Agents: w.Directory.Routable, Present: w.Directory.Present, NoLearning: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Directory.Tell(o)
	running.Go(func() { _ = w.Directory.Registry.Run(ctx, w.Bus) })
	running.Go(func() { _ = o.Run(ctx) })
	return w
}

// Site returns what a role gets.
func (w *World) Site() *role.Site {
	out := io.Writer(&w.Log)
	if testing.Verbose() {
		out = io.MultiWriter(out, w.T.Output())
	}
	return &role.Site{
		Logger: slog.New(slog.NewTextHandler(out, nil)), Client: w.Client, Transport: w.Bus, Store: w.Store,
		Leads: func() bool { return true }, Ready: func() {}, Listeners: 1,
		Waits: func(why error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.waits = why
		},
		Agents: func() []*a2a.AgentCard {
			var all []*a2a.AgentCard
			for _, r := range w.Directory.Registry.Snapshot().Routable() {
				all = append(all, r.Card)
			}
			return all
		},
	}
}

// Join serves an agent of Cortex's own until leave is called, or to the end of the test, and waits until Cortex can give it work.
func (w *World) Join(card *a2a.AgentCard, h agents.Handler) (leave func()) {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = agents.Serve(ctx, w.Bus, card, h, nil)
	}()
	leave = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	w.T.Cleanup(leave)
	w.Knows(card.Name)
	return leave
}

// Has reports whether Cortex can give an agent work.
func (w *World) Has(agent string) bool {
	r, ok := w.Directory.Registry.Snapshot().Get(agent)
	return ok && r.Routable()
}

// Knows waits until Cortex can give an agent work.
func (w *World) Knows(agent string) {
	w.T.Helper()
	w.Until(agent+" is there", func() bool { return w.Has(agent) })
}

// patience bounds what a test waits for.
const patience = time.Minute

// Until waits until something is true, which what describes.
func (w *World) Until(what string, is func() bool) {
	w.T.Helper()
	for end := time.Now().Add(patience); !is(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.T.Fatalf("it never came true that %s\n%s", what, w.Log.String())
		}
	}
}

// Send has an agent do something, in words, with structured input, or both; "" is none.
func (w *World) Send(agent, skill, text, input string) client.Turn {
	w.T.Helper()
	m := client.Text(w.Client.NextID(), text)
	if text == "" {
		m.Parts = nil
	}
	if input != "" {
		m.Parts = append(m.Parts, a2a.NewDataPart(json.RawMessage(input)))
	}
	m.To = &transport.Direct{Agent: agent, Skill: skill}
	turn, err := w.Client.Send(w.T.Context(), m)
	if err != nil {
		w.T.Fatal(err)
	}
	return turn
}

// Answer waits for the answer of a turn, and returns its text.
func (w *World) Answer(turn client.Turn) string {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(w.T.Context(), patience)
	defer cancel()
	said, err := w.Client.Answer(ctx, turn)
	if err != nil {
		w.T.Fatalf("no answer: %v\n%s", err, w.Log.String())
	}
	return transport.Text(said.Parts)
}

// Ask is Send and Answer.
func (w *World) Ask(agent, skill, text, input string) string {
	w.T.Helper()
	return w.Answer(w.Send(agent, skill, text, input))
}

// Log is a log that a test reads while it is written. It is safe for concurrent use.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// String returns what was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
