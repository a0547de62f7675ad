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

// Cortex's own transport and store have abilities beyond the interfaces that every transport and store implements. The functions below look for the
// ones that commands need; a command whose transport or store lacks one reports that.

// ability returns of as a T, an optional interface of a transport or a store, or an error with the text lacks when it does not implement T.
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

// erasers returns the store and the transport that conversations are deleted from, or an error when one of them cannot delete.
func (l *link) erasers() (erase.Store, erase.Bus, error) {
	store, err := ability[erase.Store](l.store, "this store cannot delete conversations")
	if err != nil {
		return nil, nil, err
	}
	bus, err := ability[erase.Bus](l.bus, "this transport cannot delete conversations: what waits in them would begin them anew")
	return store, bus, err
}

// healthy returns why the transport cannot publish and deliver now, or nil. It returns nil also for a transport without health checks.
func (l *link) healthy(ctx context.Context) error {
	if h, ok := l.bus.(transport.Health); ok {
		return h.Healthy(ctx)
	}
	return nil
}

// keeper returns where the registry stores known agents; nil when the store keeps no notes.
func (l *link) keeper() registry.Keeper {
	if notes, ok := l.store.(storage.Notes); ok {
		return directory.Keeper{Notes: notes, Tenant: l.tenant}
	}
	return nil
}

// recollection returns a read-only keeper, for registries that only observe.
func (l *link) recollection() registry.Keeper {
	if notes, ok := l.store.(storage.Notes); ok {
		return recollection{directory.Keeper{Notes: notes, Tenant: l.tenant}}
	}
	return nil
}
