package directory_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/directory"
)

// hasty is a store in which another process is faster once.
type hasty struct {
	*memstore.Store
	once bool
}

func (h *hasty) PutNote(ctx context.Context, tenant, kind string, n storage.Note) (conversation.Version, error) {
	if !h.once {
		h.once = true
		first := n
		first.Value = []byte("of another")
		if _, err := h.Store.PutNote(ctx, tenant, kind, first); err != nil {
			return 0, err
		}
	}
	return h.Store.PutNote(ctx, tenant, kind, n)
}

// TestKeeper checks that Load returns what was saved last for its tenant, despite concurrent writers.
func TestKeeper(t *testing.T) {
	store := memstore.New()
	k := directory.Keeper{Notes: &hasty{Store: store}, Tenant: "t"}
	other := directory.Keeper{Notes: store, Tenant: "other"}
	for _, step := range []error{
		k.Save(t.Context(), "anna", []byte("1")), k.Save(t.Context(), "anna", []byte("2")), k.Save(t.Context(), "bert", []byte("3")),
		other.Save(t.Context(), "carl", []byte("4")), k.Delete(t.Context(), "bert"),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	got := map[string]string{}
	for kept, err := range k.Load(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got[kept.ID] = string(kept.Data)
	}
	if diff := cmp.Diff(map[string]string{"anna": "2"}, got); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}
