package memstore

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

type (
	shelf struct{ tenant, kind string }
	note  struct {
		version conversation.Version
		value   []byte
	}
)

// Note implements [storage.Notes].
func (s *Store) Note(ctx context.Context, tenant, kind, key string) (storage.Note, error) {
	if err := ctx.Err(); err != nil {
		return storage.Note{}, fmt.Errorf("note of %s %q: %w", kind, key, err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := s.notes[shelf{tenant, kind}][key]
	return storage.Note{Key: key, Value: slices.Clone(n.value), Version: n.version}, nil
}

// Notes implements [storage.Notes]. It yields the notes as they were when the iteration began.
func (s *Store) Notes(ctx context.Context, tenant, kind string) iter.Seq2[storage.Note, error] {
	return func(yield func(storage.Note, error) bool) {
		s.mu.RLock()
		all := maps.Clone(s.notes[shelf{tenant, kind}])
		s.mu.RUnlock()
		for key, n := range all {
			if err := ctx.Err(); err != nil {
				yield(storage.Note{}, fmt.Errorf("notes of %s: %w", kind, err))
				return
			}
			if !yield(storage.Note{Key: key, Value: slices.Clone(n.value), Version: n.version}, nil) {
				return
			}
		}
	}
}

// NewNotes implements [storage.NewNotes].
func (s *Store) NewNotes(ctx context.Context, tenant, kind string, since conversation.Version) ([]string, conversation.Version, error) {
	if err := ctx.Err(); err != nil {
		return nil, since, fmt.Errorf("new notes of %s: %w", kind, err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var keys []string
	for key, n := range s.notes[shelf{tenant, kind}] {
		if n.version > since {
			keys = append(keys, key)
		}
	}
	return keys, s.last, nil
}

// PutNote implements [storage.Notes].
func (s *Store) PutNote(ctx context.Context, tenant, kind string, n storage.Note) (conversation.Version, error) {
	switch err := ctx.Err(); {
	case err != nil:
		return 0, fmt.Errorf("put note of %s %q: %w", kind, n.Key, err)
	case len(n.Value) > storage.MaxNote:
		return 0, fmt.Errorf("put note of %s %q: %w: %d bytes, at most %d are allowed", kind, n.Key, transport.ErrTooLarge, len(n.Value), storage.MaxNote)
	}
	if err := transport.CheckID(n.Key); err != nil {
		return 0, fmt.Errorf("put note of %s: %w: key %w", kind, transport.ErrInvalid, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := shelf{tenant, kind}
	if is := s.notes[k][n.Key].version; is != n.Version {
		return 0, fmt.Errorf("put note of %s %q at version %d, it is %d: %w", kind, n.Key, n.Version, is, storage.ErrConflict)
	}
	if s.notes[k] == nil {
		s.notes[k] = map[string]note{}
	}
	s.last++
	s.notes[k][n.Key] = note{s.last, slices.Clone(n.Value)}
	return s.last, nil
}

// EraseNote implements [storage.Notes].
func (s *Store) EraseNote(ctx context.Context, tenant, kind string, n storage.Note) (conversation.Version, error) {
	return s.PutNote(ctx, tenant, kind, n) // the previous value is stored nowhere else
}

// DeleteNote implements [storage.Notes].
func (s *Store) DeleteNote(ctx context.Context, tenant, kind, key string, version conversation.Version) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete note of %s %q: %w", kind, key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if is, ok := s.notes[shelf{tenant, kind}][key]; ok && version != 0 && is.version != version {
		return fmt.Errorf("delete note of %s %q: %w: it has version %d", kind, key, storage.ErrConflict, is.version)
	}
	delete(s.notes[shelf{tenant, kind}], key)
	return nil
}
