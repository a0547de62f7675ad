package agents

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
	membus "github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestWallClockMoves sets the wall clock forward, and back: an agent, and a host with all its agents, are announced within seconds when it was set forward, and
// not for a clock that is adjusted slowly, nor set back.
func TestWallClockMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := membus.New(nil)
		defer bus.Close()
		var mu sync.Mutex
		heard := map[string]int{}
		sub, err := bus.Subscribe(t.Context(), transport.Cards(""), nil)
		if err != nil {
			t.Fatal(err)
		}
		go sub.Serve(t.Context(), func(_ context.Context, e *transport.Event) error { //nolint:errcheck // it ends with the test
			if c, ok := e.Payload.(*transport.Card); ok {
				mu.Lock()
				defer mu.Unlock()
				heard[c.AgentID]++
			}
			return nil
		})
		var ahead atomic.Int64
		moved := func() time.Duration { return time.Duration(ahead.Load()) }
		echo := Handler(func(context.Context, *Task) (*Result, error) { return nil, nil })
		ctx, end := context.WithCancel(t.Context())
		var served sync.WaitGroup
		o := &Options{Heartbeat: 5 * time.Minute}
		a, err := newAgent(bus.Dial(), &a2a.AgentCard{Name: "agent_alone"}, echo, o)
		if err != nil {
			t.Fatal(err)
		}
		a.wall.ahead = moved
		served.Go(func() { a.serve(ctx) }) //nolint:errcheck // it ends with the test
		h, err := NewHost(bus.Dial(), "host", o)
		if err != nil {
			t.Fatal(err)
		}
		h.self.wall.ahead = moved
		for n := range 3 {
			if err := h.Add(ctx, &a2a.AgentCard{Name: fmt.Sprint("agent_", n)}, echo); err != nil {
				t.Fatal(err)
			}
		}
		served.Go(func() { h.Serve(ctx) }) //nolint:errcheck // it ends with the test
		all := func(step time.Duration, want int) {
			t.Helper()
			ahead.Add(int64(step))
			<-time.After(2 * wallEvery)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			for _, id := range []string{"agent_alone", "agent_0", "agent_1", "agent_2", "host"} {
				if heard[id] != want {
					t.Errorf("after a step by %v, %s has been announced %d times, want %d", step, id, heard[id], want)
				}
			}
		}
		all(0, 1)
		all(time.Hour, 2)
		all(-time.Hour, 2)
		all(time.Second, 2)
		all(2*time.Minute, 3)
		end()
		served.Wait()
	})
}
