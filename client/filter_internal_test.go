package client

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestEarlyProgressIsBrief checks that of progress which arrives before its task no more is kept than what is shown of it.
func TestEarlyProgressIsBrief(t *testing.T) {
	var f filter
	heavy := make([]any, 10_000)
	for i := range heavy {
		heavy[i] = map[string]any{}
	}
	e := &transport.Event{ID: "e", From: "clock", ContextID: "c", TaskID: "t1", Payload: &a2a.TaskStatusUpdateEvent{
		TaskID: "t1", ContextID: "c", Metadata: map[string]any{"x": heavy, transport.MetaAgentID: "clock"},
		Status: a2a.TaskStatus{State: a2a.TaskStateWorking, Message: &a2a.Message{
			ID: "m", Role: a2a.MessageRoleAgent, Metadata: map[string]any{"x": heavy},
			Parts: a2a.ContentParts{a2a.NewTextPart("looking " + strings.Repeat("x", 1<<20)), a2a.NewDataPart(heavy)},
		}},
	}}
	if got := f.pass(e); len(got) != 0 || len(f.early) != 1 {
		t.Fatalf("%d events are shown, %d kept", len(got), len(f.early))
	}
	kept, err := json.Marshal(f.early[0])
	if err != nil || len(kept) > 2*maxEarlyText {
		t.Errorf("%d bytes are kept, %v", len(kept), err)
	}
	f.watch("t1", "clock")
	got := f.release("t1")
	if len(got) != 1 {
		t.Fatalf("%d events are released", len(got))
	}
	p := got[0].Payload.(*a2a.TaskStatusUpdateEvent)
	if text := transport.Text(p.Status.Message.Parts); !strings.HasPrefix(text, "looking xxx") || p.TaskID != "t1" || p.Status.State != a2a.TaskStateWorking || got[0].From != "clock" {
		t.Errorf("%+v says %.20q", p, text)
	}
}
