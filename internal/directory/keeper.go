package directory

import (
	"context"
	"errors"
	"iter"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// Keeper stores a registry's records as notes of a store.
type Keeper struct {
	Notes  storage.Notes
	Tenant string
}

var _ registry.Keeper = Keeper{}

// Load implements [registry.Keeper].
func (k Keeper) Load(ctx context.Context) iter.Seq2[registry.AgentNote, error] {
	return func(yield func(registry.AgentNote, error) bool) {
		for n, err := range k.Notes.Notes(ctx, k.Tenant, storage.NoteAgent) {
			if !yield(registry.AgentNote{ID: n.Key, Data: n.Value}, err) || err != nil {
				return
			}
		}
	}
}

// Save implements [registry.Keeper].
func (k Keeper) Save(ctx context.Context, id string, data []byte) error {
	for {
		n, err := k.Notes.Note(ctx, k.Tenant, storage.NoteAgent, id)
		if err != nil {
			return err
		}
		n.Value = data
		if _, err = k.Notes.PutNote(ctx, k.Tenant, storage.NoteAgent, n); !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
}

// Delete implements [registry.Keeper].
func (k Keeper) Delete(ctx context.Context, id string) error {
	return k.Notes.DeleteNote(ctx, k.Tenant, storage.NoteAgent, id, 0)
}
