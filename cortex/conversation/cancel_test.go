package conversation_test

import (
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestLongReasonOfAnOldLog cancels a task with a reason that is longer than transports take, as logs may have it: the agent is told to stop nevertheless.
func TestLongReasonOfAnOldLog(t *testing.T) {
	s := newScript(t)
	s.apply(says("user", "m1", "go"), gives("alpha"))
	x := says("user", "x1", "")
	x.Payload = &transport.Cancel{TaskID: s.conv.Running()[0].ID, Reason: strings.Repeat("é", transport.MaxCancelReason)}
	s.apply(x, nil)
	for _, out := range s.conv.Effects(s.conv.Seq) {
		if stop, ok := out.Event.Payload.(*transport.Cancel); ok {
			if err := out.Event.Validate(out.Topic); err != nil || !strings.HasSuffix(stop.Reason, "é…") {
				t.Errorf("the agent is told to stop with %d bytes: %v", len(stop.Reason), err)
			}
			return
		}
	}
	t.Error("the agent is not told to stop")
}

// TestCanceledQuestionIsTold cancels a task that waits for the reply to its question: its agent is told, which may keep something for it.
func TestCanceledQuestionIsTold(t *testing.T) {
	s := newScript(t)
	task := s.asks("user", "alpha", "m1")
	x := says("user", "x1", "")
	x.Payload = &transport.Cancel{TaskID: task}
	s.apply(x, nil)
	for _, out := range s.conv.Effects(s.conv.Seq) {
		if stop, ok := out.Event.Payload.(*transport.Cancel); ok && out.Topic == transport.Control("", "alpha") && stop.TaskID == task {
			return
		}
	}
	t.Error("the agent is not told")
}
