package client_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// dial connects to a server.
func dial(t *testing.T, url string, onConn func(up bool, err error)) (*nats.Bus, *jetstore.Store) {
	t.Helper()
	bus, err := nats.Dial(t.Context(), &nats.Options{URL: url, OnConn: onConn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bus.Close() })
	store, err := jetstore.Open(t.Context(), bus.Conn(), &jetstore.Options{API: bus.API()})
	if err != nil {
		t.Fatal(err)
	}
	return bus, store
}

// TestRestart sends a message while no Cortex runs, loses the server while it waits, and gets the answer from a Cortex that starts later.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	start := func(listen string) *nats.Server {
		s, err := nats.StartServer(t.Context(), &nats.ServerOptions{Dir: dir, Listen: listen})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Shutdown)
		return s
	}
	first := start("127.0.0.1:0")
	lost := make(chan struct{})
	var once sync.Once
	bus, store := dial(t, first.URL(), func(up bool, _ error) {
		if !up {
			once.Do(func() { close(lost) })
		}
	})
	c := &client.Client{Transport: bus, Log: client.ReadLog(store, ""), Poll: 50 * time.Millisecond}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	turn, err := c.Send(ctx, &client.Message{ContextID: "demo", ID: "m1", Parts: client.Text("demo", "Thank you!").Parts})
	if err != nil {
		t.Fatal(err)
	}
	type end struct {
		text string
		err  error
	}
	answered := make(chan end, 2)
	for range 2 { // both see it
		go func() {
			m, err := c.Answer(ctx, turn)
			if err != nil {
				answered <- end{err: err}
				return
			}
			answered <- end{text: transport.Text(m.Parts)}
		}()
	}
	first.Shutdown()
	<-lost
	second := start(strings.TrimPrefix(first.URL(), "nats://"))

	engine, log := dial(t, second.URL(), nil)
	o, err := cortex.New(cortex.Config{Transport: engine, Store: log, Decider: polite{}, Agents: func(string) []prompt.Agent { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { _ = o.Run(ctx) })
	for range 2 {
		if got := <-answered; got.err != nil || got.text != "You are welcome." {
			t.Errorf("Answer() = %q, %v", got.text, got.err)
		}
	}
	if again, err := c.Send(ctx, &client.Message{ContextID: "demo", ID: "m1", Parts: client.Text("demo", "Thank you!").Parts}); err != nil || again != turn {
		t.Errorf("Send() again = %+v, %v, want the same turn", again, err)
	}
	if m, err := c.Answer(ctx, turn); err != nil || transport.Text(m.Parts) != "You are welcome." {
		t.Errorf("Answer() to the same again = %v, %v", m, err)
	}
	cancel()
}
