package cli

import (
	"context"
	"errors"
	"iter"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
)

// noteAgent is the kind of the notes by which a Cortex remembers whom it knew.
const noteAgent = "agent"

// keeper keeps what the registry wants to remember as notes of the store.
type keeper struct {
	notes  cortex.Notes
	tenant string
}

var _ registry.Keeper = keeper{}

// Load implements [registry.Keeper].
func (k keeper) Load(ctx context.Context) iter.Seq2[registry.Kept, error] {
	return func(yield func(registry.Kept, error) bool) {
		for n, err := range k.notes.Notes(ctx, k.tenant, noteAgent) {
			if !yield(registry.Kept{ID: n.Key, Data: n.Value}, err) || err != nil {
				return
			}
		}
	}
}

// Save implements [registry.Keeper].
func (k keeper) Save(ctx context.Context, id string, data []byte) error {
	for {
		n, err := k.notes.Note(ctx, k.tenant, noteAgent, id)
		if err != nil {
			return err
		}
		n.Value = data
		if _, err = k.notes.PutNote(ctx, k.tenant, noteAgent, n); !errors.Is(err, cortex.ErrConflict) {
			return err
		}
	}
}

// Delete implements [registry.Keeper].
func (k keeper) Delete(ctx context.Context, id string) error {
	return k.notes.DeleteNote(ctx, k.tenant, noteAgent, id)
}
