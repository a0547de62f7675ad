package console

import (
	"reflect"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestShownIsSmall checks that what waits of live events for a browser is what it shows of them, and that what is needed to tell them apart stays.
func TestShownIsSmall(t *testing.T) {
	huge := strings.Repeat("x", 1<<19)
	long := a2a.ContentParts{a2a.NewTextPart(huge[:len(huge)-8]), a2a.NewTextPart("more")}
	working := a2a.TaskStatus{State: a2a.TaskStateWorking}
	for name, e := range map[string]*transport.Event{
		"answer":   {From: transport.Cortex, Payload: &a2a.Message{ID: "m", Role: a2a.MessageRoleAgent, Parts: long, Metadata: map[string]any{transport.MetaTurn: "turn", "more": huge}}},
		"task":     {Payload: &a2a.Task{ID: "task", Status: working, History: []*a2a.Message{{Parts: long}}, Artifacts: []*a2a.Artifact{{Parts: long}}}},
		"status":   {Payload: &a2a.TaskStatusUpdateEvent{TaskID: "task", Status: a2a.TaskStatus{State: a2a.TaskStateWorking, Message: &a2a.Message{Parts: long}}}},
		"artifact": {Payload: &a2a.TaskArtifactUpdateEvent{TaskID: "task", Artifact: &a2a.Artifact{ID: transport.TextArtifact, Name: huge, Parts: long}}},

		"long ids of a status":    {Payload: &a2a.TaskStatusUpdateEvent{TaskID: a2a.TaskID(huge), ContextID: huge, Status: working}},
		"long ids of an artifact": {Payload: &a2a.TaskArtifactUpdateEvent{TaskID: a2a.TaskID(huge), ContextID: huge, Artifact: &a2a.Artifact{ID: a2a.ArtifactID(huge), Parts: long}}},
		"long ids of a message": {Payload: &a2a.Message{
			ID: huge, ContextID: huge, Role: a2a.MessageRole(huge), Parts: long[1:], Metadata: map[string]any{transport.MetaTurn: huge, transport.MetaRequester: huge},
		}},
		"another's delta": {Payload: &transport.Delta{Turn: huge}},
		"a stranger's":    {Payload: &transport.Opaque{Kind: "strange", Version: "1", Data: []byte(huge)}},
	} {
		kind, version, body, err := transport.EncodePayload(e.Payload)
		if err != nil {
			t.Fatal(name, err)
		}
		if err := e.Decode(kind, version, body); err != nil {
			t.Fatal(name, err)
		}
		is, n := shown(e)
		if n > maxText+4*transport.MaxID || is.From != e.From {
			t.Errorf("%s: %d bytes of %s", name, n, is.From)
		}
		if _, again := shown(is); again != n {
			t.Errorf("%s: %d bytes are put and %d taken", name, n, again)
		}
		for f, v := range reflect.ValueOf(is).Elem().Fields() {
			if !f.IsExported() && !v.IsZero() {
				t.Errorf("%s: %s of the event is kept", name, f.Name)
			}
		}
		if is.Payload != nil {
			if _, _, kept, err := transport.EncodePayload(is.Payload); err != nil || int64(len(kept)) > n+1<<10 {
				t.Errorf("%s: %d bytes are kept and %d counted, %v", name, len(kept), n, err)
			}
		}
		if strings.Contains(name, " ") {
			continue
		}
		switch p := is.Payload.(type) {
		case *a2a.Message:
			if transport.MetaString(p, transport.MetaTurn) != "turn" || p.Role != a2a.MessageRoleAgent || len(p.Metadata) != 1 || len(transport.Text(p.Parts)) != maxText {
				t.Errorf("%s: %.300v", name, p)
			}
		case *a2a.TaskStatusUpdateEvent:
			if p.TaskID != "task" || len(transport.Text(p.Status.Message.Parts)) != maxLineBytes {
				t.Errorf("%s: %.300v", name, p)
			}
		case *a2a.TaskArtifactUpdateEvent:
			if p.TaskID != "task" || p.Artifact.ID != transport.TextArtifact || len(p.Artifact.Name) > maxText || len(transport.Text(p.Artifact.Parts)) != maxLineBytes {
				t.Errorf("%s: %.300v", name, p)
			}
		default:
			if p != nil || name != "task" { // that it came is enough
				t.Errorf("%s is %T", name, p)
			}
		}
	}
}
