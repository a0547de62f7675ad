package conversation_test

import (
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Each kind of decision has in Finish the effect that package llm documents: it answers, or gives out a task.
func TestKindsHaveEffects(t *testing.T) {
	for _, kind := range llm.Kinds() {
		s := newScript(t)
		d := &llm.Decision{Kind: kind, Say: "said"}
		if !kind.Answers() {
			d.Delegations = []llm.Delegation{{ID: "1", Agent: "echo", Task: "work"}}
		}
		e := s.apply(says("ann", "m1", "please"), d)
		turn := s.conv.Turn(e.Turn)
		if got := !turn.Open(); got != kind.Answers() {
			t.Errorf("a decision of kind %q answers the turn: %t, want %t", kind, got, kind.Answers())
		}
		if turn.Open() && !s.conv.Outstanding(turn) {
			t.Errorf("a decision of kind %q leaves a turn open that waits for nothing", kind)
		}
		if !turn.Open() && turn.Kind != kind {
			t.Errorf("a turn answered by kind %q has kind %q", kind, turn.Kind)
		}
	}
}
