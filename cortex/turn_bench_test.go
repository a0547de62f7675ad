package cortex_test

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// BenchmarkTurn measures a whole turn with one delegation, one conversation at a time: message, decision, task, result,
// decision, answer. On NATS everything is stored; the floor to compare with is BenchmarkFloor of transport/nats, twice.
func BenchmarkTurn(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		bus := memory.New(nil)
		defer bus.Close()
		benchmarkTurn(b, bus, memstore.New())
	})
	b.Run("nats", func(b *testing.B) {
		server, err := nats.StartServer(b.Context(), &nats.ServerOptions{Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		defer server.Shutdown()
		bus, err := nats.Dial(b.Context(), &nats.Options{Server: server})
		if err != nil {
			b.Fatal(err)
		}
		defer bus.Close()
		store, err := jetstore.Open(b.Context(), bus.Conn(), nil)
		if err != nil {
			b.Fatal(err)
		}
		benchmarkTurn(b, bus, store)
	})
}

// oneStep is a decider whose turns ask alpha once.
var oneStep = simple(func(t *llm.Turn) *llm.Decision {
	if len(t.Steps) == 0 {
		return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: t.User})
	}
	return respond(results(t))
})

func benchmarkTurn(b *testing.B, bus transport.Transport, store storage.Store) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	there := offered("") // made once, like a registry's snapshot
	orch, err := cortex.New(cortex.Config{
		Transport: bus, Store: store, Decider: oneStep, Agents: func(string) []prompt.Agent { return there },
	})
	if err != nil {
		b.Fatal(err)
	}
	subscribe := func(t transport.Topic, o *transport.SubscribeOptions, h transport.Handler) {
		sub, err := bus.Subscribe(ctx, t, o)
		if err != nil {
			b.Fatal(err)
		}
		go sub.Serve(ctx, h)
	}
	answered := make(chan struct{})
	subscribe(transport.Inbox("", "alpha"), &transport.SubscribeOptions{Unordered: true}, func(ctx context.Context, e *transport.Event) error {
		return bus.Publish(ctx, transport.Inbox("", transport.Cortex), resultEvent("r-"+e.ID, "alpha", e.TaskID, a2a.TaskStateCompleted, "done"))
	})
	subscribe(transport.Live("", theContext), nil, func(_ context.Context, e *transport.Event) error {
		if _, ok := e.Payload.(*a2a.Message); ok {
			answered <- struct{}{}
		}
		return nil
	})
	go orch.Run(ctx)
	n := 0
	for b.Loop() {
		n++
		if err := bus.Publish(ctx, transport.Inbox("", transport.Cortex), userEvent(fmt.Sprint("m", n), "work")); err != nil {
			b.Fatal(err)
		}
		select {
		case <-answered:
		case <-time.After(patience):
			b.Fatalf("turn %d is not answered", n)
		}
	}
}

// patience bounds how long a benchmark waits for an answer.
const patience = time.Minute

// TestTurnAllocates checks that the allocations of a turn on the memory transport do not increase. With the race detector there are more of them: pools
// lose some of what they hold.
func TestTurnAllocates(t *testing.T) {
	allocations, bytes := int64(380), int64(39_500)
	if built, ok := debug.ReadBuildInfo(); ok && slices.Contains(built.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		allocations, bytes = 420, 60_000
	}
	r := testing.Benchmark(func(b *testing.B) {
		bus := memory.New(nil)
		defer bus.Close()
		benchmarkTurn(b, bus, memstore.New())
	})
	if n := r.AllocsPerOp(); n == 0 || n > allocations {
		t.Errorf("a turn takes %d allocations, want at most %d", n, allocations)
	}
	if n := r.AllocedBytesPerOp(); n > bytes {
		t.Errorf("a turn takes %d bytes, want at most %d", n, bytes)
	}
}
