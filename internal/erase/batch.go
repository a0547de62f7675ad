package erase

import (
	"context"
	"maps"
	"strings"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// Batch deletes conversations of a tenant one after the other. It remembers the notes beside conversations, so that all are listed once for a batch, and
// then those that are new. It is for one goroutine, and a short time.
type Batch struct {
	Store  Store
	Bus    Bus
	Tenant string

	beside map[string]map[beside]struct{}  // by conversation
	listed map[string]conversation.Version // by kind, see [storage.NewNotes]
}

// beside is a note that says where events of a conversation are sent.
type beside struct{ kind, key string }

// eraseLog erases the log of a conversation, and then what says where its events are sent: nobody adds to that when the log is gone.
func (b *Batch) eraseLog(ctx context.Context, contextID string) error {
	notes, ok := b.Store.(storage.Notes)
	if !ok {
		return b.Store.Erase(ctx, b.Tenant, contextID)
	}
	if err := b.list(ctx, notes); err != nil {
		return err
	}
	all := maps.Clone(b.beside[contextID]) // listed before a new conversation with this id can have some
	if err := b.Store.Erase(ctx, b.Tenant, contextID); err != nil {
		return err
	}
	for n := range all {
		if err := notes.DeleteNote(ctx, b.Tenant, n.kind, n.key, 0); err != nil {
			return err
		}
	}
	delete(b.beside, contextID)
	return nil
}

// list lists the notes beside conversations that are new since the last call; all of them, if the store cannot tell.
func (b *Batch) list(ctx context.Context, notes storage.Notes) error {
	if b.beside == nil {
		b.beside, b.listed = map[string]map[beside]struct{}{}, map[string]conversation.Version{}
	}
	for _, kind := range []string{storage.NotePush, storage.NoteReply, storage.NoteSent} {
		keys, now, err := newNotes(ctx, notes, b.Tenant, kind, b.listed[kind])
		if err != nil {
			return err
		}
		b.listed[kind] = now
		for _, key := range keys {
			i := strings.LastIndexByte(key, '.')
			if i < 0 {
				continue
			}
			of := b.beside[key[:i]]
			if of == nil {
				of = map[beside]struct{}{}
				b.beside[key[:i]] = of
			}
			of[beside{kind, key}] = struct{}{}
		}
	}
	return nil
}

func newNotes(ctx context.Context, notes storage.Notes, tenant, kind string, since conversation.Version) (keys []string, now conversation.Version, err error) {
	if s, ok := notes.(storage.NewNotes); ok {
		return s.NewNotes(ctx, tenant, kind, since)
	}
	for n, err := range notes.Notes(ctx, tenant, kind) {
		if err != nil {
			return nil, 0, err
		}
		keys = append(keys, n.Key)
	}
	return keys, 0, nil
}
