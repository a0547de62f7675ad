package cortex_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// toNamed is a decider that gives a request to the agent whose name it begins with, as many tasks as it has words.
var toNamed = simple(func(t *llm.Turn) *llm.Decision {
	if len(t.Steps) > 0 {
		return respond("done")
	}
	var all []llm.Delegation
	words := strings.Fields(t.User)
	for i := range words {
		all = append(all, llm.Delegation{ID: fmt.Sprint(i), Agent: words[0], Task: t.User})
	}
	return delegate(all...)
})

// crowdOf offers stuck agents that do nothing, and a quick one.
func crowdOf(stuck int) func(string) []prompt.Agent {
	list := []prompt.Agent{{ID: "quick", Seen: true, Card: &a2a.AgentCard{Name: "quick"}}}
	for i := range stuck {
		id := fmt.Sprint("stuck", i)
		list = append(list, prompt.Agent{ID: id, Seen: true, Card: &a2a.AgentCard{Name: id}})
	}
	return func(string) []prompt.Agent { return list }
}

// quick runs the quick agent, which does atOnce tasks at a time, each in d, and returns the number of finished tasks.
func quick(w *world, atOnce int, d time.Duration) *atomic.Int64 {
	var done atomic.Int64
	sub, err := w.bus.Subscribe(w.t.Context(), transport.Inbox("", "quick"), &transport.SubscribeOptions{Concurrency: atOnce, Unordered: true})
	if err != nil {
		w.t.Fatal(err)
	}
	go sub.Serve(w.t.Context(), func(ctx context.Context, e *transport.Event) error {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return ctx.Err()
		}
		done.Add(1)
		result := resultEvent("r-"+string(e.TaskID), "quick", e.TaskID, a2a.TaskStateCompleted, "ok")
		result.ContextID, result.Payload.(*a2a.Task).ContextID = e.ContextID, e.ContextID
		return w.bus.Publish(ctx, transport.Inbox("", transport.Cortex), result)
	})
	return &done
}

// saying returns a person's request in a new conversation.
func saying(person string, n int, text string) *transport.Event {
	e := userEvent("m1", text)
	e.From, e.ContextID = "user:"+person, fmt.Sprint(person, n)
	return e
}

// TestManyRequestersAreBounded has hundreds of people give an agent that reads nothing more tasks than may wait: those beyond the limit end with the
// reason. Another busy agent's tasks are done meanwhile, also when Cortex is restarted, or one of two replicas ends.
func TestManyRequestersAreBounded(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		t.Run(fmt.Sprintf("replicas=%d", replicas), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testManyRequestersAreBounded(t, replicas) })
		})
	}
}

func testManyRequestersAreBounded(t *testing.T, replicas int) {
	w := newWorld(t, toNamed)
	cfg := cortex.Config{Decider: toNamed, Agents: crowdOf(1), TaskTimeout: time.Hour, Authenticated: true}
	w.restart(cfg)
	first := w.stop
	if replicas > 1 {
		w.start(cfg)
	}
	done := quick(w, 1, 10*time.Millisecond)
	const people = 500
	for i := range people {
		w.publish(saying(fmt.Sprint("person", i, "."), 0, "stuck0"+strings.Repeat(" x", 7)))
		if replicas > 1 {
			pass(10 * time.Millisecond) // so that they see what the other one has
		}
	}
	refused := 0
	for i := range people {
		conv, err := storage.Load(t.Context(), w.store, "", fmt.Sprint("person", i, ".0"))
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range conv.Tasks {
			if strings.HasPrefix(task.Result, "it cannot be sent: stuck0 has more to do than it can take, ") &&
				strings.Contains(task.Result, " tasks wait for it, and ") {
				refused++
			}
		}
	}
	if n := depthOf(t, w.bus, transport.Queue); refused < 100 || n < 1000 || n > 1536 {
		t.Errorf("%d tasks refused, %d in the queue; want 1000 at least there, and those above 1536 refused", refused, n)
	}
	if replicas > 1 {
		first()
	}
	for round := range 2 {
		for i := range 20 {
			w.publish(saying("ada", 100*round+i, "quick"))
		}
		pass(time.Minute)
		if n := done.Load(); n != int64(20*(round+1)) {
			t.Errorf("round %d: %d tasks of ada's done, want %d", round, n, 20*(round+1))
		}
		w.restart(cfg)
	}
}

// looked counts looks at inboxes and tasks put into the queue. A look at an agent that is stuck ends with its timeout.
type looked struct {
	onPublish
	looks, queued atomic.Int64
}

func (l *looked) Untaken(ctx context.Context, t transport.Topic) (int, error) {
	l.looks.Add(1)
	if strings.HasPrefix(t.ID, "stuck") {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return l.onPublish.Untaken(ctx, t)
}

func (l *looked) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if t.ID == transport.Queue {
		l.queued.Add(1)
	}
	return l.onPublish.Publish(ctx, t, e)
}

// TestLooksDoNotWait has looks at fifty busy agents take long: looks at another agent do not wait for them.
func TestLooksDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, toNamed)
		l := &looked{onPublish: onPublish{Transport: w.bus}}
		const stuck = 50
		w.restart(cortex.Config{Transport: l, Decider: toNamed, Agents: crowdOf(stuck), TaskTimeout: time.Hour})
		done := quick(w, 1, 10*time.Millisecond)
		for i := range stuck {
			w.publish(saying("bob", i, fmt.Sprint("stuck", i, strings.Repeat(" x", 7))))
		}
		pass(10 * time.Second) // they wait
		for i := range 60 {
			w.publish(saying("ada", i, "quick"))
		}
		pass(20 * time.Second)
		if n := done.Load(); n != 60 {
			t.Errorf("%d tasks of ada's are done, want 60, while looks at %d other agents take two seconds each", n, stuck)
		}
	})
}

// TestLooksAreFew has 64 conversations of one person give work to an agent that keeps up: looks are rare, and hardly any task waits.
func TestLooksAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, toNamed)
		l := &looked{onPublish: onPublish{Transport: w.bus}}
		w.restart(cortex.Config{Transport: l, Decider: toNamed, Agents: crowdOf(0)})
		done := quick(w, 64, 20*time.Millisecond)
		const seconds, rounds = 3, 3 * 20 // of about 50 ms each
		for round := range rounds {
			for i := range 64 {
				e := saying("ada", i, "quick")
				e.ID = fmt.Sprint("m", round)
				e.Payload.(*a2a.Message).ID = e.ID
				w.publish(e)
			}
			pass(50 * time.Millisecond)
		}
		pass(time.Second)
		if n := done.Load(); n != 64*rounds {
			t.Fatalf("%d tasks done, want %d", n, 64*rounds)
		}
		if looks, queued := l.looks.Load(), l.queued.Load(); looks > 4*seconds || queued > 5*64 {
			t.Errorf("%d looks at the agent, and %d of %d tasks in the queue, want a few a second, and only those of the beginning", looks, queued, 64*rounds)
		}
	})
}

// TestTaskIsSentOnce has an orchestrator end after it has sent a task and before it knows that. It starts again when the agent's inbox has
// forgotten the task's id, while the task runs, and when the task has been done meanwhile.
func TestTaskIsSentOnce(t *testing.T) {
	for _, waits := range []bool{true, false} {
		for _, takes := range []time.Duration{time.Hour, time.Minute} {
			t.Run(fmt.Sprintf("queue=%v,takes=%v", waits, takes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testTaskIsSentOnce(t, waits, takes) })
			})
		}
	}
}

func testTaskIsSentOnce(t *testing.T, waits bool, takes time.Duration) {
	w := newWorld(t, toNamed)
	on := &onPublish{Transport: w.bus}
	cfg := cortex.Config{Transport: on, Decider: toNamed, Agents: crowdOf(0), TaskTimeout: 3 * time.Hour}
	w.restart(cfg)
	text := "quick"
	tasks := 1
	if waits {
		tasks = 8
		text += strings.Repeat(" x", tasks-1)
		w.publish(saying("bob", 0, text))
	}
	left := make(chan struct{})
	on.first(transport.Inbox("", "quick"), func(e *transport.Event) {
		if err := w.bus.Publish(t.Context(), transport.Inbox("", "quick"), e); err != nil {
			t.Error(err)
		}
		close(left)
		<-time.After(2 * transport.DuplicateWindow)
	})
	if !waits {
		w.publish(saying("bob", 0, text))
	}
	done := quick(w, 20, takes)
	select {
	case <-left:
	case <-time.After(time.Minute):
		t.Fatalf("the task does not leave the queue: %d wait there, %d at the agent: %v",
			depthOf(t, w.bus, transport.Queue), depthOf(t, w.bus, "quick"), w.orch.Trouble())
	}
	w.stop() // the handler ends when the window is over
	w.restart(cfg)
	pass(2 * time.Hour)
	if n := done.Load(); n != int64(tasks) {
		t.Errorf("%d tasks done, want %d, each once", n, tasks)
	}
	if conv, err := storage.Load(t.Context(), w.store, "", "bob0"); err != nil || len(conv.Running()) != 0 || len(conv.Tasks) != tasks {
		t.Errorf("%d of %d tasks run, %v; want none of %d", len(conv.Running()), len(conv.Tasks), err, tasks)
	}
	if n := depthOf(t, w.bus, transport.Queue); n != 0 {
		t.Errorf("%d tasks are in the queue, want 0", n)
	}
}

// unwilling is a transport that starts to refuse tasks for an agent.
type unwilling struct {
	onPublish
	now atomic.Bool
}

func (r *unwilling) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if t == transport.Inbox("", "quick") && r.now.Load() {
		return fmt.Errorf("%w: %w: the task has 5 MB", transport.ErrInvalid, transport.ErrTooLarge)
	}
	return r.onPublish.Publish(ctx, t, e)
}

// TestQueuedTaskThatCannotBeSent has a task leave the queue that its agent's inbox refuses: it ends with the reason.
func TestQueuedTaskThatCannotBeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, toNamed)
		r := &unwilling{onPublish: onPublish{Transport: w.bus}}
		w.restart(cortex.Config{Transport: r, Decider: toNamed, Agents: crowdOf(0), TaskTimeout: time.Hour})
		w.publish(saying("bob", 0, "quick"+strings.Repeat(" x", 7)))
		r.now.Store(true)
		quick(w, 8, time.Millisecond)
		pass(time.Minute)
		conv, err := storage.Load(t.Context(), w.store, "", "bob0")
		if err != nil {
			t.Fatal(err)
		}
		rejected := 0
		for _, task := range conv.Tasks {
			if task.Result == "it cannot be sent: the task has 5 MB" {
				rejected++
			}
		}
		if rejected != 4 || len(conv.Running()) != 0 {
			t.Errorf("%d tasks ended with the reason, and %d run; want 4 and 0", rejected, len(conv.Running()))
		}
	})
}
