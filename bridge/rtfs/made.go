package rtfs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
)

// How long calls are remembered.
const (
	madeFor  = 10 * time.Minute // after they have ended: their results are stored by then
	lostFor  = 24 * time.Hour   // when Cortex was killed meanwhile
	madeEach = time.Minute      // between two looks at those that have ended
	lostEach = time.Hour
)

// made has the calls that were made, or are about to be, in notes: after a kill, the transport does not know for certain that a task was delivered before.
type made struct {
	at    *role.Site
	notes storage.Notes // nil: the store cannot

	mu    sync.Mutex
	ended []ended // in the order of their times
}

// ended is a call that has ended.
type ended struct {
	key string
	at  time.Time
}

func newMade(at *role.Site) *made {
	notes, _ := at.Store.(storage.Notes)
	return &made{at: at, notes: notes}
}

// callKey is the same for a task that is delivered again, and another one for its next attempt.
func callKey(t *agents.Task) string { return space.ID("call", t.ContextID, string(t.ID), t.Message.ID) }

// begin notes that the agent is about to be called for a task. It returns false if it perhaps was before.
func (m *made) begin(ctx context.Context, t *agents.Task) (first bool, err error) {
	if m.notes == nil {
		return t.Delivery <= 1, nil
	}
	value, err := m.at.Client.Clock().UTC().MarshalText()
	if err != nil {
		return false, err
	}
	_, err = m.notes.PutNote(ctx, m.at.Tenant, storage.NoteCall, storage.Note{Key: callKey(t), Value: value})
	if errors.Is(err, storage.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// end notes that the call has ended. It is forgotten a while later, since the task may be delivered again until its result is stored.
func (m *made) end(t *agents.Task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = append(m.ended, ended{callKey(t), m.at.Client.Clock()})
}

// run forgets calls until ctx ends.
func (m *made) run(ctx context.Context) error {
	if m.notes == nil {
		return nil
	}
	var next time.Time
	for {
		if now := m.at.Client.Clock(); m.at.Leads() && !now.Before(next) {
			next = now.Add(lostEach)
			m.forgetLost(ctx, now)
		}
		m.forget(ctx, m.at.Client.Clock())
		if err := rest.For(ctx, madeEach); err != nil {
			return err
		}
	}
}

// forget forgets the calls that ended a while ago.
func (m *made) forget(ctx context.Context, now time.Time) {
	for ctx.Err() == nil {
		m.mu.Lock()
		if len(m.ended) == 0 || now.Sub(m.ended[0].at) < madeFor {
			m.mu.Unlock()
			return
		}
		key := m.ended[0].key
		m.ended = m.ended[1:]
		m.mu.Unlock()
		m.drop(ctx, key)
	}
}

// forgetLost forgets the calls whose end no process has noted.
func (m *made) forgetLost(ctx context.Context, now time.Time) {
	var old []string
	var damaged []storage.Note
	for n, err := range m.notes.Notes(ctx, m.at.Tenant, storage.NoteCall) {
		if err != nil {
			return // again in an hour
		}
		var at time.Time
		switch {
		case at.UnmarshalText(n.Value) != nil:
			damaged = append(damaged, n)
		case now.Sub(at) > lostFor:
			old = append(old, n.Key)
		}
	}
	for _, n := range damaged { // that a note is there says that the agent was perhaps called, whatever is in it
		value, err := now.UTC().MarshalText()
		if n.Value = value; err == nil {
			_, err = m.notes.PutNote(ctx, m.at.Tenant, storage.NoteCall, n)
		}
		m.at.Logger.Warn("the note of a call cannot be read: it counts as made now", "key", n.Key)
		if err != nil && ctx.Err() == nil {
			m.at.Logger.Warn("the note of a call is still damaged", "err", err)
		}
	}
	for _, key := range old {
		m.drop(ctx, key)
	}
}

func (m *made) drop(ctx context.Context, key string) {
	if err := m.notes.DeleteNote(ctx, m.at.Tenant, storage.NoteCall, key, 0); err != nil && ctx.Err() == nil {
		m.at.Logger.Warn("the note of a call is still stored", "err", err)
	}
}
