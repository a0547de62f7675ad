package rtfs

import (
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// A task that is given again was perhaps done, whatever the transport knows of it: the agent is not called again, unless its card allows it.
func TestDeliveredAgain(t *testing.T) {
	w := newWorld(t)
	w.serve()
	agent := newAgent(t, says(`{"success":true,"output":"done"}`))
	w.register(pdf("pdf", agent.URL), agent.URL, 60)
	c := pdf("again", agent.URL)
	c["metadata"] = map[string]any{"idempotent": true}
	w.register(c, agent.URL, 60)
	task := &agents.Task{ID: "t", ContextID: "c", Delivery: 1, Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("do it"))}
	for n, b := range []*bridge{w.b, w.b, nil} { // again in this process, and in another one
		if b == nil {
			w.stop()
			w.serve()
			b = w.b
		}
		if _, err := (&guest{b, "pdf"}).do(t.Context(), task); n > 0 && (err == nil || !strings.Contains(err.Error(), "may have been done")) || n == 0 && err != nil {
			t.Errorf("call %d = %v", n, err)
		}
	}
	if n := agent.called(); n != 1 {
		t.Errorf("it was called %d times", n)
	}
	for range 2 {
		if _, err := (&guest{w.b, "again"}).do(t.Context(), task); err != nil {
			t.Error(err)
		}
	}
	if n := agent.called(); n != 3 {
		t.Errorf("it was called %d times", n)
	}
}

// Calls are forgotten: soon after their end, or a day after a kill.
func TestCallsAreForgotten(t *testing.T) {
	w := newWorld(t)
	w.serve()
	message := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("do it"))
	task := func(id a2a.TaskID) *agents.Task { return &agents.Task{ID: id, Message: message} }
	stored := func() (n int) {
		for _, err := range w.Store.Notes(t.Context(), "", storage.NoteCall) {
			must(t, err)
			n++
		}
		return n
	}
	m, now := w.b.made, time.Now()
	for _, id := range []a2a.TaskID{"ended", "lost"} {
		if first, err := m.begin(t.Context(), task(id)); err != nil || !first {
			t.Fatalf("begin = %t, %v", first, err)
		}
	}
	m.end(task("ended"))
	m.forget(t.Context(), now.Add(madeFor-time.Minute))
	m.forgetLost(t.Context(), now.Add(lostFor-time.Minute))
	if n := stored(); n != 2 {
		t.Errorf("%d are stored, want 2", n)
	}
	m.forget(t.Context(), now.Add(madeFor+time.Minute))
	if n := stored(); n != 1 {
		t.Errorf("%d are stored, want 1", n)
	}
	m.forgetLost(t.Context(), now.Add(lostFor+time.Minute))
	if n := stored(); n != 0 {
		t.Errorf("%d are stored, want 0", n)
	}
}

// A call whose note is damaged was perhaps made: it is forgotten no sooner than others.
func TestDamagedCallIsKept(t *testing.T) {
	w := newWorld(t)
	w.serve()
	task := &agents.Task{ID: "t", Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("do it"))}
	_, err := w.Store.PutNote(t.Context(), "", storage.NoteCall, storage.Note{Key: callKey(task), Value: []byte("2026-\x00")})
	must(t, err)
	m, now := w.b.made, time.Now()
	for range 2 {
		m.forgetLost(t.Context(), now)
		if first, err := m.begin(t.Context(), task); err != nil || first {
			t.Errorf("begin = %t, %v", first, err)
		}
	}
	m.forgetLost(t.Context(), now.Add(lostFor+time.Minute))
	if first, err := m.begin(t.Context(), task); err != nil || !first {
		t.Errorf("a day later: begin = %t, %v", first, err)
	}
}
