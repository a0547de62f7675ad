package agents

import (
	"context"
	"fmt"
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
