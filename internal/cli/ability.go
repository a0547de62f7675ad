package cli

import (
	"context"
	"errors"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/directory"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Cortex's own transport and store can do more than every one has to. What a command needs of that is looked for here, and a command that
// does not find it says so.

// ability returns what a transport or a store can do beyond what each can, or an error that says what this one lacks.
func ability[T any](of any, lacks string) (T, error) {
	able, ok := of.(T)
	if !ok {
		return able, errors.New(lacks)
	}
	return able, nil
}

func (l *link) deadLetters() (transport.DeadLetters, error) {
	return ability[transport.DeadLetters](l.bus, "this transport keeps no dead letters: `cortex serve` logs what is given up")
}

// erasers returns what conversations are deleted from.
func (l *link) erasers() (erase.Store, erase.Bus, error) {
	store, err := ability[erase.Store](l.store, "this store cannot delete conversations")
	if err != nil {
		return nil, nil, err
	}
	bus, err := ability[erase.Bus](l.bus, "this transport cannot delete conversations: what waits in them would begin them anew")
	return store, bus, err
}

// healthy returns why the transport cannot publish and deliver now, or nil; also for one that does not know.
func (l *link) healthy(ctx context.Context) error {
	if h, ok := l.bus.(transport.Health); ok {
		return h.Healthy(ctx)
	}
	return nil
}

// keeper returns what remembers agents; nil when the store keeps no notes.
func (l *link) keeper() registry.Keeper {
	if notes, ok := l.store.(storage.Notes); ok {
		return directory.Keeper{Notes: notes, Tenant: l.tenant}
	}
	return nil
}

// recollection is keeper for registries that only look.
func (l *link) recollection() registry.Keeper {
	if notes, ok := l.store.(storage.Notes); ok {
		return recollection{directory.Keeper{Notes: notes, Tenant: l.tenant}}
	}
	return nil
}
