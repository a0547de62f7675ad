package jetstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

const (
	// maxOrphans bounds how many outlines of missing conversations one list drops.
	maxOrphans = 64
	// staleTimeout bounds how long the first append of a conversation waits for dropStale.
	staleTimeout = time.Second
)

var _ storage.Outlines = (*Store)(nil)

// PutOutline implements [storage.Outlines]. An outline is a note, and sealed, so that it can be erased.
func (s *Store) PutOutline(ctx context.Context, tenant, contextID string, o storage.Outline) error {
	if err := s.putOutline(ctx, tenant, contextID, o); err != nil {
		return fmt.Errorf("put outline of %q: %w", contextID, away(ctx, err))
	}
	return nil
}

func (s *Store) putOutline(ctx context.Context, tenant, contextID string, o storage.Outline) error {
	if !s.seals {
		return errSealed
	}
	n := storage.Note{Key: contextID}
	switch known, found := s.ring.find(noteKey(tenant, storage.NoteOutline, contextID), s.epoch()); {
	case found && known.absent():
	case found && o.Whole() && o.Title != "": // nothing of the one before is needed
		n.Version = conversation.Version(known.revision)
	default:
		var err error
		if n, err = s.Note(ctx, tenant, storage.NoteOutline, contextID); err != nil {
			return err
		}
	}
	was, ok := readOutline(n)
	switch {
	case ok && was.Version == o.Version && (was.Whole() || !o.Whole()):
		return nil
	case o.Title != "":
	case ok && was.Life == o.Life && (was.Title != "" || was.Entries >= titleDepth):
		o.Title = was.Title
	default:
		var err error
		if o.Title, err = s.title(ctx, subjectOf(tenant, contextID)); err != nil {
			return err
		}
	}
	var err error
	if n.Value, err = json.Marshal(o); err != nil {
		return err
	}
	_, err = s.PutNote(ctx, tenant, storage.NoteOutline, n)
	if errors.Is(err, storage.ErrConflict) {
		return nil
	}
	if err != nil {
		return err
	}
	// Erase deletes the outline after the log. If it did so before this put, the entry is gone by now.
	m, err := s.getFromLeader(ctx, Stream, msgGet{Seq: uint64(o.Version)})
	if err != nil || m.seq == uint64(o.Version) && m.subject == subjectOf(tenant, contextID) {
		return err
	}
	return s.DeleteNote(ctx, tenant, storage.NoteOutline, contextID, 0)
}

// dropStale deletes an existing outline while a conversation begins: the outline belongs to an erased conversation with the same id, left by a
// process that was killed during the erasure, and would be taken for the new one's as soon as the new log has as many entries. The returned
// function waits until that is done. An outline is a cache: an error delays or fails nothing.
func (s *Store) dropStale(ctx context.Context, subj string) (wait func()) {
	tenant, contextID, err := conversationOf(subj)
	if err != nil || !s.seals {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(ctx, staleTimeout)
		defer cancel()
		at, epoch := noteKey(tenant, storage.NoteOutline, contextID), s.epoch()
		m, err := s.request(ctx, s.reads, "DIRECT.GET.", notesStream+"."+notesSubject+at, nil)
		switch {
		case err != nil:
		case m.Header.Get("Status") == "404": // the first outline need not look again
			s.ring.keep(at, epoch, cachedKey{})
		case m.Header.Get("Status") == "" && !isMarker(m.Header):
			err = s.DeleteNote(ctx, tenant, storage.NoteOutline, contextID, 0)
		}
		if err != nil {
			s.log.Debug("outline of an erased conversation not looked for", "context_id", contextID, "err", err)
		}
	}()
	return func() { <-done }
}

// readOutline decodes what putOutline stored.
func readOutline(n storage.Note) (*storage.Outline, bool) {
	o := &storage.Outline{}
	err := json.Unmarshal(n.Value, o)
	return o, err == nil && o.Version > 0 && o.Entries > 0
}

// outlines returns the readable outlines of a tenant's conversations by their ids.
func (s *Store) outlines(ctx context.Context, tenant string) map[string]*storage.Outline {
	all := map[string]*storage.Outline{}
	for n, err := range s.Notes(ctx, tenant, storage.NoteOutline) {
		if err != nil {
			s.log.Warn("outlines of conversations cannot be read: a list reads their logs", "err", err)
			break
		}
		if o, ok := readOutline(n); ok {
			s.outlived(n.Key, n.Version, o.Version)
			all[n.Key] = o
		}
	}
	return all
}

// dropOutlines deletes outlines of conversations that no longer exist, which a process that was killed during an erasure may have left. The next
// list repeats what fails.
func (s *Store) dropOutlines(ctx context.Context, tenant string, kept map[string]*storage.Outline) {
	if !s.seals {
		return
	}
	dropped := 0
	for id := range kept {
		if dropped++; dropped > maxOrphans {
			return
		}
		last, err := s.lastOf(ctx, subjectOf(tenant, id))
		if err == nil && last == 0 {
			err = s.DeleteNote(ctx, tenant, storage.NoteOutline, id, 0)
		}
		if err != nil {
			s.log.Debug("outline of a conversation that is no more not deleted", "context_id", id, "err", err)
			return
		}
	}
}
