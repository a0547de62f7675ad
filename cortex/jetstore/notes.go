package jetstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/transport"
)

// markersFor is how long the server remembers that a note was deleted, so that names which come and go do not add up.
const markersFor = time.Hour

func noteKey(tenant, kind, key string) string { return shelf(tenant, kind) + transport.Escape(key) }

// shelf is what the keys of a kind begin with.
func shelf(tenant, kind string) string {
	return transport.Escape(tenant) + "." + transport.Escape(kind) + "."
}

// Note implements [cortex.Notes]. On several replicas it may be what it was a moment ago.
func (s *Store) Note(ctx context.Context, tenant, kind, key string) (cortex.Note, error) {
	kv, err := s.notes.Get(ctx, noteKey(tenant, kind, key))
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return cortex.Note{Key: key}, nil
	case err != nil:
		return cortex.Note{}, fmt.Errorf("note of %s %q: %w", kind, key, away(ctx, err))
	}
	return cortex.Note{Key: key, Value: kv.Value(), Version: cortex.Version(kv.Revision())}, nil
}

// Notes implements [cortex.Notes].
func (s *Store) Notes(ctx context.Context, tenant, kind string) iter.Seq2[cortex.Note, error] {
	return func(yield func(cortex.Note, error) bool) {
		failed := func(err error) { yield(cortex.Note{}, fmt.Errorf("notes of %s: %w", kind, away(ctx, err))) }
		if err := ctx.Err(); err != nil {
			failed(err)
			return
		}
		w, err := s.notes.Watch(ctx, shelf(tenant, kind)+"*", jetstream.IgnoreDeletes())
		if err != nil {
			failed(err)
			return
		}
		defer w.Stop() //nolint:errcheck // nothing is left to do with it
		for {
			select {
			case <-ctx.Done():
				failed(ctx.Err())
				return
			case kv, ok := <-w.Updates():
				if !ok {
					failed(fmt.Errorf("%w: the watch ended", transport.ErrUnavailable))
					return
				}
				if kv == nil { // that is all
					return
				}
				key, err := transport.Unescape(kv.Key()[strings.LastIndexByte(kv.Key(), '.')+1:])
				if err != nil {
					continue // nothing that PutNote wrote
				}
				if !yield(cortex.Note{Key: key, Value: kv.Value(), Version: cortex.Version(kv.Revision())}, nil) {
					return
				}
			}
		}
	}
}

// PutNote implements [cortex.Notes].
func (s *Store) PutNote(ctx context.Context, tenant, kind string, n cortex.Note) (cortex.Version, error) {
	if len(n.Value) > cortex.MaxNote {
		return 0, fmt.Errorf("put note of %s %q: %w: %d bytes, at most %d are allowed", kind, n.Key, transport.ErrTooLarge, len(n.Value), cortex.MaxNote)
	}
	if err := transport.CheckID(n.Key); err != nil {
		return 0, fmt.Errorf("put note of %s: %w: key %w", kind, transport.ErrInvalid, err)
	}
	var revision uint64
	var err error
	if key := noteKey(tenant, kind, n.Key); n.Version == 0 {
		revision, err = s.notes.Create(ctx, key, n.Value)
	} else {
		revision, err = s.notes.Update(ctx, key, n.Value, uint64(n.Version))
	}
	switch {
	case errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return 0, fmt.Errorf("put note of %s %q at version %d: %w: %w", kind, n.Key, n.Version, cortex.ErrConflict, err)
	case err != nil:
		return 0, fmt.Errorf("put note of %s %q: %w", kind, n.Key, away(ctx, err))
	}
	return cortex.Version(revision), nil
}

// DeleteNote implements [cortex.Notes].
func (s *Store) DeleteNote(ctx context.Context, tenant, kind, key string) error {
	k := noteKey(tenant, kind, key)
	if _, err := s.notes.Get(ctx, k); errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil // no marker for what was never there
	}
	if err := s.notes.Purge(ctx, k, jetstream.PurgeTTL(markersFor)); err != nil {
		return fmt.Errorf("delete note of %s %q: %w", kind, key, away(ctx, err))
	}
	return nil
}
