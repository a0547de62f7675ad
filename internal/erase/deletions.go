package erase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// deletion is the note of a deletion that has begun. The log is erased last entry first, so a process that is killed in between leaves the
// beginning of a conversation, whose turn is then open again.
type deletion struct {
	notes     storage.Notes // nil: nothing is noted
	tenant    string
	contextID string
	Last      conversation.Version `json:"last"` // what it deletes ends there
}

// begin notes that the entries of a conversation up to last are being deleted.
func begin(ctx context.Context, store Store, tenant, contextID string, last conversation.Version) (deletion, error) {
	d := deletion{tenant: tenant, contextID: contextID, Last: last}
	notes, ok := store.(storage.Notes)
	if !ok || last == 0 {
		return d, nil
	}
	d.notes = notes
	value, err := json.Marshal(d)
	if err != nil {
		return d, err
	}
	old, err := notes.Note(ctx, tenant, storage.NoteDeletion, contextID)
	if err != nil {
		return d, err
	}
	_, err = notes.PutNote(ctx, tenant, storage.NoteDeletion, storage.Note{Key: contextID, Value: value, Version: old.Version})
	if errors.Is(err, storage.ErrConflict) {
		return d, nil // another process that deletes it has noted it
	}
	return d, err
}

// end removes the note.
func (d deletion) end(ctx context.Context) error {
	if d.notes == nil {
		return nil
	}
	if err := d.notes.DeleteNote(ctx, d.tenant, storage.NoteDeletion, d.contextID, 0); err != nil {
		return fmt.Errorf("the note of its deletion is not removed: %w", err)
	}
	return nil
}

// Deletions finishes the deletions whose process was killed or could not go on. It is for one goroutine.
type Deletions struct {
	Store  Store
	Bus    Bus
	Tenant string

	seen map[string]conversation.Version // versions of the notes in the last call
}

// Finish deletes what is left of the conversations whose deletion had begun before the previous call and has not ended since, and returns their ids.
// A conversation that somebody has written to since its deletion began is kept, and its id is in wentOn: only its owner knows whether the new words
// are to be deleted too.
func (d *Deletions) Finish(ctx context.Context) (deleted, wentOn []string, err error) {
	notes, ok := d.Store.(storage.Notes)
	if !ok {
		return nil, nil, nil
	}
	seen := map[string]conversation.Version{}
	var begun []deletion
	for n, err := range notes.Notes(ctx, d.Tenant, storage.NoteDeletion) {
		if err != nil {
			return nil, nil, err
		}
		seen[n.Key] = n.Version
		del := deletion{notes: notes, tenant: d.Tenant, contextID: n.Key}
		if d.seen[n.Key] != n.Version || json.Unmarshal(n.Value, &del) != nil {
			continue // its process may be at work, or is a newer version
		}
		begun = append(begun, del)
	}
	d.seen = seen
	var errs []error
	batch := &Batch{Store: d.Store, Bus: d.Bus, Tenant: d.Tenant}
	for _, del := range begun {
		on, err := d.finish(ctx, batch, del)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("conversation %q: %w", del.contextID, err))
		case on:
			wentOn = append(wentOn, del.contextID)
		default:
			deleted = append(deleted, del.contextID)
		}
	}
	return deleted, wentOn, errors.Join(errs...)
}

// finish deletes what is left of a conversation, unless it went on since.
func (d *Deletions) finish(ctx context.Context, batch *Batch, del deletion) (wentOn bool, err error) {
	left := false
	for e, err := range d.Store.Load(ctx, d.Tenant, del.contextID, 0) {
		if errors.Is(err, conversation.ErrDamaged) { // nothing is added behind a gap, but it may have gone on before there was one
			end, err := endOf(ctx, d.Store, d.Tenant, del.contextID)
			if err != nil {
				return false, err
			}
			if end > del.Last {
				return true, del.end(ctx)
			}
			left = true
			break
		}
		if err != nil {
			return false, err
		}
		if e.Version > del.Last {
			return true, del.end(ctx)
		}
		left = true
	}
	if left {
		_, err = batch.Conversation(ctx, del.contextID)
		return false, err
	}
	// The log is erased after the bus, where only a new conversation with this id can have messages.
	if err := batch.eraseLog(ctx, del.contextID); err != nil {
		return false, err
	}
	return false, del.end(ctx)
}
