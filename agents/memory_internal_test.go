package agents

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
	membus "github.com/cortex-orchestrator/cortex/transport/memory"
)

func TestMemoryIsBounded(t *testing.T) {
	m := memory[int]{new(memories)}
	has := func(entries, size int, want ...int) {
		t.Helper()
		if n, bytes := m.in.of.Has(&m); n != entries || bytes != size {
			t.Errorf("%d entries of %d bytes, want %d of %d", n, bytes, entries, size)
		}
		for _, v := range want {
			if got, ok := m.get(a2a.TaskID(fmt.Sprint(v))); !ok || got != v {
				t.Errorf("of %d it has %d, %v", v, got, ok)
			}
		}
	}
	for i := range 2 * memoryEntries {
		m.put(a2a.TaskID(fmt.Sprint(1000+i)), i+1000, 1)
	}
	has(memoryEntries, memoryEntries*(entryBytes+len("1000")+1), 1000+memoryEntries, 1000+2*memoryEntries-1)
	m.put("1", 0, memoryBytes-entryBytes-1)
	m.put("1", 1, memoryBytes-entryBytes-1)
	has(1, memoryBytes, 1)
	m.put("2", 2, memoryBytes) // the transport takes it, so its work must not be done again
	has(1, memoryBytes+entryBytes+1, 2)
	m.put("3", 3, 1)
	has(1, entryBytes+2, 3)
	m.forget()
	has(0, 0)
}

// TestMemoryIsShared checks that those who remember most make room for others, and nobody else does.
func TestMemoryIsShared(t *testing.T) {
	all := new(memories)
	fill := func(m *memory[int]) {
		for i := range 100 {
			m.put(a2a.TaskID(fmt.Sprint(i)), i, memoryBytes/20)
		}
	}
	few := memory[int]{all}
	few.put("mine", 1, 1<<20)
	for range hostBytes / memoryBytes * 3 {
		fill(&memory[int]{all})
	}
	if size := all.of.Size(); size > hostBytes || size < hostBytes*9/10 {
		t.Errorf("all remember %d MiB, want %d", size>>20, hostBytes>>20)
	}
	if v, ok := few.get("mine"); !ok || v != 1 {
		t.Errorf("others have pushed out what one remembers")
	}
	late := memory[int]{all}
	fill(&late)
	if n, size := late.in.of.Has(&late); n < 5 || size > memoryBytes/2 {
		t.Errorf("who comes late remembers %d bytes of %d tasks, want a share", size, n)
	}
}

// TestHostMemory checks that the agents of a host share what they remember, and that nothing of one that was removed stays.
func TestHostMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := membus.New(nil)
		defer bus.Close()
		h, err := NewHost(bus, "bridge", nil)
		if err != nil {
			t.Fatal(err)
		}
		add := func(name string) {
			if err := h.Add(t.Context(), &a2a.AgentCard{Name: name}, Handler(func(ctx context.Context, t *Task) (*Result, error) {
				if t.Text() == "slow" {
					time.Sleep(time.Second)
				}
				return Text("done"), nil
			})); err != nil {
				t.Fatal(err)
			}
		}
		give := func(agent, id, text string) {
			m := &a2a.Message{ID: id, ContextID: "ctx", TaskID: a2a.TaskID(id), Role: a2a.MessageRoleUser, Parts: words(text)}
			if err := bus.Publish(t.Context(), transport.Inbox("", agent), &transport.Event{ID: id, From: transport.Cortex, ContextID: "ctx", TaskID: m.TaskID, Payload: m}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		want := func(n int) {
			t.Helper()
			synctest.Wait()
			h.memory.mu.Lock()
			defer h.memory.mu.Unlock()
			if got := h.memory.of.Len(); got != n {
				t.Errorf("%d tasks are remembered, want %d", got, n)
			}
		}
		add("a1")
		add("a2")
		ctx, end := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- h.Serve(ctx) }()
		give("a1", "t1", "quick")
		give("a2", "t2", "quick")
		want(2)
		time.Sleep(time.Minute) // they sleep again
		h.Remove("a1")
		want(1)
		give("a2", "t3", "slow")
		h.Remove("a2")
		want(1)
		time.Sleep(2 * time.Second) // the last task of a2 ends
		want(0)
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// TestMemoryWeighs checks that what is remembered counts as what it takes in memory.
func TestMemoryWeighs(t *testing.T) {
	empty := make([]any, 100_000)
	for i := range empty {
		empty[i] = map[string]any{}
	}
	artifact := &a2a.Artifact{ID: "1", Parts: words("x"), Extensions: []string{strings.Repeat("x", 1<<20)}}
	data, about := a2a.NewDataPart(empty), a2a.NewTextPart("x")
	about.Metadata = map[string]any{"list": empty}
	for name, c := range map[string]struct {
		is    outcome
		least int
	}{
		"data":       {outcome{parts: a2a.ContentParts{data}}, 64 * len(empty)},
		"metadata":   {outcome{parts: a2a.ContentParts{about}}, 64 * len(empty)},
		"artifact":   {outcome{artifacts: []*a2a.Artifact{artifact}}, 1 << 20},
		"text":       {outcome{parts: words(strings.Repeat("x", 1<<18))}, 1 << 18},
		"unsendable": {outcome{parts: a2a.ContentParts{a2a.NewDataPart(math.NaN())}}, 0},
	} {
		if n := c.is.weight(); n < c.least || n > 3*c.least+1000 {
			t.Errorf("%s counts as %d bytes, want %d at least", name, n, c.least)
		}
	}
	for name, m := range map[string]*a2a.Message{
		"data":     {Parts: a2a.ContentParts{data}},
		"metadata": {Parts: words("x"), Metadata: map[string]any{"list": empty}},
	} {
		if n := weightOf(m); n < 64*len(empty) || n > 200*len(empty) {
			t.Errorf("an answer with %s counts as %d bytes", name, n)
		}
	}
}

// testAgent returns an agent without a task.
func testAgent(t *testing.T) *agent {
	bus := membus.New(nil)
	t.Cleanup(func() { bus.Close() })
	a, err := newAgent(bus, &a2a.AgentCard{Name: "a"}, Handler(func(context.Context, *Task) (*Result, error) { return nil, nil }), nil)
	if err != nil {
		t.Fatal(err)
	}
	a.work, a.sending = t.Context(), t.Context()
	return a
}

// TestRefusedResultIsNotKept checks that of a result that cannot be sent only the refusal is remembered, and sent to later attempts.
func TestRefusedResultIsNotKept(t *testing.T) {
	a := testAgent(t)
	m := &a2a.Message{ID: "m", TaskID: "t", ContextID: "ctx", Role: a2a.MessageRoleUser, Metadata: map[string]any{transport.MetaAttempt: 2}}
	e := &transport.Event{ID: "m", From: transport.Cortex, ContextID: "ctx", TaskID: "t", Payload: m}
	r, _, _ := a.begin("t", e, m)
	out := a.end("t", r, outcome{state: a2a.TaskStateCompleted, parts: a2a.ContentParts{a2a.NewDataPart([]any{math.NaN(), make([]int, 1<<20)})}}, true)
	if err := a.answer(e, m, out); err != nil {
		t.Fatal(err)
	}
	const refusal = "the agent's result cannot be sent"
	again := *m
	again.ID, again.Metadata = "m2", map[string]any{transport.MetaAttempt: 3}
	_, _, known := a.begin("t", e, &again) // completed work is not done again, although its result is none
	if known == nil || !strings.HasPrefix(transport.Text(known.parts), refusal) {
		t.Fatalf("it remembers %+v", known)
	}
	if err := a.answer(e, &again, *known); err != nil {
		t.Fatal(err)
	}
	heard := make(chan *transport.Event, 2)
	s, err := a.tr.Subscribe(t.Context(), transport.Inbox("", transport.Cortex), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	go s.Serve(t.Context(), func(_ context.Context, e *transport.Event) error { heard <- e; return nil }) //nolint:errcheck // it ends with the test
	for range 2 {
		task := (<-heard).Payload.(*a2a.Task)
		if task.Status.State != a2a.TaskStateFailed || !strings.HasPrefix(transport.Text(task.Status.Message.Parts), refusal) {
			t.Errorf("the result is %+v", task.Status)
		}
	}
}

// TestMemoryKeepsNoEvents checks that the ids of finished tasks do not keep the events to which they belong.
func TestMemoryKeepsNoEvents(t *testing.T) {
	a := testAgent(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range memoryEntries {
		body := fmt.Sprint(i, " ", strings.Repeat("x", 16<<10))
		m := &a2a.Message{ID: body[:8], TaskID: a2a.TaskID(body[:8]), Role: a2a.MessageRoleUser}
		r, _, _ := a.begin(m.TaskID, &transport.Event{Payload: m}, m)
		a.end(m.TaskID, r, outcome{state: a2a.TaskStateCompleted}, true)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int(after.HeapAlloc) - int(before.HeapAlloc); kept > memoryEntries*(8<<10) {
		t.Errorf("%d tasks keep %d kB", memoryEntries, kept>>10)
	}
	if n, _ := a.finished.in.of.Has(&a.finished); n != memoryEntries {
		t.Errorf("it remembers %d tasks", n)
	}
}
