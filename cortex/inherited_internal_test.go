package cortex

import (
	"errors"
	"strconv"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
)

// TestInheritedBounded handles many conversations while the search comes to no end.
func TestInheritedBounded(t *testing.T) {
	h := newInherited()
	for n := range maxSeen + 10 {
		h.drop(conversation.Key{ContextID: strconv.Itoa(n)})
	}
	h.end(errors.New("away"))
	if last := (conversation.Key{ContextID: strconv.Itoa(maxSeen + 9)}); len(h.seen) > maxSeen || h.lacks(last) {
		t.Errorf("%d are kept, at most %d are allowed; the last one is among them: %v", len(h.seen), maxSeen, !h.lacks(last))
	}
}
