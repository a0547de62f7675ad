package cortex_test

import (
	"context"
	"iter"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// mortalNotes is a mortalStore with notes.
type mortalNotes struct{ mortalStore }

func (s mortalNotes) notes() storage.Notes { return s.Store.(storage.Notes) }

func (s mortalNotes) Note(ctx context.Context, tenant, kind, key string) (n storage.Note, err error) {
	err = s.around(func() error {
		n, err = s.notes().Note(ctx, tenant, kind, key)
		return err
	})
	return n, err
}

func (s mortalNotes) Notes(ctx context.Context, tenant, kind string) iter.Seq2[storage.Note, error] {
	return s.notes().Notes(ctx, tenant, kind)
}

func (s mortalNotes) PutNote(ctx context.Context, tenant, kind string, n storage.Note) (v conversation.Version, err error) {
	err = s.around(func() error {
		v, err = s.notes().PutNote(ctx, tenant, kind, n)
		return err
	})
	return v, err
}

func (s mortalNotes) EraseNote(ctx context.Context, tenant, kind string, n storage.Note) (v conversation.Version, err error) {
	err = s.around(func() error {
		v, err = s.notes().EraseNote(ctx, tenant, kind, n)
		return err
	})
	return v, err
}

func (s mortalNotes) DeleteNote(ctx context.Context, tenant, kind, key string, version conversation.Version) error {
	return s.around(func() error { return s.notes().DeleteNote(ctx, tenant, kind, key, version) })
}
