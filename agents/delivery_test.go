package agents_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// faulty is a transport that fails while fail is set.
type faulty struct {
	*memory.Bus
	fail  atomic.Pointer[error]
	kinds []transport.Kind // that fail; nil: all
	tries atomic.Int32     // number of failed calls of Publish
}

func (f *faulty) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	if err := f.fail.Load(); err != nil {
		if slices.Contains(f.kinds, t.Kind) {
			f.tries.Add(1)
			return *err
		}
	}
	return f.Bus.Publish(ctx, t, e)
}

func TestFinishesOnShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h := newHold()
		stop := b.serve(h.handle, nil)
		b.give(task("t1", "hello", nil))
		done := make(chan error, 1)
		go func() { done <- stop() }()
		synctest.Wait()
		b.give(task("t2", "hello", nil)) // arrives too late
		pass(agents.DefaultGrace - time.Nanosecond)
		if h.cause.Load() != nil {
			t.Error("the handler's context ended within the grace")
		}
		close(h.release)
		if err := <-done; err != nil {
			t.Errorf("Serve() = %v", err)
		}
		b.want("t1 COMPLETED: done")
		if n := b.waiting(); n != 1 {
			t.Errorf("%d tasks wait, want t2", n)
		}
		var seen []string
		for _, c := range b.cards {
			seen = append(seen, fmt.Sprintf("draining=%v gone=%q", c.Draining, c.Gone))
		}
		if diff := cmp.Diff([]string{`draining=false gone=""`, `draining=true gone=""`, `draining=false gone="left"`}, seen); diff != "" {
			t.Errorf("cards (-want +got):\n%s", diff)
		}
	})
}

func TestHandsBackOnShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h := newHold()
		stop := b.serve(h.handle, &agents.Options{Grace: time.Second})
		b.give(task("t1", "hello", nil))
		var delivery int
		defer b.serve(func(_ context.Context, t *agents.Task) (*agents.Result, error) {
			delivery = t.Delivery
			return agents.Text("second"), nil
		}, nil)()
		started := time.Now()
		if err := stop(); err != nil {
			t.Errorf("Serve() = %v", err)
		}
		if d := time.Since(started); d != time.Second {
			t.Errorf("the first instance stopped after %v, want the grace", d)
		}
		if cause, _ := h.cause.Load().(error); !errors.Is(cause, agents.ErrStopping) {
			t.Errorf("the handler's context ended by %v, want ErrStopping", cause)
		}
		b.want("t1 COMPLETED: second")
		if delivery != 2 {
			t.Errorf("the second instance got delivery %d, want 2", delivery)
		}
	})
}

// A result that is ready when the grace period ends is still sent.
func TestResultAtTheEndOfGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		stop := b.serve(func(ctx context.Context, _ *agents.Task) (*agents.Result, error) {
			<-ctx.Done()
			return agents.Text("just in time"), nil
		}, &agents.Options{Grace: -1})
		b.give(task("t1", "hello", nil))
		stop()
		b.want("t1 COMPLETED: just in time")
	})
}

func TestGivesUpAfterThreeDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.give(task("t1", "hello", nil))
		for range agents.MaxDeliveries {
			h := newHold()
			stop := b.serve(h.handle, &agents.Options{Grace: -1})
			if h.started.Load() != 1 {
				t.Fatal("the task was not started")
			}
			stop()
		}
		b.want()
		defer b.serve(shout, nil)()
		b.want("t1 FAILED: the agent stopped 3 times while working on this")
		if n := b.waiting(); n != 0 {
			t.Errorf("%d tasks wait, want none", n)
		}
	})
}

func TestResultIsSentUntilItIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		tr := &faulty{Bus: b.bus.Dial(), kinds: []transport.Kind{transport.KindInbox}}
		var runs atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- agents.Serve(ctx, tr, card(), agents.Handler(func(context.Context, *agents.Task) (*agents.Result, error) {
				runs.Add(1)
				return agents.Text("done"), nil
			}), nil)
		}()
		synctest.Wait()
		tr.fail.Store(&transport.ErrUnavailable)
		b.give(task("t1", "hello", nil))
		pass(time.Hour)
		if n := b.waiting(); n != 1 {
			t.Fatalf("%d tasks wait while the result is not stored, want 1", n)
		}
		if n := tr.tries.Load(); n < 100 || n > 2000 {
			t.Errorf("publish was tried %d times in an hour", n)
		}
		tr.fail.Store(nil)
		pass(10 * time.Second)
		b.want("t1 COMPLETED: done")
		if n := b.waiting(); n != 0 || runs.Load() != 1 {
			t.Errorf("%d tasks wait after %d runs, want 0 after 1", n, runs.Load())
		}
		// If it cannot be stored before the agent has to stop, another instance does the task.
		tr.fail.Store(&transport.ErrUnavailable)
		b.give(task("t2", "hello", nil))
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve() = %v", err)
		}
		if n := b.waiting(); n != 1 {
			t.Errorf("%d tasks wait, want t2", n)
		}
	})
}

func TestAnnouncesWhenItCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		tr := &faulty{Bus: b.bus.Dial(), kinds: []transport.Kind{transport.KindCards}}
		tr.fail.Store(&transport.ErrUnavailable)
		go agents.Serve(t.Context(), tr, card(), agents.Handler(shout), nil)
		pass(time.Hour)
		b.give(task("t1", "hello", nil)) // the agent works nevertheless
		b.want("t1 COMPLETED: HELLO")
		if len(b.cards) != 0 {
			t.Fatalf("%d cards", len(b.cards))
		}
		tr.fail.Store(nil)
		pass(10 * time.Second)
		if len(b.cards) != 1 {
			t.Errorf("%d cards after the transport came back, want 1", len(b.cards))
		}
	})
}

// unready fails the first subscriptions.
type unready struct {
	*memory.Bus
	left atomic.Int32
}

func (u *unready) Subscribe(ctx context.Context, t transport.Topic, o *transport.SubscribeOptions) (transport.Subscription, error) {
	if u.left.Add(-1) >= 0 {
		return nil, transport.ErrUnavailable
	}
	return u.Bus.Subscribe(ctx, t, o)
}

func TestSubscribesWhenItCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		tr := &unready{Bus: b.bus.Dial()}
		tr.left.Store(20)
		go agents.Serve(t.Context(), tr, card(), agents.Handler(shout), nil)
		b.give(task("t1", "hello", nil))
		pass(5 * time.Minute)
		b.want("t1 COMPLETED: HELLO")

		never := &unready{Bus: b.bus.Dial()}
		never.left.Store(1 << 30)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := agents.Serve(ctx, never, card(), agents.Handler(shout), nil); err != nil {
			t.Errorf("Serve() = %v, want nil when it was stopped before it could start", err)
		}
	})
}

// A repeated task is not done again.
func TestDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h := newHold()
		defer b.serve(h.handle, nil)()
		again := func(n int) *transport.Event {
			e := task("t1", "hello", nil)
			e.ID = fmt.Sprint("again-", n)
			return e
		}
		b.give(again(1))
		b.give(again(2))
		if n := h.started.Load(); n != 1 {
			t.Fatalf("the task was started %d times", n)
		}
		if n := b.waiting(); n != 2 {
			t.Errorf("%d events wait, want both, while the task runs", n)
		}
		close(h.release)
		synctest.Wait()
		b.give(again(3))
		if n := b.waiting(); n != 0 {
			t.Errorf("%d events wait, want none", n)
		}
		if n := h.started.Load(); n != 1 {
			t.Errorf("the task was started %d times", n)
		}
		b.want("t1 COMPLETED: done") // once, since the inbox knows the id of the event

		pass(2 * transport.DuplicateWindow) // the inbox has forgotten the id: the result is stored again
		b.give(again(4))
		b.want("t1 COMPLETED: done", "t1 COMPLETED: done")
		if b.results[0].ID != b.results[1].ID {
			t.Errorf("the result has the ids %s and %s, want the same", b.results[0].ID, b.results[1].ID)
		}
	})
}

// A second event of a task that waits for the first one's run goes back to the inbox with the first.
func TestDuplicateOfAHandedBackTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h := newHold()
		stop := b.serve(h.handle, &agents.Options{Grace: time.Second})
		b.give(task("t1", "hello", nil))
		e := task("t1", "hello", nil)
		e.ID = "again"
		b.give(e)
		stop()
		if n := b.waiting(); n != 2 || h.started.Load() != 1 {
			t.Errorf("%d events wait after %d runs, want 2 after 1", n, h.started.Load())
		}
	})
}

func TestQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		runs := 0
		defer b.serve(func(_ context.Context, t *agents.Task) (*agents.Result, error) {
			runs++
			if strings.HasPrefix(t.Text(), "ask") {
				return agents.InputRequired("which " + t.Text() + "?"), nil
			}
			return agents.Text("took " + t.Text()), nil
		}, nil)()
		round := func(n int, text string) *transport.Event {
			e := task("t1", text, nil)
			e.ID = fmt.Sprint("round-", n)
			e.Payload.(*a2a.Message).ID = e.ID
			return e
		}
		b.give(round(1, "ask one"))
		b.give(round(2, "ask two"))
		b.give(round(3, "three"))
		b.want("t1 INPUT_REQUIRED: which ask one?", "t1 INPUT_REQUIRED: which ask two?", "t1 COMPLETED: took three")
		ids := map[string]bool{}
		for _, e := range b.results {
			ids[e.ID] = true
		}
		if len(ids) != 3 {
			t.Errorf("%d ids of 3 results", len(ids))
		}
		// A finished task stays finished.
		b.give(round(4, "four"))
		b.want("t1 INPUT_REQUIRED: which ask one?", "t1 INPUT_REQUIRED: which ask two?", "t1 COMPLETED: took three")
		if runs != 3 {
			t.Errorf("the handler was called %d times, want 3", runs)
		}
	})
}

func TestCancel(t *testing.T) {
	for name, c := range map[string]*transport.Cancel{
		"task":    {TaskID: "t1", Reason: "changed my\nmind"},
		"turn":    {Turn: "turn-1", Reason: "changed my mind"},
		"context": {Reason: "changed my mind"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				h := newHold()
				defer b.serve(h.handle, nil)()
				b.give(task("t1", "hello", nil))
				b.give(task("t2", "hello", map[string]any{transport.MetaTurn: "turn-2"}))
				b.cancel(c)
				want := []string{"t1 CANCELED: the task was canceled: changed my mind"}
				if name == "context" {
					want = append(want, "t2 CANCELED: the task was canceled: changed my mind")
					if got := b.got(); len(got) == 2 && got[0] > got[1] {
						want[0], want[1] = want[1], want[0]
					}
				}
				b.want(want...)
				if cause, _ := h.cause.Load().(error); !errors.Is(cause, agents.ErrCanceled) {
					t.Errorf("the handler's context ended by %v, want ErrCanceled", cause)
				}
				close(h.release)
			})
		})
	}
}

func TestCancelBeforeTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.serve(shout, nil)()
		b.cancel(&transport.Cancel{TaskID: "t1"})
		b.give(task("t1", "hello", nil))
		b.give(task("t2", "hello", nil))
		b.want("t1 CANCELED: the task was canceled", "t2 COMPLETED: HELLO")
	})
}

// keeper is an agent that is told of canceled tasks which it does not work on.
type keeper struct {
	agents.Handler
	told chan string
}

func (k keeper) Canceled(tenant, contextID string, id a2a.TaskID) {
	k.told <- fmt.Sprint(tenant, contextID, id)
}

// TestCancelOfQuestion cancels a task that has asked and waits for the reply.
func TestCancelOfQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		k := keeper{func(context.Context, *agents.Task) (*agents.Result, error) {
			return agents.InputRequired("which?"), nil
		}, make(chan string, 2)}
		defer b.execute(k, nil)()
		b.give(task("t1", "hello", nil))
		b.want("t1 INPUT_REQUIRED: which?")
		b.cancel(&transport.Cancel{TaskID: "t1"})
		if got := <-k.told; got != "ctxt1" {
			t.Errorf("it is told of %q", got)
		}
		b.want("t1 INPUT_REQUIRED: which?")
	})
}

// slowlyTold is an agent that takes its time when it is told of a canceled task.
type slowlyTold struct {
	agents.Handler
	told, on chan struct{}
}

func (s slowlyTold) Canceled(string, string, a2a.TaskID) {
	s.told <- struct{}{}
	<-s.on
}

// serve has s work on tasks until the test ends.
func (s slowlyTold) serve(t *testing.T) *memory.Bus {
	t.Helper()
	bus := memory.New(nil)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- agents.Serve(ctx, bus, card(), s, nil) }()
	t.Cleanup(func() {
		close(s.on)
		stop()
		<-served
		_ = bus.Close()
	})
	return bus
}

// TestCanceledTakesTime has an agent that is told of a canceled task take its time, as for a slow disk: others of its tasks go on, and a later attempt at the
// canceled one begins behind it. It has no bubble: who waits for a mutex would stop its time.
func TestCanceledTakesTime(t *testing.T) {
	began := make(chan a2a.TaskID, 4)
	x := slowlyTold{func(_ context.Context, t *agents.Task) (*agents.Result, error) {
		began <- t.ID
		return agents.Text("done"), nil
	}, make(chan struct{}), make(chan struct{})}
	bus := x.serve(t)
	say := func(to transport.Topic, e *transport.Event) {
		t.Helper()
		if err := bus.Publish(t.Context(), to, e); err != nil {
			t.Fatal(err)
		}
	}
	wait := func(want a2a.TaskID) {
		t.Helper()
		select {
		case got := <-began:
			if got != want {
				t.Fatalf("%s begins, want %s", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s does not begin", want)
		}
	}
	inbox := transport.Inbox("", "agent_x")
	say(inbox, task("t0", "hello", nil))
	wait("t0") // it listens for cancellations by then
	say(transport.Control("", "agent_x"), &transport.Event{
		ID: "cancel", Time: time.Now().Add(-time.Second), From: transport.Cortex, ContextID: "ctx", Payload: &transport.Cancel{TaskID: "t1"},
	})
	<-x.told
	say(inbox, attempt(2)) // of t1
	for i := range 20 {    // by then it would have begun
		id := fmt.Sprint("other", i)
		say(inbox, task(id, "hello", nil))
		wait(a2a.TaskID(id))
	}
	x.on <- struct{}{}
	wait("t1")
}

// TestCanceledAsItAsks cancels a task at the moment at which it asks: its executor is told, since it may keep what waits for the answer.
func TestCanceledAsItAsks(t *testing.T) {
	began := make(chan struct{})
	x := slowlyTold{func(ctx context.Context, _ *agents.Task) (*agents.Result, error) {
		close(began)
		<-ctx.Done()
		return agents.InputRequired("which?"), nil
	}, make(chan struct{}), make(chan struct{})}
	bus := x.serve(t)
	if err := bus.Publish(t.Context(), transport.Inbox("", "agent_x"), task("t1", "hello", nil)); err != nil {
		t.Fatal(err)
	}
	<-began
	if err := bus.Publish(t.Context(), transport.Control("", "agent_x"), &transport.Event{
		ID: "cancel", Time: time.Now().Add(time.Hour), From: transport.Cortex, ContextID: "ctx", Payload: &transport.Cancel{TaskID: "t1"},
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-x.told:
	case <-time.After(time.Minute):
		t.Error("it is not told")
	}
}

// TestCancelOfNextAttempt cancels a task whose next attempt waits for the end of one that has run out of time: it does not begin.
func TestCancelOfNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h := newHold()
		defer b.serve(func(ctx context.Context, t *agents.Task) (*agents.Result, error) {
			_, err := h.handle(ctx, t)
			<-h.release
			return nil, err
		}, nil)()
		b.give(attempt(1))
		pass(2 * time.Minute)
		b.give(attempt(2))
		pass(time.Second)
		b.cancel(&transport.Cancel{TaskID: "t1"})
		close(h.release)
		if diff := cmp.Diff([]string{"t1 CANCELED: the task was canceled", "t1 FAILED: the agent was not done at the deadline"}, slices.Sorted(slices.Values(b.got()))); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
		if n := h.started.Load(); n != 1 {
			t.Errorf("the task was started %d times", n)
		}
	})
}

// A handler that ignores its cancellation does not change that the task is canceled.
func TestCanceledWhateverTheHandlerSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.serve(func(ctx context.Context, _ *agents.Task) (*agents.Result, error) {
			<-ctx.Done()
			return agents.Text("done"), nil
		}, nil)()
		b.give(task("t1", "hello", nil))
		b.cancel(&transport.Cancel{TaskID: "t1"})
		b.want("t1 CANCELED: the task was canceled")
	})
}

// Cancellations are handled until the last task has ended.
func TestCancelWhileDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h := newHold()
		stop := b.serve(h.handle, nil)
		b.give(task("t1", "hello", nil))
		done := make(chan error, 1)
		go func() { done <- stop() }()
		pass(time.Second)
		b.cancel(&transport.Cancel{TaskID: "t1"})
		<-done
		b.want("t1 CANCELED: the task was canceled")
	})
}

// TestCancelOfAnother sends cancellations from others, and from Cortex for a task in another conversation: the tasks go on.
func TestCancelOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h := newHold()
		defer b.serve(h.handle, nil)()
		b.give(task("t1", "hello", nil))
		say := func(from, contextID string, c *transport.Cancel) {
			e := &transport.Event{ID: "cancel", Time: time.Now(), From: from, ContextID: contextID, Payload: c}
			if err := b.bus.Publish(t.Context(), transport.Control("", "agent_x"), e); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for _, from := range []string{"user", "agent_y", "agent_x"} {
			say(from, "ctx", &transport.Cancel{TaskID: "t1"})
			say(from, "ctx", &transport.Cancel{TaskID: "t2"})
			say(from, "ctx", &transport.Cancel{})
		}
		say(transport.Cortex, "elsewhere", &transport.Cancel{TaskID: "t1"})
		say(transport.Cortex, "elsewhere", &transport.Cancel{TaskID: "t2"})
		close(h.release)
		synctest.Wait()
		b.give(task("t2", "hello", nil))
		b.want("t1 COMPLETED: done", "t2 COMPLETED: done")
	})
}
