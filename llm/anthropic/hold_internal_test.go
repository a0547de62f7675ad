package anthropic

import (
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
)

// TestHeldBound holds back text without end: little more is kept than a decision may have.
func TestHeldBound(t *testing.T) {
	a := new(answer)
	for range 3 {
		a.hold(strings.Repeat("a", llm.MaxDecision*3/4))
	}
	if got := len(a.rest()); got != llm.MaxDecision+1 {
		t.Errorf("%d bytes are held, want %d", got, llm.MaxDecision+1)
	}
}
