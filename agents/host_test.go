package agents_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// hosted returns a host of n agents, a1 and so on, that shout.
func hosted(t testing.TB, tr transport.Transport, n int) *agents.Host {
	t.Helper()
	h, err := agents.NewHost(tr, "bridge", &agents.Options{Grace: -1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := h.Add(t.Context(), &a2a.AgentCard{Name: fmt.Sprint("a", i+1), Description: "Shouts"}, agents.Handler(shout)); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// A host serves many agents: an agent that gets a task works, even after a long idle time, others are added and removed, and all leave with the host.
func TestHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		tr := b.bus.Dial()
		r := registry.New(registry.Config{})
		go r.Run(t.Context(), b.bus.Dial()) //nolint:errcheck // it ends with the test
		there := func() string {
			synctest.Wait()
			pass(2 * time.Second)
			var ids []string
			for _, a := range r.Snapshot().Agents() {
				ids = append(ids, a.ID)
			}
			return strings.Join(ids, " ")
		}
		give := func(agent, id string) {
			t.Helper()
			if err := b.bus.Publish(t.Context(), transport.Inbox("", agent), task(id, agent, nil)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		give("a2", "t0") // before it runs
		h := hosted(t, tr, 3)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Serve(ctx) }()
		synctest.Wait()
		b.want("t0 COMPLETED: A2")
		if got := there(); got != "a1 a2 a3" {
			t.Fatalf("agents %q", got)
		}
		give("a1", "t1")
		pass(3 * time.Hour) // cards are announced again, and no agent expires
		give("a1", "t2")
		give("a3", "t3")
		b.want("t0 COMPLETED: A2", "t1 COMPLETED: A1", "t2 COMPLETED: A1", "t3 COMPLETED: A3")
		if err := h.Add(t.Context(), &a2a.AgentCard{Name: "a4"}, agents.Handler(shout)); err != nil {
			t.Fatal(err)
		}
		if err := h.Add(t.Context(), &a2a.AgentCard{Name: "a4"}, agents.Handler(shout)); err == nil {
			t.Error("an agent was added twice")
		}
		if err := h.Update(t.Context(), &a2a.AgentCard{Name: "a4", Description: "Whispers"}); err != nil {
			t.Error(err)
		}
		there()
		if a4, ok := r.Snapshot().Get("a4"); !ok || a4.Card.Description != "Whispers" {
			t.Errorf("after its update the agent is %+v", a4)
		}
		if err := h.Update(t.Context(), &a2a.AgentCard{Name: "a5"}); err == nil {
			t.Error("an agent was updated that there is not")
		}
		h.Remove("a2")
		give("a4", "t4")
		give("a2", "t5")
		if got := there(); got != "a1 a3 a4" {
			t.Errorf("agents %q", got)
		}
		b.want("t0 COMPLETED: A2", "t1 COMPLETED: A1", "t2 COMPLETED: A1", "t3 COMPLETED: A3", "t4 COMPLETED: A4")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := there(); got != "" {
			t.Errorf("agents %q after the host has left", got)
		}
		tr.Close()
	})
}

// The agents of a host that hands over count as present until another one has announced them, or for as long as it says. A task waits for the other one.
func TestHostHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		r := registry.New(registry.Config{})
		go r.Run(t.Context(), b.bus.Dial()) //nolint:errcheck // it ends with the test
		serve := func() (end func()) {
			h, err := agents.NewHost(b.bus.Dial(), "bridge", &agents.Options{Grace: -1, HandOver: 30 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Add(t.Context(), &a2a.AgentCard{Name: "a1"}, agents.Handler(shout)); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- h.Serve(ctx) }()
			synctest.Wait()
			return func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				synctest.Wait()
			}
		}
		there := func() bool {
			is, ok := r.Snapshot().Get("a1")
			return ok && is.Card != nil
		}
		end := serve()
		end()
		pass(20 * time.Second)
		if !there() {
			t.Fatal("its agent has left with the host")
		}
		if err := b.bus.Publish(t.Context(), transport.Inbox("", "a1"), task("t1", "a1", nil)); err != nil {
			t.Fatal(err)
		}
		end = serve()
		b.want("t1 COMPLETED: A1")
		pass(10 * time.Minute)
		if !there() {
			t.Error("its agent is not that of the other host")
		}
		end()
		pass(2 * time.Minute)
		if there() {
			t.Error("its agent is there, and no host")
		}
	})
}

// The agents of a killed host are gone after three of its heartbeats, although their cards expire later.
func TestHostKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := memory.New(nil)
		defer bus.Close()
		r := registry.New(registry.Config{})
		go r.Run(t.Context(), bus.Dial()) //nolint:errcheck // it ends with the test
		synctest.Wait()
		tr := bus.Dial()
		go hosted(t, tr, 3).Serve(t.Context()) //nolint:errcheck // it ends with the test
		pass(10 * time.Minute)
		if n := len(r.Snapshot().Agents()); n != 3 {
			t.Fatalf("%d agents, want 3", n)
		}
		tr.Close()
		pass(3*agents.DefaultHeartbeat + 10*time.Second)
		if n := len(r.Snapshot().Agents()); n != 0 {
			t.Errorf("%d agents after their host was killed", n)
		}
	})
}

// A host ends with an error when its transport is closed.
func TestHostClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := memory.New(nil)
		done := make(chan error, 1)
		go func() { done <- hosted(t, bus, 1).Serve(t.Context()) }()
		synctest.Wait()
		bus.Close()
		if err := <-done; !errors.Is(err, transport.ErrClosed) {
			t.Errorf("Serve = %v, want ErrClosed", err)
		}
	})
}

// BenchmarkHost measures what 10,000 idle agents cost their host, beside the memory transport.
func BenchmarkHost(b *testing.B) {
	bus := memory.New(nil)
	defer bus.Close()
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		h := hosted(b, bus.Dial(), 10_000)
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error, 1)
		go func() { done <- h.Serve(ctx) }()
		if err := h.Add(b.Context(), &a2a.AgentCard{Name: "last"}, agents.Handler(shout)); err != nil {
			b.Fatal(err)
		}
		<-time.After(2 * time.Second)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
		b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
		cancel()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

// The agents of a host have its options as they were given: no grace at the end, and each its own limit of tasks.
func TestHostOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h, err := agents.NewHost(b.bus.Dial(), "bridge", &agents.Options{Grace: -1})
		if err != nil {
			t.Fatal(err)
		}
		begun := 0
		waits := agents.Handler(func(ctx context.Context, _ *agents.Task) (*agents.Result, error) {
			begun++
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		card := agentcard.Attach(&a2a.AgentCard{Name: "a1", Description: "Waits"}, &agentcard.Spec{Limits: agentcard.Limits{MaxConcurrentTasks: 1}})
		if err := h.Add(t.Context(), card, waits); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- h.Serve(ctx) }()
		synctest.Wait()
		for _, id := range []string{"t1", "t2"} {
			if err := b.bus.Publish(t.Context(), transport.Inbox("", "a1"), task(id, "a1", nil)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if begun != 1 {
			t.Errorf("%d tasks are worked on, want 1", begun)
		}
		at := time.Now()
		stop()
		if err := <-served; err != nil || time.Since(at) > time.Second {
			t.Errorf("Serve = %v, %v after its context has ended", err, time.Since(at))
		}
	})
}

// TestNobodyHasAllPlaces has somebody give work that never ends to more agents of a host than it serves at a time, and then others work.
func TestNobodyHasAllPlaces(t *testing.T) {
	const n = 1200
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h, err := agents.NewHost(b.bus.Dial(), "bridge", &agents.Options{Grace: -1})
		if err != nil {
			t.Fatal(err)
		}
		waits := agents.Handler(func(ctx context.Context, t *agents.Task) (*agents.Result, error) {
			if t.Text() == "wait" {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			return shout(ctx, t)
		})
		for i := range n {
			if err := h.Add(t.Context(), &a2a.AgentCard{Name: fmt.Sprint("a", i)}, waits); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Serve(ctx) }()
		synctest.Wait()
		give := func(agent int, who, text string) {
			t.Helper()
			of := map[string]any{transport.MetaRequester: who}
			if err := b.bus.Publish(t.Context(), transport.Inbox("", fmt.Sprint("a", agent)), task(fmt.Sprint(who, agent, "-", text), text, of)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range n {
			give(i, "ann", "wait")
		}
		pass(30 * time.Second) // more than one look of those who were refused
		refused := b.got()
		if most := n - 768; len(refused) != most {
			t.Errorf("%d tasks are refused, want %d: three quarters of 1,024 are done", len(refused), most)
		}
		busy := slices.Repeat([]bool{true}, n)
		for _, r := range refused {
			var i int
			fmt.Sscanf(r, "ann%d-wait ", &i) //nolint:errcheck // the text is checked below
			busy[i] = false
			if !strings.Contains(r, "REJECTED: too many agents here work for the same requester") {
				t.Errorf("an end is %q", r)
			}
		}
		at := slices.Index(busy, true)
		give(at, "ann", "more") // at an agent that has a place
		give(n-1, "bob", "hello")
		pass(time.Second)
		got := b.got()[len(refused):]
		slices.Sort(got)
		if want := []string{fmt.Sprint("ann", at, "-more COMPLETED: MORE"), fmt.Sprint("bob", n-1, "-hello COMPLETED: HELLO")}; !slices.Equal(got, want) {
			t.Errorf("then came %q, want %q", got, want)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestPlacesPassOn gives each of more agents than a host serves at a time a short task: who has done theirs makes room for those who wait.
func TestPlacesPassOn(t *testing.T) {
	const n = 1200
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		go hosted(t, b.bus.Dial(), n).Serve(t.Context()) //nolint:errcheck // it ends with the test
		synctest.Wait()
		for i := range n {
			name := fmt.Sprint("a", i+1)
			if err := b.bus.Publish(t.Context(), transport.Inbox("", name), task(name, "hello", nil)); err != nil {
				t.Fatal(err)
			}
		}
		pass(6 * time.Second) // after the second look, and before an agent to which nothing comes gives up its place
		if got := len(b.got()); got != n {
			t.Errorf("%d of %d tasks are done", got, n)
		}
	})
}

// choosy takes no card of the agent a2.
type choosy struct{ *memory.Bus }

func (c choosy) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if card, ok := e.Payload.(*transport.Card); ok && card.AgentID == "a2" && card.Card != nil {
		return transport.ErrInvalid
	}
	return c.Bus.Publish(ctx, t, e)
}

// TestCardThatCannotBeSent has an agent among others whose card the transport does not take: the others are there.
func TestCardThatCannotBeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h := hosted(t, choosy{b.bus.Dial()}, 3)
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- h.Serve(ctx) }()
		pass(time.Minute)
		if err := b.bus.Publish(t.Context(), transport.Inbox("", "a3"), task("t1", "hello", nil)); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		b.want("t1 COMPLETED: HELLO")
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
}
