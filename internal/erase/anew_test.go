package erase_test

import (
	"context"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// anew is a store in which a conversation begins again as soon as its log is erased.
type anew struct{ *memstore.Store }

func (s anew) Erase(ctx context.Context, tenant, contextID string) error {
	if err := s.Store.Erase(ctx, tenant, contextID); err != nil {
		return err
	}
	_, err := s.PutNote(ctx, tenant, storage.NotePush, storage.Note{Key: contextID + ".new", Value: []byte("{}")})
	return err
}

// TestNewPushNoteStays checks that what says where the events of a new conversation go is not deleted with the old one of the same id.
func TestNewPushNoteStays(t *testing.T) {
	store, bus := anew{memstore.New()}, memory.New(nil)
	defer bus.Close()
	if _, err := store.PutNote(t.Context(), "", storage.NotePush, storage.Note{Key: "demo.old", Value: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if _, err := erase.Conversation(t.Context(), store, bus, "", "demo"); err != nil {
		t.Fatal(err)
	}
	var left []string
	for n, err := range store.Notes(t.Context(), "", storage.NotePush) {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, n.Key)
	}
	if len(left) != 1 || left[0] != "demo.new" {
		t.Errorf("%q are left, want demo.new", left)
	}
}
