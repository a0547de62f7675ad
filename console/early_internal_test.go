package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestEarlyProgress has an agent tell of its task before the log has it: a browser is told when it has, by whoever has the task, and once.
func TestEarlyProgress(t *testing.T) {
	out := httptest.NewRecorder()
	s := &stream{w: out, control: http.NewResponseController(out), turns: view.NewTurns("", "x", view.Keep{}), early: map[string]progressEvent{}}
	say := func(from, text string) {
		if err := s.progress(&transport.Event{From: from}, "task", text); err != nil {
			t.Fatal(err)
		}
	}
	say("worker", "begins")
	say("worker", "half way")
	say("evil", "lies")
	s.turns.Conversation.Tasks["task"] = &conversation.Task{ID: "task", Agent: "worker"}
	for range 2 {
		if err := s.tellEarly(); err != nil {
			t.Fatal(err)
		}
	}
	say("evil", "lies")
	if text := out.Body.String(); strings.Count(text, "event: ") != 1 || !strings.Contains(text, "half way") {
		t.Errorf("it is sent\n%s", text)
	}
	for i := range 2 * maxEarly {
		if err := s.progress(&transport.Event{From: strings.Repeat("a", i+1)}, "none", "hello"); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.early) > maxEarly {
		t.Errorf("%d agents are remembered", len(s.early))
	}
}
