package learn

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestWhatWaitsIsBounded checks that the memory is bounded while the store hangs: with many lessons about one agent, about as many agents, and with
// many changed notes.
func TestWhatWaitsIsBounded(t *testing.T) {
	const n = 10_000
	type store = storage.Notes // so that the field does not hide the method
	s := New(Config{Notes: struct{ store }{}, Router: router.New(nil), Logger: slog.New(slog.DiscardHandler)})
	for i := range n {
		s.offer("one", &lesson{learned: []router.Evidence{{ID: fmt.Sprint(i)}}})
	}
	if s.size != router.MaxEvidence {
		t.Errorf("%d lessons of one agent wait, want %d", s.size, router.MaxEvidence)
	}
	for i := range n {
		s.offer(fmt.Sprint(i), &lesson{wrong: []string{"x"}})
		s.Forget(&transport.Event{ID: fmt.Sprint(i)}, &transport.Forget{AgentID: fmt.Sprint(i)})
		s.Forget(&transport.Event{ID: fmt.Sprint(i), ContextID: fmt.Sprint(i)}, &transport.Forget{})
	}
	s.Forget(&transport.Event{ID: "e"}, &transport.Forget{AgentID: "no id"})
	sum := 0
	for _, p := range s.pending {
		sum += p.size()
	}
	if changed := len(s.changed) + len(s.erased); sum != maxLessons || changed != maxLessons {
		t.Errorf("%d lessons and %d changes wait, want %d of each", sum, changed, maxLessons)
	}
}
