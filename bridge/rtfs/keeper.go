package rtfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// keeper stores leases, one note each, so that they outlive the process. The zero value stores nothing.
type keeper struct {
	notes  storage.Notes // nil: the store cannot
	tenant string
	prefix string
	log    *slog.Logger
	told   int // leases that could not be read last time
}

func newKeeper(at *role.Site, prefix string) keeper {
	notes, _ := at.Store.(storage.Notes)
	return keeper{notes: notes, tenant: at.Tenant, prefix: prefix, log: at.Logger}
}

// put stores a lease in the place of old, or of what another replica has stored meanwhile.
func (k *keeper) put(ctx context.Context, l, old *lease) error {
	if k.notes == nil {
		return nil
	}
	value, err := json.Marshal(l)
	if err != nil {
		return err
	}
	n := storage.Note{Key: key(l.Card.AgentID), Value: value}
	if old != nil {
		n.Version = old.version
	}
	for try := 0; ; try++ {
		if l.version, err = k.notes.PutNote(ctx, k.tenant, storage.NoteLease, n); err == nil {
			return nil
		}
		if !errors.Is(err, storage.ErrConflict) || try == 3 {
			return fmt.Errorf("store the lease: %w", err)
		}
		is, err := k.notes.Note(ctx, k.tenant, storage.NoteLease, n.Key)
		if err != nil {
			return fmt.Errorf("store the lease: %w", err)
		}
		n.Version = is.Version
	}
}

// drop deletes the lease of an agent, and reports whether there was one.
func (k *keeper) drop(ctx context.Context, agentID string) (bool, error) {
	if k.notes == nil {
		return false, nil
	}
	n, err := k.notes.Note(ctx, k.tenant, storage.NoteLease, key(agentID))
	if err != nil || n.Version == 0 {
		return false, err
	}
	return true, k.notes.DeleteNote(ctx, k.tenant, storage.NoteLease, n.Key, 0)
}

// expire deletes a lease that has expired. If another one is stored, expire returns that.
func (k *keeper) expire(ctx context.Context, l *lease) (*lease, error) {
	if k.notes == nil {
		return nil, nil //nolint:nilnil // nothing is stored
	}
	err := k.notes.DeleteNote(ctx, k.tenant, storage.NoteLease, key(l.Card.AgentID), l.version)
	if !errors.Is(err, storage.ErrConflict) {
		return nil, err
	}
	n, err := k.notes.Note(ctx, k.tenant, storage.NoteLease, key(l.Card.AgentID))
	if err != nil || n.Version == 0 {
		return nil, err
	}
	return k.lease(&n)
}

// read returns the leases that are stored, by the agents' ids; nil if the store cannot store any. Those that are known are not read again, and it is said once that
// some cannot be read. It is called by one goroutine at a time.
func (k *keeper) read(ctx context.Context, known []*lease) (map[string]*lease, error) {
	if k.notes == nil {
		return nil, nil //nolint:nilnil // no leases
	}
	all, by := map[string]*lease{}, map[string]*lease{}
	for _, l := range known {
		by[key(l.Card.AgentID)] = l
	}
	unread, why := 0, error(nil)
	for n, err := range k.notes.Notes(ctx, k.tenant, storage.NoteLease) {
		if err != nil {
			return nil, err
		}
		l := by[n.Key]
		if l == nil || l.version != n.Version {
			if l, err = k.lease(&n); err != nil {
				unread, why = unread+1, err
				continue
			}
		}
		all[l.Card.AgentID] = l
	}
	if unread > k.told {
		k.log.Warn("registrations of RTFS agents cannot be read: they are left out", "n", unread, "err", why)
	}
	k.told = unread
	return all, nil
}

func (k *keeper) lease(n *storage.Note) (*lease, error) {
	l, err := readLease(n.Value, k.prefix)
	if err != nil {
		return nil, err
	}
	l.version = n.Version
	return l, nil
}
