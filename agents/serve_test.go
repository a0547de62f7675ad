package agents_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

func card() *a2a.AgentCard {
	return &a2a.AgentCard{Name: "agent_x", Description: "Test agent", Version: "1.0.0", Skills: []a2a.AgentSkill{{ID: "do", Name: "Do"}}}
}

// bench is the environment of an agent under test: it gives tasks as the orchestrator would, and records the agent's events.
// Use it in a synctest bubble.
type bench struct {
	t   *testing.T
	bus *memory.Bus

	mu      sync.Mutex
	results []*transport.Event
	cards   []*transport.Card
	live    []*transport.Event
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, bus: memory.New(nil)}
	b.listen(transport.Inbox("", transport.Cortex), &b.results)
	b.listen(transport.Live("", "ctx"), &b.live)
	s, err := b.bus.Subscribe(t.Context(), transport.Cards(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(t.Context(), func(_ context.Context, e *transport.Event) error {
		if c, ok := e.Payload.(*transport.Card); ok {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.cards = append(b.cards, c)
		}
		return nil
	})
	t.Cleanup(func() { b.bus.Close() })
	return b
}

func (b *bench) listen(topic transport.Topic, to *[]*transport.Event) {
	s, err := b.bus.Subscribe(b.t.Context(), topic, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	go s.Serve(b.t.Context(), func(_ context.Context, e *transport.Event) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		*to = append(*to, e)
		return nil
	})
}

// serve runs an agent as another process would, and returns a function that stops it and returns Serve's error.
func (b *bench) serve(h agents.Handler, o *agents.Options) (stop func() error) {
	return b.execute(h, o)
}

func (b *bench) execute(x agents.Executor, o *agents.Options) (stop func() error) {
	return b.executeAs(card(), x, o)
}

func (b *bench) executeAs(card *a2a.AgentCard, x agents.Executor, o *agents.Options) (stop func() error) {
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	tr := b.bus.Dial()
	go func() { done <- agents.Serve(ctx, tr, card, x, o) }()
	synctest.Wait()
	return sync.OnceValue(func() error {
		cancel()
		defer tr.Close()
		return <-done
	})
}

// task makes the event of a task, in the way the orchestrator does.
func task(id, text string, meta map[string]any) *transport.Event {
	m := &a2a.Message{
		ID: "m-" + id, ContextID: "ctx", TaskID: a2a.TaskID(id), Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(text)},
		Metadata: map[string]any{transport.MetaTaskType: "do", transport.MetaTurn: "turn-1"},
	}
	maps.Copy(m.Metadata, meta)
	return &transport.Event{ID: "e-" + id, Time: time.Now(), From: transport.Cortex, ContextID: "ctx", TaskID: m.TaskID, Payload: m}
}

func (b *bench) give(e *transport.Event) {
	b.t.Helper()
	if err := b.bus.Publish(b.t.Context(), transport.Inbox("", "agent_x"), e); err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) cancel(c *transport.Cancel) {
	b.t.Helper()
	b.cancelAt(c, time.Now())
}

func (b *bench) cancelAt(c *transport.Cancel, sent time.Time) {
	b.t.Helper()
	e := &transport.Event{ID: "cancel", Time: sent, From: transport.Cortex, ContextID: "ctx", Payload: c}
	if err := b.bus.Publish(b.t.Context(), transport.Control("", "agent_x"), e); err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

// got returns the results so far, as "id state: text".
func (b *bench) got() []string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, e := range b.results {
		if t, ok := e.Payload.(*a2a.Task); ok {
			out = append(out, summary(t))
		}
	}
	return out
}

func summary(t *a2a.Task) string {
	s := fmt.Sprintf("%s %s", t.ID, strings.TrimPrefix(string(t.Status.State), "TASK_STATE_"))
	if t.Status.Message != nil {
		s += ": " + transport.Text(t.Status.Message.Parts)
	}
	return s
}

func (b *bench) want(want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.got()); diff != "" {
		b.t.Errorf("results (-want +got):\n%s", diff)
	}
}

// waiting returns the number of tasks that are not acknowledged.
func (b *bench) waiting() int {
	synctest.Wait()
	n, err := b.bus.Waiting(b.t.Context(), transport.Inbox("", "agent_x"))
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// pass lets time pass in a bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func shout(_ context.Context, t *agents.Task) (*agents.Result, error) {
	return agents.Text(strings.ToUpper(t.Text())), nil
}

// hold is a handler that runs until its context ends or it is released.
type hold struct {
	started atomic.Int32
	release chan struct{}
	cause   atomic.Value // why a context ended
}

func newHold() *hold { return &hold{release: make(chan struct{})} }

func (h *hold) handle(ctx context.Context, t *agents.Task) (*agents.Result, error) {
	h.started.Add(1)
	select {
	case <-h.release:
		return agents.Text("done"), nil
	case <-ctx.Done():
		h.cause.Store(context.Cause(ctx))
		return nil, ctx.Err()
	}
}

func TestResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		stop := b.serve(shout, nil)
		e := task("t1", "hello", map[string]any{transport.MetaTaskType: "do_request"})
		e.Traceparent, e.Tracestate = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "rojo=1"
		b.give(e)
		b.want("t1 COMPLETED: HELLO")
		r := b.results[0]
		got := r.Payload.(*a2a.Task)
		want := map[string]any{
			"task_type": "do_result", "agent_id": "agent_x", "task_id": "t1", "original_message_id": "m-t1", "created_at": time.Now().Format(time.RFC3339),
		}
		if diff := cmp.Diff(want, got.Metadata); diff != "" {
			t.Errorf("metadata (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, got.Status.Message.Metadata); diff != "" {
			t.Errorf("metadata of the message (-want +got):\n%s", diff)
		}
		if r.From != "agent_x" || r.To != transport.Cortex || r.ContextID != "ctx" || r.TaskID != "t1" ||
			r.Traceparent != e.Traceparent || r.Tracestate != e.Tracestate {
			t.Errorf("result is addressed %+v", r)
		}
		m := got.Status.Message
		if got.ContextID != "ctx" || m.ContextID != "ctx" || m.TaskID != "t1" || m.Role != a2a.MessageRoleAgent || m.ID == "" {
			t.Errorf("message = %+v", m)
		}
		if n := b.waiting(); n != 0 {
			t.Errorf("%d tasks are not acknowledged", n)
		}
		if err := stop(); err != nil {
			t.Errorf("Serve() = %v, want nil after its context ended", err)
		}
	})
}

// TestResultSaysHowLong has a result say how long the agent worked.
func TestResultSaysHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.serve(func(_ context.Context, t *agents.Task) (*agents.Result, error) {
			<-time.After(2500 * time.Millisecond)
			return agents.Text("done"), nil
		}, nil)
		b.give(task("t1", "hello", nil))
		<-time.After(time.Minute)
		b.want("t1 COMPLETED: done")
		if got := b.results[0].Payload.(*a2a.Task).Metadata[transport.MetaWorked]; got != 2.5 {
			t.Errorf("it worked for %v seconds, want 2.5", got)
		}
	})
}

func TestOutcomes(t *testing.T) {
	var log bytes.Buffer
	handlers := map[string]agents.Handler{
		"nothing": func(context.Context, *agents.Task) (*agents.Result, error) { return nil, nil },
		"error":   func(context.Context, *agents.Task) (*agents.Result, error) { return nil, errors.New("no luck") },
		"rejected": func(context.Context, *agents.Task) (*agents.Result, error) {
			return nil, agents.Rejected(errors.New("not mine"))
		},
		"panic": func(context.Context, *agents.Task) (*agents.Result, error) { panic("a secret") },
		"question": func(context.Context, *agents.Task) (*agents.Result, error) {
			return agents.InputRequired("which?"), nil
		},
		"login": func(context.Context, *agents.Task) (*agents.Result, error) {
			return agents.AuthRequired("log in at the shop"), nil
		},
		"unsendable": func(context.Context, *agents.Task) (*agents.Result, error) {
			return &agents.Result{Parts: a2a.ContentParts{a2a.NewDataPart(func() {})}}, nil
		},
		"too big": func(context.Context, *agents.Task) (*agents.Result, error) {
			return &agents.Result{Parts: a2a.ContentParts{a2a.NewDataPart(strings.Repeat("x", transport.MaxPayload))}}, nil
		},
		"silent error": func(context.Context, *agents.Task) (*agents.Result, error) { return nil, errors.New(" ") },
	}
	want := map[string]string{
		"nothing":      "t COMPLETED",
		"error":        "t FAILED: no luck",
		"rejected":     "t REJECTED: not mine",
		"panic":        "t FAILED: the agent crashed while working on this",
		"question":     "t INPUT_REQUIRED: which?",
		"login":        "t AUTH_REQUIRED: log in at the shop",
		"unsendable":   "t FAILED: the agent's result cannot be sent: invalid event: encode task: json: unsupported type: func()",
		"too big":      "t FAILED: the agent's result cannot be sent: invalid event: too large: the task is 5592905 bytes, at most 4194304 are allowed",
		"silent error": "t FAILED: the agent gave no reason (*errors.errorString)",
	}
	for name, h := range handlers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				defer b.serve(h, &agents.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})()
				b.give(task("t", "hello", nil))
				got := b.got()
				if name == "unsendable" || name == "too big" { // the numbers and names are the transport's
					if len(got) != 1 || !strings.HasPrefix(got[0], want[name][:50]) {
						t.Errorf("results = %q, want %q", got, want[name])
					}
					return
				}
				b.want(want[name])
				if n := b.waiting(); n != 0 {
					t.Errorf("%d tasks are not acknowledged", n)
				}
			})
		})
	}
	if !strings.Contains(log.String(), "a secret") || !strings.Contains(log.String(), "serve_test.go") {
		t.Errorf("the log has no panic with its stack:\n%s", log.String())
	}
}

func TestResultIsCleaned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.serve(func(context.Context, *agents.Task) (*agents.Result, error) {
			return &agents.Result{Parts: a2a.ContentParts{
				nil,
				{},
				a2a.NewTextPart(""), a2a.NewRawPart(nil), a2a.NewDataPart(nil),
				a2a.NewTextPart("caf\xe9"), a2a.NewTextPart(strings.Repeat("é", agents.MaxResultText)), a2a.NewTextPart("more"),
			}}, nil
		}, nil)()
		b.give(task("t", "hello", nil))
		got := b.got()
		if len(got) != 1 {
			t.Fatalf("results = %q", got)
		}
		parts := b.results[0].Payload.(*a2a.Task).Status.Message.Parts
		if len(parts) != 3 {
			t.Fatalf("%d parts, want the bytes, the text, and the whole text as a file", len(parts))
		}
		if raw := parts[0].Raw(); string(raw) != "caf\xe9" || parts[0].MediaType != "application/octet-stream" {
			t.Errorf("part 0 = %q (%s), want the bytes", raw, parts[0].MediaType)
		}
		if text := parts[1].Text(); len(text) > agents.MaxResultText+100 || !strings.HasSuffix(text, "é\n[cut: the first 262144 of 524288 bytes]") {
			t.Errorf("part 1 has %d bytes and ends %q, want it cut with a note", len(text), text[max(0, len(text)-60):])
		}
		whole, err := transport.ReadPart(t.Context(), b.bus, "", parts[2], 1<<20)
		if want := strings.Repeat("é", agents.MaxResultText) + "\nmore"; err != nil || string(whole) != want || parts[2].Filename != "result.txt" {
			t.Errorf("the file %s has %d bytes and ends %q (%v), want all of the text", parts[2].Filename, len(whole), whole[max(0, len(whole)-60):], err)
		}
	})
}

// The fields of a task as a handler sees them.
func TestTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		deadline := time.Now().Add(time.Minute)
		var got *agents.Task
		defer b.serve(func(_ context.Context, task *agents.Task) (*agents.Result, error) {
			got = task
			return nil, nil
		}, nil)()
		e := task("t1", "one", map[string]any{transport.MetaTaskType: "do_request", transport.MetaDeadline: deadline.Format(time.RFC3339Nano)})
		m := e.Payload.(*a2a.Message)
		m.Parts = append(m.Parts, a2a.NewTextPart("two"), a2a.NewDataPart(map[string]any{"n": 1.0}))
		b.give(e)
		if got == nil {
			t.Fatal("the handler was not called")
		}
		if got.ID != "t1" || got.ContextID != "ctx" || got.Skill != "do" || got.Delivery != 1 || got.Text() != "one\ntwo" || got.Message.ID != "m-t1" {
			t.Errorf("task = %+v with text %q", got, got.Text())
		}
		if diff := cmp.Diff(map[string]any{"n": 1.0}, got.Input()); diff != "" {
			t.Errorf("Input() (-want +got):\n%s", diff)
		}
		if !got.Deadline.Equal(deadline) {
			t.Errorf("deadline = %v, want %v", got.Deadline, deadline)
		}
	})
}

// A task can be used without Serve, for testing handlers.
func TestTaskAlone(t *testing.T) {
	task := &agents.Task{}
	task.Progress("working")
	if err := task.Artifact("a", a2a.NewTextPart("text")); err != nil {
		t.Error(err)
	}
	if task.Text() != "" || task.Input() != nil {
		t.Errorf("an empty task has text %q and input %v", task.Text(), task.Input())
	}
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h := newHold()
		defer b.serve(h.handle, nil)()
		in := func(d time.Duration) map[string]any {
			return map[string]any{transport.MetaDeadline: time.Now().Add(d).Format(time.RFC3339Nano)}
		}
		b.give(task("late", "hello", in(-time.Millisecond)))
		b.give(task("none", "hello", in(0)))
		b.want("late FAILED: the deadline passed before the agent could start", "none FAILED: the deadline passed before the agent could start")
		if n := h.started.Load(); n != 0 {
			t.Errorf("the handler was started %d times past the deadline", n)
		}
		b.give(task("slow", "hello", in(time.Second)))
		pass(time.Second - time.Nanosecond)
		if len(b.got()) != 2 {
			t.Errorf("results before the deadline: %q", b.got())
		}
		pass(time.Nanosecond)
		if got := b.got()[2]; got != "slow FAILED: the agent was not done at the deadline" {
			t.Errorf("at the deadline: %q", got)
		}
	})
}

func TestUnknownPayloadIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h := newHold()
		defer b.serve(h.handle, nil)()
		e := task("t", "hello", nil)
		e.Payload = &transport.Deadline{At: time.Now()}
		b.give(e)
		e = task("t2", "hello", nil)
		e.TaskID, e.Payload.(*a2a.Message).TaskID = "", ""
		b.give(e)
		var reasons []string
		for d, err := range b.bus.DeadLetters(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			reasons = append(reasons, d.Reason)
		}
		if diff := cmp.Diff([]string{"a *transport.Deadline is not a task for an agent", "the task has no id"}, reasons); diff != "" {
			t.Errorf("dead letters (-want +got):\n%s", diff)
		}
		b.want()
	})
}

func TestConcurrency(t *testing.T) {
	for _, tt := range []struct{ limit, said, want int }{{0, 0, agents.DefaultConcurrency}, {3, 0, 3}, {0, 5, 5}, {3, 5, 3}} { // said: by the card
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			h := newHold()
			says := agentcard.Attach(card(), &agentcard.Spec{Limits: agentcard.Limits{MaxConcurrentTasks: tt.said}})
			defer b.executeAs(says, agents.Handler(h.handle), &agents.Options{Concurrency: tt.limit})()
			for i := range 20 {
				b.give(task(fmt.Sprint("t", i), "hello", nil))
			}
			if n := int(h.started.Load()); n != tt.want {
				t.Errorf("with Concurrency %d and %d in the card, %d tasks run at once, want %d", tt.limit, tt.said, n, tt.want)
			}
			close(h.release)
			if n := len(b.got()); n != 20 {
				t.Errorf("%d results, want 20", n)
			}
		})
	}
}

func TestTwoInstancesShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		one, two := newHold(), newHold()
		defer b.serve(one.handle, &agents.Options{Concurrency: 1})()
		defer b.serve(two.handle, &agents.Options{Concurrency: 1})()
		b.give(task("t1", "hello", nil))
		b.give(task("t2", "hello", nil))
		if one.started.Load() != 1 || two.started.Load() != 1 {
			t.Errorf("the instances have %d and %d tasks, want one each", one.started.Load(), two.started.Load())
		}
		close(one.release)
		close(two.release)
		if n := len(b.got()); n != 2 {
			t.Errorf("%d results, want 2", n)
		}
	})
}

func TestServeRefuses(t *testing.T) {
	for name, c := range map[string]*a2a.AgentCard{
		"no name":   {},
		"long":      {Name: strings.Repeat("x", 300)},
		"another's": {Name: transport.Cortex},
	} {
		if err := agents.Serve(t.Context(), memory.New(nil), c, agents.Handler(shout), nil); err == nil {
			t.Errorf("Serve with a card with %s returned nil", name)
		}
	}
	if err := agents.Serve(t.Context(), memory.New(nil), card(), agents.Handler(shout), &agents.Options{Instance: "a b"}); err == nil {
		t.Error("Serve with a bad instance returned nil")
	}
}

func TestClosedTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		h := newHold()
		tr := b.bus.Dial()
		done := make(chan error, 1)
		go func() { done <- agents.Serve(t.Context(), tr, card(), agents.Handler(h.handle), nil) }()
		b.give(task("t", "hello", nil))
		closed := time.Now()
		tr.Close()
		if err := <-done; !errors.Is(err, transport.ErrClosed) || time.Since(closed) != 0 {
			t.Errorf("Serve() = %v after %v, want ErrClosed at once", err, time.Since(closed))
		}
		if n := b.waiting(); n != 1 {
			t.Errorf("%d tasks wait, want the unfinished one", n)
		}
	})
}
