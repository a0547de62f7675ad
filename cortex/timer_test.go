package cortex_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// timers counts the timers that are set, and drops them unless keep is set.
type timers struct {
	transport.Transport
	keep bool

	mu  sync.Mutex
	set int
}

func (s *timers) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if !e.DeliverAt.IsZero() {
		s.mu.Lock()
		s.set++
		s.mu.Unlock()
		if !s.keep {
			return nil
		}
	}
	return s.Transport.Publish(ctx, t, e)
}

func (s *timers) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set
}

// oneTask gives each message to alpha.
var oneTask = simple(func(t *llm.Turn) *llm.Decision {
	if len(t.Steps) == 0 {
		return delegate(llm.Delegation{ID: "1", Agent: "alpha", Task: t.User})
	}
	return respond(results(t))
})

// sayAndDo has a message answered.
func (w *world) sayAndDo(id string) {
	w.t.Helper()
	before := len(w.tasksOf("alpha"))
	w.say(id, "go")
	pass(time.Second)
	tasks := w.tasksOf("alpha")
	if len(tasks) != before+1 {
		w.t.Fatalf("alpha has %d tasks, want one more than %d", len(tasks), before)
	}
	w.finish("alpha", tasks[before].TaskID, "done")
	pass(time.Second)
	w.wantAnswer(id, "alpha COMPLETED done; ")
}

// TestOneTimerIsEnough checks that a conversation that will be woken soon enough sets no other timer, and that the deadline of its last
// task still ends it.
func TestOneTimerIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, oneTask)
		w.stop()
		bus := &timers{Transport: w.bus, keep: true}
		w.start(cortex.Config{Transport: bus, Decider: oneTask})
		for i := range 20 {
			w.sayAndDo(fmt.Sprint("m", i))
		}
		if n := bus.count(); n != 1 {
			t.Errorf("%d timers for 20 tasks in less than a minute, want 1", n)
		}
		w.say("last", "go")
		pass(5 * time.Minute)
		w.wantAnswer("last", "alpha FAILED no result within 5m0s; ")
		w.sayAndDo("later") // there is no timer any more
		if n := bus.count(); n != 3 {
			t.Errorf("%d timers, want 3: one to begin with, one when it woke the conversation for the last task, one later", n)
		}
	})
}

// TestTimerThatFiredIsNoTimer checks that a timer no longer counts when it has fired, even early, nor in another process.
func TestTimerThatFiredIsNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, oneTask)
		w.stop()
		bus := &timers{Transport: w.bus}
		w.start(cortex.Config{Transport: bus, Decider: oneTask})
		at := time.Now().Add(5 * time.Minute)
		w.sayAndDo("m1")
		w.publish(&transport.Event{
			ID: "early", Time: at, From: transport.Cortex, ContextID: theContext, Payload: &transport.Deadline{At: at},
		})
		pass(time.Second)
		w.sayAndDo("m2")
		if n := bus.count(); n != 2 {
			t.Errorf("%d timers, want another one behind the one that fired", n)
		}
		w.stop()
		w.start(cortex.Config{Transport: bus, Decider: oneTask})
		w.sayAndDo("m3")
		if n := bus.count(); n != 3 {
			t.Errorf("%d timers, want another one from a process that knows of none", n)
		}
	})
}
