package torture

import (
	"context"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// hasty reports false conflicts: at the second entry before storing it, at the third after that.
type hasty struct {
	storage.Store
	calls int
}

func (h *hasty) Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error) {
	h.calls++
	if h.calls == 2 {
		return 0, storage.ErrConflict
	}
	v, err := h.Store.Append(ctx, tenant, contextID, after, e)
	if h.calls == 4 && err == nil {
		return 0, storage.ErrConflict
	}
	return v, err
}

// TestLengthenConflicts lengthens a conversation although the server reports false conflicts.
func TestLengthenConflicts(t *testing.T) {
	const entries = 5
	s := &hasty{Store: memstore.New()}
	if err := lengthen(t.Context(), s, "long-0", entries); err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range s.Load(t.Context(), "", "long-0", 0) {
		if n++; err != nil || e.Seq != uint64(n) {
			t.Fatalf("entry %d is %v, %v", n, e, err)
		}
	}
	if n != entries {
		t.Errorf("%d entries, want %d", n, entries)
	}
}
