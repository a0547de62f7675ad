package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestEarlyProgress has an agent tell of two tasks before the log has them: a browser is told of each when it has, by whoever has the task, and once.
func TestEarlyProgress(t *testing.T) {
	out := httptest.NewRecorder()
	turns := view.NewTurns("", "x", view.Keep{})
	s := &stream{w: out, control: http.NewResponseController(out), reading: &reading{turns: turns}}
	say := func(from string, task a2a.TaskID, text string) {
		if err := s.progress(&transport.Event{From: from}, task, text); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 * maxEarly { // of tasks that nobody has: they take no place of those of others
		say("evil", a2a.TaskID(fmt.Sprint("none", i)), "lies")
	}
	say("worker", "task", "begins")
	say("worker", "task", "half way")
	say("worker", "other", "of another task")
	say("evil", "task", "lies")
	for range 2 * maxEarly {
		say("evil", "more", "lies")
	}
	if n := s.early.Len(); n > maxEarly {
		t.Errorf("%d tasks are remembered", n)
	}
	var tasks []view.Task
	for _, id := range []a2a.TaskID{"task", "other"} {
		turns.Conversation.Tasks[id] = &conversation.Task{ID: id, Agent: "worker"}
		tasks = append(tasks, view.Task{TaskID: id, Agent: "worker"})
	}
	for range 2 {
		if err := s.tellEarly(tasks); err != nil {
			t.Fatal(err)
		}
	}
	say("evil", "task", "lies")
	if text := out.Body.String(); strings.Count(text, "event: ") != 2 || !strings.Contains(text, "half way") || !strings.Contains(text, "of another task") {
		t.Errorf("it is sent\n%s", text)
	}
}
