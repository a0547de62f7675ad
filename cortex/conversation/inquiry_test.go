package conversation_test

import (
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestStop has agents ask whether a task is still wanted: as long as it waits for the reply to its agent's question, and when it was canceled.
func TestStop(t *testing.T) {
	s := newScript(t)
	task := s.asks("user", "alpha", "m1")
	asks := func(agent string, state a2a.TaskState) *transport.Event {
		e := says(agent, "q-"+agent, "")
		e.Payload = &a2a.TaskStatusUpdateEvent{TaskID: task, Status: a2a.TaskStatus{State: state}}
		return e
	}
	stops := func(e *transport.Event) bool {
		t.Helper()
		if plan := s.conv.Plan(e, e.Time, false); plan.Do != conversation.Ignore {
			t.Errorf("it is more than a question: %+v", plan)
		}
		out, ok := s.conv.Stop(e, time.Now())
		if !ok {
			return false
		}
		stop, is := out.Event.Payload.(*transport.Cancel)
		if !is || out.Topic != transport.Control("", e.From) || stop.TaskID != task || out.Event.From != transport.Cortex {
			t.Errorf("the answer: %+v", out)
		}
		return true
	}
	if stops(asks("alpha", a2a.TaskStateSubmitted)) {
		t.Error("a task is stopped that waits for a reply")
	}
	if !stops(asks("beta", a2a.TaskStateSubmitted)) {
		t.Error("an agent goes on with another's task")
	}
	x := says("user", "x1", "")
	x.Payload = &transport.Cancel{TaskID: task}
	s.apply(x, nil)
	for _, when := range []string{"at first", "later"} {
		if !stops(asks("alpha", a2a.TaskStateSubmitted)) {
			t.Errorf("%s, an agent goes on with a task that was canceled", when)
		}
		if when == "at first" {
			s.asks("user", "alpha", "m2") // the task is not remembered any more
		}
	}
	for _, state := range []a2a.TaskState{a2a.TaskStateWorking, a2a.TaskStateCompleted} {
		if _, ok := s.conv.Stop(asks("alpha", state), time.Now()); ok {
			t.Errorf("%s is taken for a question", state)
		}
	}
	if _, ok := s.conv.Stop(asks("user", a2a.TaskStateSubmitted), time.Now()); ok {
		t.Error("a person is taken for an agent")
	}
}
