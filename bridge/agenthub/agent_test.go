package agenthub

import (
	"context"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubtest"
)

// TestEcho has Cortex give work to an agent as echo_agent is one: by the name of its skill, with the artifact after the status.
func TestEcho(t *testing.T) {
	w := newWorld(t)
	w.serve()
	w.join(hubtest.Echo())
	if got := w.ask("c", "agent_echo: say it back"); got != "TASK_STATE_COMPLETED: Echo: say it back" {
		t.Errorf("the answer is %q", got)
	}
	r, _ := w.dir.Registry.Snapshot().Get("agent_echo")
	if s := r.Card.Skills[0]; s.ID != "echo-messages" || s.Name != "Echo Messages" {
		t.Errorf("the skill is %+v", s)
	}
	list, err := w.dial().ListTasks(t.Context(), &hubpb.ListTasksRequest{States: []hubpb.TaskState{hubpb.TaskState_TASK_STATE_COMPLETED}})
	if err != nil || len(list.Tasks) != 1 || len(list.Tasks[0].Artifacts) != 1 || list.Tasks[0].Metadata.Fields["task_type"].GetStringValue() != "Echo Messages" {
		t.Errorf("the book has %v, %v", list, err)
	}
}

// TestFailed checks that an agent that has no such skill fails, without the words that say nothing.
func TestFailed(t *testing.T) {
	w := newWorld(t)
	w.serve()
	a := hubtest.Echo()
	a.Skills[0].Do = func(context.Context, *hubpb.Task, *hubpb.Message) (hubpb.TaskState, *hubpb.Artifact) {
		return hubpb.TaskState_TASK_STATE_FAILED, nil
	}
	w.join(a)
	got := w.ask("c", "agent_echo: say it back")
	if !strings.Contains(got, "FAILED") || !strings.Contains(got, "no reason") || strings.Contains(got, doneWords) {
		t.Errorf("the answer is %q", got)
	}
}
