package cortex_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// mover is shared by several orchestrators: one of them has the conversations, which can move to another.
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

// movable is one orchestrator's view of a mover.
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
	storage.Store
	n       int
	entries int // loaded
}

func (l *loadCounter) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	l.n++
	return func(yield func(*conversation.Entry, error) bool) {
		for e, err := range l.Store.Load(ctx, tenant, contextID, after) {
			if l.entries++; !yield(e, err) {
				return
			}
		}
	}
}

// TestMovedConversation moves a conversation to another orchestrator and back. Each of them begins with the present log and decides
// nothing from an old fold, so that nothing is decided or sent twice.
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

// TestAnotherEpoch checks that an orchestrator with a fold of an earlier epoch reads only the new entries, and that the log
// wins when it was erased, or has lost its end in a power failure and got another one.
func TestAnotherEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(func(t *llm.Turn) *llm.Decision { return respond("heard " + t.User) })
		w := newWorld(t, d)
		w.stop()
		m := &mover{bus: w.bus, handlers: map[string]transport.Handler{}}
		loads := &loadCounter{Store: w.store}
		w.start(cortex.Config{Decider: d, Store: loads, Transport: movable{w.bus, m, "one"}})
		sub, err := w.bus.Subscribe(t.Context(), transport.Inbox("", transport.Cortex), nil)
		if err != nil {
			t.Fatal(err)
		}
		go sub.Serve(t.Context(), m.handle)
		synctest.Wait()
		m.move("one")
		say := func(id string, wantEntries, wantHistory int) {
			t.Helper()
			loads.entries = 0
			w.say(id, id)
			if loads.entries != wantEntries {
				t.Errorf("%s: %d entries were read, want %d", id, loads.entries, wantEntries)
			}
			all := w.decisions()
			if h := all[len(all)-1].History; all[len(all)-1].User != id || len(h) != wantHistory {
				t.Errorf("%s: the decision saw %d turns, want %d", id, len(h), wantHistory)
			}
			if n := w.orch.Stats().Conflicts; n != 0 {
				t.Errorf("%s: decided %d times on what was remembered", id, n)
			}
		}
		for i, id := range []string{"m1", "m2", "m3", "m4"} {
			say(id, 0, i)
		}
		m.move("one")
		say("m5", 1, 4)

		for _, lost := range []string{"its end", "everything"} {
			last := memstore.New()
			var v conversation.Version
			for e, err := range loads.Store.Load(t.Context(), "", theContext, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if lost == "everything" {
					break
				}
				if e.Version == 5 {
					e.Cause = userEvent("another", "another")
				}
				if v, err = last.Append(t.Context(), "", theContext, v, e); err != nil {
					t.Fatal(err)
				}
			}
			loads.Store = last
			m.move("one")
			if lost == "everything" {
				say("m7", 0, 0)
			} else {
				say("m6", 1+5, 5)
			}
		}
	})
}

// away is a transport that fails to publish tasks for alpha for a while.
type away struct {
	transport.Transport
	left int // number of failures
}

func (a *away) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if t == transport.Inbox("", "alpha") && a.left > 0 {
		a.left--
		return transport.ErrUnavailable
	}
	return a.Transport.Publish(ctx, t, e)
}

// TestUnsentIsRemembered checks that a conversation is not read again because an effect could not be sent.
func TestUnsentIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(func(*llm.Turn) *llm.Decision { return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: "work"}) })
		w := newWorld(t, d)
		w.stop()
		loads := &loadCounter{Store: w.store}
		bus := &away{w.bus, 3}
		w.start(cortex.Config{Decider: d, Store: loads, Transport: bus})
		w.say("m1", "work")
		pass(time.Minute)
		if len(w.tasksOf("alpha")) == 0 || bus.left != 0 {
			t.Errorf("nothing was sent after all, with %d failures to come", bus.left)
		}
		if loads.n != 1 {
			t.Errorf("the log was loaded %d times, want once", loads.n)
		}
	})
}
