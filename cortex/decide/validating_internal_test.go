package decide

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestSchemasHavePlaces has a result wait for its place while those to check schemas are taken, however short it is, and leave it behind the check.
func TestSchemasHavePlaces(t *testing.T) {
	m := New(Config{Logger: slog.New(slog.DiscardHandler), Now: time.Now, Spending: new(budget.Spending)})
	conv := conversation.NewConversation("", "c1")
	conv.Tasks["t1"] = &conversation.Task{ID: "t1", Agent: "alpha", Terms: conversation.Terms{Output: json.RawMessage(`{"type":"object"}`)}}
	e := &transport.Event{From: "alpha", ContextID: "c1", TaskID: "t1", Payload: &a2a.Task{ID: "t1", ContextID: "c1", Status: a2a.TaskStatus{
		State: a2a.TaskStateCompleted, Message: &a2a.Message{Parts: a2a.ContentParts{a2a.NewTextPart("words")}},
	}}}
	var taken []func()
	for range m.validating.most {
		leave, _, err := m.validating.enter(t.Context(), "user:mallory", e, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, leave)
	}
	var place Place
	if _, err := m.Reject(conv, e, &place); !errors.Is(err, ErrWaits) {
		t.Errorf("Reject while all places are taken = %v, want ErrWaits", err)
	}
	for _, leave := range taken {
		leave()
	}
	if err := place.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if why, err := m.Reject(conv, e, &place); err != nil || !strings.Contains(why, "it is not JSON") {
		t.Errorf("Reject = %q, %v", why, err)
	}
	if n := m.validating.undecided; n != 0 {
		t.Errorf("%d places are taken behind it", n)
	}
}

// TestUnvalidatedResultsCount has short results of one person wait for their schemas: they are too much at last, and those of others are not.
func TestUnvalidatedResultsCount(t *testing.T) {
	m := New(Config{Logger: slog.New(slog.DiscardHandler), Now: time.Now, Spending: new(budget.Spending)})
	e := &transport.Event{Payload: &transport.Share{}}
	n := 0
	for ; !m.uncheckedOf("user:mallory") && n < transport.DefaultConcurrency; n++ {
		if _, err := m.validating.ask("user:mallory", e, 0, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if want := maxUndecided * oneShare / (oneShare + 1); n != want {
		t.Errorf("%d results wait before it is too much, want %d", n, want)
	}
	if m.uncheckedOf("user:ada") {
		t.Error("others have too much as well")
	}
}
