package client

import (
	"reflect"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestEarlyProgressIsBrief checks that of progress which arrives before its task no more is kept than what is shown of it: neither what it was decoded from,
// nor long ids.
func TestEarlyProgressIsBrief(t *testing.T) {
	heavy := make([]any, 10_000)
	for i := range heavy {
		heavy[i] = map[string]any{}
	}
	long := strings.Repeat("x", 1<<20)
	for name, p := range map[string]*a2a.TaskStatusUpdateEvent{
		"data": {
			TaskID: "t1", ContextID: "c", Metadata: map[string]any{"x": heavy, transport.MetaAgentID: "clock"},
			Status: a2a.TaskStatus{State: a2a.TaskStateWorking, Message: &a2a.Message{
				ID: "m", Role: a2a.MessageRoleAgent, Metadata: map[string]any{"x": heavy},
				Parts: a2a.ContentParts{a2a.NewTextPart("looking " + long[:1<<19]), a2a.NewDataPart(heavy)},
			}},
		},
		"context": {TaskID: "t1", ContextID: long, Status: a2a.TaskStatus{State: a2a.TaskStateWorking, Message: a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("looking xxx"))}},
		"role": {TaskID: "t1", ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateWorking, Message: &a2a.Message{
			ID: long, Role: a2a.MessageRole(long), Parts: a2a.ContentParts{a2a.NewTextPart("looking xxx")},
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := keeping(t, p)
			f.watch("t1", "clock")
			got := f.release("t1")
			if len(got) != 1 {
				t.Fatalf("%d events are released", len(got))
			}
			p := got[0].Payload.(*a2a.TaskStatusUpdateEvent)
			if text := transport.Text(p.Status.Message.Parts); !strings.HasPrefix(text, "looking xxx") || p.TaskID != "t1" || p.Status.State != a2a.TaskStateWorking {
				t.Errorf("%.200v says %.20q", p, text)
			}
			if e := got[0]; e.ID != "e" || e.From != "clock" || e.ContextID != "c" || e.TaskID != "t1" {
				t.Errorf("%.200v is released", e)
			}
		})
	}
	keeping(t, &a2a.TaskStatusUpdateEvent{TaskID: a2a.TaskID(long), ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateWorking}})
}

// keeping returns a filter that has kept p, as a transport delivers it, and checks how much that is.
func keeping(t *testing.T, p *a2a.TaskStatusUpdateEvent) *filter {
	t.Helper()
	kind, version, body, err := transport.EncodePayload(p)
	if err != nil {
		t.Fatal(err)
	}
	e := &transport.Event{ID: "e", From: "clock", ContextID: "c", TaskID: "t1"}
	if err := e.Decode(kind, version, body); err != nil {
		t.Fatal(err)
	}
	f := new(filter)
	if got := f.pass(e); len(got) != 0 || len(f.early) != 1 {
		t.Fatalf("%d events are shown, %d kept", len(got), len(f.early))
	}
	if n := weight(reflect.ValueOf(f.early)); n < len("looking") || n > 2*maxEarlyText {
		t.Errorf("%d bytes are kept", n)
	}
	return f
}

// weight returns about how many bytes v keeps in memory, also in fields that are not exported, which no encoding shows.
func weight(v reflect.Value) int {
	n := int(v.Type().Size())
	switch v.Kind() {
	case reflect.String:
		n += v.Len()
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			n += weight(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += weight(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			n += weight(v.Index(i))
		}
	case reflect.Map:
		for each := v.MapRange(); each.Next(); {
			n += weight(each.Key()) + weight(each.Value())
		}
	}
	return n
}
