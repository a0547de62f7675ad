package cortex_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// slowAgent takes a second for each task, one after the other.
type slowAgent struct {
	mu   sync.Mutex
	done []string
}

func slowAgents(string) []prompt.Agent {
	return []prompt.Agent{{ID: "slow", Seen: true, Card: &a2a.AgentCard{Name: "slow"}}}
}

// toSlow is a decider that gives each request to the slow agent.
var toSlow = simple(func(t *llm.Turn) *llm.Decision {
	if len(t.Steps) == 0 {
		return delegate(llm.Delegation{ID: "1", Agent: "slow", Task: t.User})
	}
	return respond("done " + t.User)
})

func (a *slowAgent) run(w *world) {
	sub, err := w.bus.Subscribe(w.t.Context(), transport.Inbox("", "slow"), &transport.SubscribeOptions{Concurrency: 1, Unordered: true})
	if err != nil {
		w.t.Fatal(err)
	}
	go sub.Serve(w.t.Context(), func(ctx context.Context, e *transport.Event) error {
		m := e.Payload.(*a2a.Message)
		for key := range m.Metadata {
			if strings.HasPrefix(key, "cortex") {
				w.t.Errorf("the agent is told %q", key)
			}
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		a.mu.Lock()
		a.done = append(a.done, transport.Text(m.Parts))
		a.mu.Unlock()
		result := resultEvent("r-"+string(e.TaskID), "slow", e.TaskID, a2a.TaskStateCompleted, "ok")
		result.ContextID, result.Payload.(*a2a.Task).ContextID = e.ContextID, e.ContextID
		return w.bus.Publish(ctx, transport.Inbox("", transport.Cortex), result)
	})
}

// place returns the position at which the task with this text was done, from 1, or 0.
func (a *slowAgent) place(text string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, t := range a.done {
		if t == text {
			return i + 1
		}
	}
	return 0
}

func (a *slowAgent) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.done)
}

// TestOneRequesterIsNotAll has one person give an agent a thousand tasks at once. Others who ask that agent wait for a few of them each, also
// when Cortex is restarted meanwhile, and no task is lost or done twice.
func TestOneRequesterIsNotAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, toSlow)
		cfg := cortex.Config{Decider: toSlow, Agents: slowAgents, TaskTimeout: time.Hour, Authenticated: true}
		w.restart(cfg)
		agent := &slowAgent{}
		agent.run(w)
		const flood = 1000
		for i := range flood {
			w.publish(requestOf("bob", i))
		}
		for round := range 3 {
			before := agent.count()
			for i := range 6 {
				w.publish(requestOf("ada", 10*round+i))
				w.publish(requestOf("eve", 10*round+i))
			}
			pass(40 * time.Second)
			if n := agent.place(fmt.Sprint("ada", 10*round)) - before; n <= 0 || n > 12 {
				t.Errorf("round %d: the first task of ada's is the %d-th that is done, want one of the first", round, n)
			}
			if n := agent.place(fmt.Sprint("ada", 10*round+5)) - before; n <= 0 || n > 36 {
				t.Errorf("round %d: the last task of ada's is the %d-th that is done, want it in turn with bob's and eve's", round, n)
			}
			if got := w.orch.Trouble(); len(got) != 1 || !strings.Contains(got[0], " tasks wait for agents that have more to do than they can take, since ") ||
				!strings.HasSuffix(got[0], " are of user:bob") {
				t.Errorf("trouble %q, want what waits", got)
			}
			w.restart(cfg)
		}
		pass(flood * time.Second)
		all := map[string]int{}
		for _, text := range agent.done {
			all[text]++
		}
		for i := range flood {
			if n := all[fmt.Sprint("bob", i)]; n != 1 {
				t.Errorf("bob's task %d was done %d times, want 1", i, n)
			}
		}
		if n := agent.count(); n != flood+36 {
			t.Errorf("%d tasks done, want %d", n, flood+36)
		}
		if got := w.orch.Trouble(); len(got) != 0 {
			t.Errorf("trouble %q when all is done", got)
		}
	})
}

// TestQueuedTaskIsWithdrawn cancels a request whose task waits, and erases the conversation of another: their agent never gets the tasks.
func TestQueuedTaskIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, toSlow)
		w.restart(cortex.Config{Decider: toSlow, Agents: slowAgents})
		agent := &slowAgent{}
		agent.run(w)
		for i := range 20 {
			w.publish(requestOf("bob", i))
		}
		stop := requestOf("bob", 15)
		stop.ID, stop.Payload = "x", &transport.Cancel{}
		w.publish(stop)
		if err := w.bus.(transport.Eraser).Erase(t.Context(), "", "bob16"); err != nil {
			t.Fatal(err)
		}
		if err := w.bus.Publish(t.Context(), transport.Control("", transport.Cortex), &transport.Event{
			ID: "f", From: "user", ContextID: "bob16", Payload: &transport.Forget{},
		}); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if n := agent.count(); n != 18 || agent.place("bob15") != 0 || agent.place("bob16") != 0 {
			t.Errorf("%d tasks done: %q; want all but bob15 and bob16", n, agent.done)
		}
		if n := depthOf(t, w.bus, transport.Queue); n != 0 {
			t.Errorf("%d tasks are in the queue, want 0", n)
		}
	})
}

// TestQueuedTaskIsWithdrawnByAnother has two replicas with waiting tasks, whose requests are canceled through one of them. A running agent that
// has one of the tasks gets none of the others.
func TestQueuedTaskIsWithdrawnByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, toSlow)
		cfg := cortex.Config{Decider: toSlow, Agents: slowAgents}
		w.restart(cfg)
		w.start(cfg)
		agent := &slowAgent{}
		agent.run(w)
		for i := range 20 {
			w.publish(requestOf("bob", i))
		}
		for i := range 18 {
			w.publish(stopOf("bob", i))
		}
		pass(time.Minute)
		if agent.count() != 3 || agent.place("bob0") == 0 || agent.place("bob18") == 0 || agent.place("bob19") == 0 {
			t.Errorf("done: %q, want bob0, bob18 and bob19", agent.done)
		}
	})
}

// TestQueuedTaskIsWithdrawnOnItsWay cancels a request when its task has left the queue and is not in its agent's inbox yet; the agent starts
// later.
func TestQueuedTaskIsWithdrawnOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, toSlow)
		on := &onPublish{Transport: w.bus}
		w.restart(cortex.Config{Transport: on, Decider: toSlow, Agents: slowAgents})
		for i := range 10 {
			w.publish(requestOf("bob", i))
		}
		on.first(transport.Inbox("", "slow"), func(e *transport.Event) {
			stop := stopOf("bob", 0)
			stop.ContextID = e.ContextID
			if err := w.bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), stop); err != nil {
				t.Error(err)
			}
			<-time.After(time.Millisecond) // it is handled
		})
		for i := range 4 { // there is room
			w.publish(stopOf("bob", i))
		}
		pass(10 * time.Second)
		agent := &slowAgent{}
		agent.run(w)
		pass(time.Minute)
		if agent.count() != 5 || depthOf(t, w.bus, transport.Queue) != 0 {
			t.Errorf("done: %q, want five of six", agent.done)
		}
	})
}

// reads is a store that counts how often a log is read.
type reads struct {
	*memstore.Store
	n atomic.Int64
}

func (r *reads) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	r.n.Add(1)
	return r.Store.Load(ctx, tenant, contextID, after)
}

// TestQueuedTaskIsKnown has tasks wait whose conversations are in memory: they are sent without reading the logs, but not after somebody else has
// erased one of them.
func TestQueuedTaskIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, toSlow)
		store := &reads{Store: memstore.New()}
		w.restart(cortex.Config{Store: store, Decider: toSlow, Agents: slowAgents})
		for i := range 20 {
			w.publish(requestOf("bob", i))
		}
		pass(time.Second)
		if n := depthOf(t, w.bus, transport.Queue); n < 4 {
			t.Fatalf("%d tasks are in the queue, want most of 20", n)
		}
		if err := store.Erase(t.Context(), "", "bob19"); err != nil {
			t.Fatal(err)
		}
		before := store.n.Load()
		agent := &slowAgent{}
		agent.run(w)
		pass(time.Minute)
		if agent.count() != 19 || agent.place("bob19") != 0 {
			t.Errorf("done: %q, want all but bob19, whose log is erased", agent.done)
		}
		if n := store.n.Load() - before; n > 2 { // of the erased one
			t.Errorf("the logs were read %d times", n)
		}
	})
}

func stopOf(person string, n int) *transport.Event {
	e := requestOf(person, n)
	e.ID, e.Payload = "x", &transport.Cancel{}
	return e
}

// TestOnceDoesWhatIsQueued runs an agent with Once that has more tasks than its inbox gets at a time: it does all of them before it leaves.
func TestOnceDoesWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, toSlow)
		w.restart(cortex.Config{Decider: toSlow, Agents: slowAgents})
		const all = 60
		for i := range all {
			w.publish(requestOf("bob", i))
		}
		done := 0
		work := agents.Handler(func(context.Context, *agents.Task) (*agents.Result, error) {
			done++
			return agents.Text("ok"), nil
		})
		card := &a2a.AgentCard{Name: "slow", Version: "1.0.0", Description: "is slow", Skills: []a2a.AgentSkill{{ID: "do", Name: "Do"}}}
		if err := agents.Serve(t.Context(), w.bus.(*memory.Bus).Dial(), card, work, &agents.Options{Once: true, Concurrency: 1}); err != nil {
			t.Fatal(err)
		}
		if n := depthOf(t, w.bus, transport.Queue); done != all || n != 0 {
			t.Errorf("the agent left after %d tasks while %d wait for it, want %d and 0", done, n, all)
		}
	})
}

// onPublish is a transport that does something before it publishes an event to a topic.
type onPublish struct {
	transport.Transport

	mu sync.Mutex
	at transport.Topic
	do func(*transport.Event)
}

// first has the next event of a topic wait for do.
func (o *onPublish) first(at transport.Topic, do func(*transport.Event)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at, o.do = at, do
}

func (o *onPublish) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	o.mu.Lock()
	do := o.do
	if do != nil && t == o.at {
		o.do = nil
	} else {
		do = nil
	}
	o.mu.Unlock()
	if do != nil {
		do(e)
	}
	return o.Transport.Publish(ctx, t, e)
}

func (o *onPublish) Untaken(ctx context.Context, t transport.Topic) (int, error) {
	return o.Transport.(transport.InboxBacklog).Untaken(ctx, t)
}

func (o *onPublish) Waiting(ctx context.Context, t transport.Topic) (int, error) {
	return o.Transport.(transport.InboxDepth).Waiting(ctx, t)
}

func (o *onPublish) Holds(ctx context.Context, t transport.Topic, e *transport.Event) (bool, error) {
	return o.Transport.(transport.InboxSearch).Holds(ctx, t, e)
}

func (o *onPublish) Withdraw(ctx context.Context, t transport.Topic, contextID, from, id string) error {
	return o.Transport.(transport.Withdrawer).Withdraw(ctx, t, contextID, from, id)
}

func depthOf(t *testing.T, tr transport.Transport, inbox string) int {
	t.Helper()
	n, err := tr.(transport.InboxDepth).Waiting(t.Context(), transport.Inbox("", inbox))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestQueueIsBounded has one person give an agent more tasks than may wait: with authentication, those beyond the limit end with the reason, and
// another person's tasks have room. Without it, they go to the agent.
func TestQueueIsBounded(t *testing.T) {
	for _, keys := range []bool{true, false} {
		t.Run(fmt.Sprintf("keys=%v", keys), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, toSlow)
				w.restart(cortex.Config{Decider: toSlow, Agents: slowAgents, TaskTimeout: time.Minute, Authenticated: keys})
				sub, err := w.bus.Subscribe(t.Context(), transport.Inbox("", "slow"), nil) // it reads nothing
				if err != nil {
					t.Fatal(err)
				}
				defer sub.Close()
				for i := range 1200 {
					w.publish(requestOf("bob", i))
				}
				for i := range 20 {
					w.publish(requestOf("ada", i))
				}
				refused, waiting := 0, depthOf(t, w.bus, "slow")
				for i := range 1200 {
					conv, err := storage.Load(t.Context(), w.store, "", fmt.Sprint("bob", i))
					if err != nil {
						t.Fatal(err)
					}
					for _, task := range conv.Tasks {
						if strings.HasPrefix(task.Result, "it cannot be sent: slow has more to do than it can take, and 1064 tasks of user:bob wait for agents like that: ask again") {
							refused++
						}
					}
				}
				if keys && (refused < 30 || waiting > 20) || !keys && (refused > 0 || waiting < 30) {
					t.Errorf("%d tasks refused, %d with the agent", refused, waiting)
				}
				for i := range 20 {
					conv, err := storage.Load(t.Context(), w.store, "", fmt.Sprint("ada", i))
					if err != nil || len(conv.Running()) != 1 {
						t.Errorf("ada's request %d: %d tasks, %v; want one that waits", i, len(conv.Running()), err)
					}
				}
				pass(2 * time.Minute)
				if n := depthOf(t, w.bus, transport.Queue) + depthOf(t, w.bus, "slow"); n != 0 {
					t.Errorf("%d tasks are there when their time is over, want 0", n)
				}
			})
		})
	}
}

// TestFullQueueIsInOrder has one person give an agent more tasks than may wait, without authentication: they are done in the order in which they came, and
// those that are too many do not overtake those that wait.
func TestFullQueueIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, toSlow)
		w.restart(cortex.Config{Decider: toSlow, Agents: slowAgents, TaskTimeout: time.Hour})
		agent := &slowAgent{}
		agent.run(w)
		const flood = 1600
		for i := range flood {
			w.publish(requestOf("bob", i))
		}
		pass(flood * time.Second)
		if n := agent.count(); n != flood {
			t.Errorf("%d tasks done, want %d", n, flood)
		}
		for i := range flood {
			if n := agent.place(fmt.Sprint("bob", i)); n < i-50 || n > i+50 {
				t.Fatalf("task %d is the %d-th that is done", i, n)
			}
		}
	})
}
