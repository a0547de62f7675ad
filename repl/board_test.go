package repl

import (
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client/clienttest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestBoardTellsWhatWaits checks that a task that waits for the user's consent is not shown as a question of its agent.
func TestBoardTellsWhatWaits(t *testing.T) {
	for state, want := range map[a2a.TaskState]string{
		a2a.TaskStateAuthRequired:  "? payer  waits for your yes",
		a2a.TaskStateInputRequired: "? payer  asks",
	} {
		b := board{now: time.Now}
		u := &a2a.TaskStatusUpdateEvent{TaskID: "t", Status: a2a.TaskStatus{State: state}, Metadata: map[string]any{transport.MetaAgentID: "payer"}}
		if got := b.settled(u, 80, "").line; got != want {
			t.Errorf("%s is shown as %q, want %q", state, got, want)
		}
	}
}

// TestBoardTellsWhoTriesAgain checks that a retried task is shown as the other agent's from then on, on one line.
func TestBoardTellsWhoTriesAgain(t *testing.T) {
	b := board{now: time.Now}
	task := &a2a.Task{ID: "t", Metadata: map[string]any{transport.MetaAgentID: "weather", transport.MetaTurn: "turn"}}
	again := clienttest.StatusUpdate("c", "t", a2a.TaskStateSubmitted, "weather2 instead of weather: no\nresult within 5s\x1b[31m")
	again.Metadata = map[string]any{transport.MetaAgentID: "weather2", transport.MetaTurn: "turn", transport.MetaAttempt: 2}
	b.started(task)
	if got, want := b.settled(again, 80, "").line, "↻ weather2 instead of weather: no result within 5s"; got != want {
		t.Errorf("line = %q, want %q", got, want)
	}
	if got, want := b.settled(again, 30, "").line, "↻ weather2 instead of…"; got != want {
		t.Errorf("narrow line = %q, want %q", got, want)
	}
	done := clienttest.StatusUpdate("c", "t", a2a.TaskStateCompleted, "sunny")
	if got, want := b.settled(done, 80, "").line, "✓ weather2  0.0 s"; got != want || len(b.open) != 0 {
		t.Errorf("in the end %q and %d open, want %q", got, len(b.open), want)
	}
}

// TestBoardTellsWhoDoesNotRun checks that a task of an agent that does not run is shown as waiting, until the agent runs.
func TestBoardTellsWhoDoesNotRun(t *testing.T) {
	p := newPresence()
	b := board{now: time.Now, runs: p.has}
	d := b.started(&a2a.Task{
		ID: "t", Metadata: map[string]any{transport.MetaAgentID: "research"}, History: []*a2a.Message{a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("tea"))},
	})
	if got, want := d.line(d.start, 80, ""), "· research  does not run, waits: tea  0.0 s"; got != want {
		t.Errorf("line = %q, want %q", got, want)
	}
	p.apply(&transport.Event{Payload: clienttest.Card("research", "1", "Searches")})
	if got, want := d.line(d.start, 80, ""), "· research  tea  0.0 s"; got != want {
		t.Errorf("line = %q, want %q", got, want)
	}
}
