package cortex_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// mover is what several orchestrators share: the conversations are with one of them, and can be moved to another.
type mover struct {
	bus transport.Transport

	mu       sync.Mutex
	handlers map[string]transport.Handler
	owner    string
	epoch    uint64
}

func (m *mover) move(owner string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owner = owner
	m.epoch++
}

func (m *mover) handle(ctx context.Context, e *transport.Event) error {
	m.mu.Lock()
	h := m.handlers[m.owner]
	e.Epoch = m.epoch
	m.mu.Unlock()
	return h(ctx, e)
}

// movable is a mover as one of the orchestrators sees it.
type movable struct {
	transport.Transport
	*mover
	name string
}

func (m movable) Subscribe(ctx context.Context, t transport.Topic, o *transport.SubscribeOptions) (transport.Subscription, error) {
	if t == transport.Inbox("", transport.Cortex) {
		return m, nil
	}
	return m.Transport.Subscribe(ctx, t, o)
}

func (m movable) Serve(ctx context.Context, h transport.Handler) error {
	m.mu.Lock()
	m.handlers[m.name] = h
	m.mu.Unlock()
	<-ctx.Done()
	return nil
}

func (m movable) Close() error { return nil }

// loadCounter counts how often a log is loaded.
type loadCounter struct {
	cortex.Store
	n int
}

func (l *loadCounter) Load(ctx context.Context, tenant, contextID string, after cortex.Version) iter.Seq2[*cortex.Entry, error] {
	l.n++
	return l.Store.Load(ctx, tenant, contextID, after)
}

// TestMovedConversation moves a conversation to another orchestrator and back. Each of them begins with the log as it is by then:
// nothing is decided on what it remembers from before, so that nothing is decided or sent twice.
func TestMovedConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(func(t *llm.Turn) *llm.Decision {
			if len(t.Steps) > 0 {
				return respond(results(t))
			}
			return delegate(llm.Delegation{ID: "1", Agent: t.User, Task: t.User})
		})
		w := newWorld(t, d)
		w.stop()
		m := &mover{bus: w.bus, handlers: map[string]transport.Handler{}}
		loads := &loadCounter{Store: w.store}
		cfg := cortex.Config{Decider: d, Store: loads}
		orchs := map[string]*cortex.Orchestrator{}
		for _, name := range []string{"one", "two"} {
			cfg.Transport = movable{w.bus, m, name}
			w.start(cfg)
			orchs[name] = w.orch
		}
		sub, err := w.bus.Subscribe(t.Context(), transport.Inbox("", transport.Cortex), nil)
		if err != nil {
			t.Fatal(err)
		}
		go sub.Serve(t.Context(), m.handle)
		synctest.Wait()

		m.move("one")
		w.say("m1", "alpha")
		m.move("two")
		w.finish("alpha", w.onlyTask("alpha"), "A")
		w.say("m2", "beta")
		m.move("one")
		w.say("m3", "gamma")
		w.finish("beta", w.onlyTask("beta"), "B")
		m.move("two")
		w.finish("gamma", w.onlyTask("gamma"), "C")
		for turn, want := range map[string]string{"m1": "alpha COMPLETED A; ", "m2": "beta COMPLETED B; ", "m3": "gamma COMPLETED C; "} {
			w.wantAnswer(turn, want)
		}
		if n := len(w.decisions()); n != 6 {
			t.Errorf("%d decisions, want 6: two for each message", n)
		}
		for name, o := range orchs {
			if s := o.Stats(); s.Conflicts != 0 {
				t.Errorf("%s has decided %d times on what it remembered", name, s.Conflicts)
			}
		}
		if loads.n != 4 {
			t.Errorf("the log was loaded %d times, want 4: once after each move", loads.n)
		}
		if h := w.decisions()[3].History; len(h) != 1 {
			t.Errorf("the decision about m3 saw %d answered turns, want 1", len(h))
		}
	})
}
