package erase_test

import (
	"context"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// frozen is the store and the bus of a process that is frozen once, in the middle of a deletion. Meanwhile does what others do.
type frozen struct {
	*memstore.Store
	at        string // "note" or "bus"
	meanwhile func()
	cleared   int // times that the bus was erased
}

func (f *frozen) freeze(at string) {
	if f.at == at {
		f.at = ""
		f.meanwhile()
	}
}

func (f *frozen) PutNote(ctx context.Context, tenant, kind string, n storage.Note) (conversation.Version, error) {
	f.freeze("note")
	return f.Store.PutNote(ctx, tenant, kind, n)
}

// frozenBus is the bus of frozen.
type frozenBus struct {
	*memory.Bus
	of *frozen
}

func (b frozenBus) Erase(ctx context.Context, tenant, contextID string) error {
	b.of.freeze("bus")
	b.of.cleared++
	return b.Bus.Erase(ctx, tenant, contextID)
}

// TestFrozen checks that a process that was frozen while it deleted a conversation leaves alone the one that was begun with the same id after another
// process had deleted it.
func TestFrozen(t *testing.T) {
	for at, cleared := range map[string]int{"note": 0, "bus": 1} {
		t.Run(at, func(t *testing.T) {
			ctx, store, bus := t.Context(), memstore.New(), memory.New(nil)
			defer bus.Close()
			begin := func(id string) conversation.Version {
				t.Helper()
				v, err := store.Append(ctx, "", "demo", 0, &conversation.Entry{Seq: 1, Cause: &transport.Event{
					ID: id, From: "user", ContextID: "demo", Payload: &a2a.Message{ID: id, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("x")}},
				}})
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			begin("old")
			anew := conversation.Version(0)
			f := &frozen{Store: store, at: at, meanwhile: func() {
				if _, err := erase.Conversation(ctx, store, bus, "", "demo"); err != nil {
					t.Fatal(err)
				}
				anew = begin("new")
			}}
			if _, err := erase.Conversation(ctx, f, frozenBus{bus, f}, "", "demo"); err != nil {
				t.Fatal(err)
			}
			if f.cleared != cleared {
				t.Errorf("the bus was erased %d times, want %d", f.cleared, cleared)
			}
			left := conversation.Version(0)
			for e, err := range store.Load(ctx, "", "demo", 0) {
				if err != nil {
					t.Fatal(err)
				}
				left = e.Version
			}
			if left != anew || anew == 0 {
				t.Errorf("the new conversation ends at %d, want %d", left, anew)
			}
			for n, err := range store.Notes(ctx, "", storage.NoteDeletion) {
				t.Errorf("a note is left: %s, %v", n.Key, err)
			}
		})
	}
}
