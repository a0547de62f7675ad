package rockbot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
)

// How long tasks of callers are remembered.
const (
	answeredFor = 24 * time.Hour
	openFor     = 7 * 24 * time.Hour // with a question
	forgetEach  = time.Hour
)

// find returns a task that is known, or nil.
func (as *asks) find(ctx context.Context, key string) (*ask, error) {
	as.mu.Lock()
	q := as.open[key]
	as.mu.Unlock()
	if q != nil {
		return q, nil
	}
	n, err := as.notes.Note(ctx, as.b.at.Tenant, storage.NoteReply, key)
	if err != nil || n.Version == 0 {
		return nil, err
	}
	return readAsk(&n), nil
}

// readAsk reads a note; nil if it is of another bridge, or another version.
func readAsk(n *storage.Note) *ask {
	q := &ask{version: n.Version}
	if json.Unmarshal(n.Value, q) != nil || len(q.Rounds) == 0 || q.Task == "" || q.key() != n.Key {
		return nil
	}
	return q
}

// store writes a task's note.
func (as *asks) store(ctx context.Context, q *ask) error {
	for try := 0; ; try++ {
		value, err := json.Marshal(q)
		if err != nil {
			return err
		}
		v, err := as.notes.PutNote(ctx, as.b.at.Tenant, storage.NoteReply, storage.Note{Key: q.key(), Value: value, Version: q.version})
		if err == nil {
			q.version = v
			return nil
		}
		if !errors.Is(err, storage.ErrConflict) || try == 3 {
			return fmt.Errorf("note the task: %w", err)
		}
		n, err := as.notes.Note(ctx, as.b.at.Tenant, storage.NoteReply, q.key())
		if err != nil {
			return fmt.Errorf("note the task: %w", err)
		}
		q.version = n.Version
	}
}

// undo takes the newest message of a task out of its note, so that it can be sent again: what it replies to is a question as before, and of a task that begins with it
// nothing is noted.
func (as *asks) undo(ctx context.Context, q *ask) error {
	if n := len(q.Rounds) - 1; n > 0 {
		was := *q
		was.Rounds, was.Asked, was.Answered = q.Rounds[:n], true, true
		return as.store(ctx, &was)
	}
	return as.notes.DeleteNote(ctx, as.b.at.Tenant, storage.NoteReply, q.key(), 0)
}

// forget forgets tasks that were answered a while ago, until ctx ends.
func (as *asks) forget(ctx context.Context) error {
	for {
		as.sweep(ctx, as.b.now())
		if err := rest.For(ctx, forgetEach); err != nil {
			return err
		}
	}
}

func (as *asks) sweep(ctx context.Context, now time.Time) {
	var old []string
	for n, err := range as.notes.Notes(ctx, as.b.at.Tenant, storage.NoteReply) {
		if err != nil {
			return // again in an hour
		}
		if q := readAsk(&n); q != nil && (q.Answered && !q.Asked && now.Sub(q.At) > answeredFor || now.Sub(q.At) > openFor) {
			old = append(old, n.Key)
		}
	}
	for _, key := range old {
		if err := as.notes.DeleteNote(ctx, as.b.at.Tenant, storage.NoteReply, key, 0); err != nil && ctx.Err() == nil {
			as.b.at.Logger.Warn("the note of a task is still stored", "err", err)
		}
	}
}
