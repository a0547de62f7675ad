package console

import (
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestShownIsSmall checks that what waits of live events for a browser is what it shows of them, and that what is needed to tell them apart stays.
func TestShownIsSmall(t *testing.T) {
	long := a2a.ContentParts{a2a.NewTextPart(strings.Repeat("x", 1<<20)), a2a.NewTextPart("more")}
	for name, e := range map[string]*transport.Event{
		"answer":   {From: transport.Cortex, Payload: &a2a.Message{ID: "m", Role: a2a.MessageRoleAgent, Parts: long, Metadata: map[string]any{transport.MetaTurn: "turn", "more": strings.Repeat("x", 1<<20)}}},
		"task":     {Payload: &a2a.Task{ID: "task", History: []*a2a.Message{{Parts: long}}, Artifacts: []*a2a.Artifact{{Parts: long}}}},
		"status":   {Payload: &a2a.TaskStatusUpdateEvent{TaskID: "task", Status: a2a.TaskStatus{Message: &a2a.Message{Parts: long}}}},
		"artifact": {Payload: &a2a.TaskArtifactUpdateEvent{TaskID: "task", Artifact: &a2a.Artifact{ID: transport.TextArtifact, Name: strings.Repeat("x", 1<<20), Parts: long}}},
	} {
		is, n := shown(e)
		if n > maxText || is.From != e.From {
			t.Errorf("%s: %d bytes of %s", name, n, is.From)
		}
		if _, again := shown(is); again != n {
			t.Errorf("%s: %d bytes are put and %d taken", name, n, again)
		}
		switch p := is.Payload.(type) {
		case *a2a.Message:
			if transport.MetaString(p, transport.MetaTurn) != "turn" || p.Role != a2a.MessageRoleAgent || len(p.Metadata) != 1 || len(transport.Text(p.Parts)) != maxText {
				t.Errorf("%s: %.300v", name, p)
			}
		case *a2a.Task:
			if p.ID != "task" || p.History != nil || p.Artifacts != nil {
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
			t.Errorf("%s is %T", name, p)
		}
	}
}
