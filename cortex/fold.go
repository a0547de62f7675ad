package cortex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// snapshotEvery is the number of entries between two snapshots of a conversation. To fold so many takes a few milliseconds; to write
// a snapshot of a long conversation takes as much as some turns.
const snapshotEvery = 256

// fold returns the fold of e's conversation; fresh says that it was loaded just now. It is taken out of the cache.
func (o *Orchestrator) fold(ctx context.Context, e *transport.Event) (conv *Conversation, fresh bool, err error) {
	conv = o.cache.take(conversationKey{o.cfg.Tenant, e.ContextID})
	if conv != nil && conv.epoch == e.Epoch {
		return conv, false, nil
	}
	if conv != nil {
		caught, err := refresh(ctx, o.cfg.Store, conv)
		if err != nil {
			o.cache.put(conv) // under its own epoch, so that it is asked for again
			return nil, false, err
		}
		conv = caught
	}
	if conv == nil {
		if conv, err = Load(ctx, o.cfg.Store, o.cfg.Tenant, e.ContextID); err != nil {
			return nil, false, err
		}
	}
	conv.epoch = e.Epoch
	o.track(conv)
	return conv, true, nil
}

// refresh returns conv with what the log has gained since: under another epoch others may have handled the conversation, and to read only
// that is much less work than to read all of it, for many conversations at the same time. It returns nil when the log does not have
// the last entry of conv any more, or what follows does not fit: it was erased, or has lost its end. With an error conv is as good as before.
func refresh(ctx context.Context, s Store, conv *Conversation) (*Conversation, error) {
	if conv.Version == 0 || conv.at.IsZero() {
		return nil, nil
	}
	stands := false
	for entry, err := range s.Load(ctx, conv.Tenant, conv.ContextID, conv.Version-1) {
		switch {
		case errors.Is(err, ErrDamaged):
			return nil, nil // the whole log tells more
		case err != nil:
			return nil, transport.Temporary(fmt.Errorf("load %s: %w", conv.ContextID, err))
		case stands:
			if err := conv.Apply(entry); err != nil {
				return nil, nil
			}
		case !conv.endsWith(entry):
			return nil, nil
		}
		stands = true
	}
	if !stands {
		return nil, nil
	}
	conv.timer = time.Time{} // others may have let it fire
	return conv, nil
}

// endsWith reports whether e is the last entry applied. After a power cut another one may have its version.
func (c *Conversation) endsWith(e *Entry) bool {
	if e.Cause == nil || e.Version != c.Version || e.Seq != c.Seq || !e.Time.Equal(c.at) {
		return false
	}
	seq, ok := c.SeenEntry(e.Cause)
	return ok && seq == c.Seq
}

// Load folds a conversation's log, from its newest snapshot where the store has some.
func Load(ctx context.Context, s Store, tenant, contextID string) (*Conversation, error) {
	if snaps, ok := s.(Snapshots); ok {
		// A snapshot that is missing or cannot be read costs time only.
		if v, b, err := snaps.Snapshot(ctx, tenant, contextID); err == nil && len(b) > 0 {
			if c, err := unmarshalConversation(b); err == nil && c.Version == v && c.ContextID == contextID {
				if err := catchUp(ctx, s, c); err == nil {
					return c, nil
				}
				// It may be of another log: the whole one decides.
			}
		}
	}
	return loadLog(ctx, s, tenant, contextID)
}

// loadLog folds the whole log.
func loadLog(ctx context.Context, s Store, tenant, contextID string) (*Conversation, error) {
	conv := NewConversation(tenant, contextID)
	if err := catchUp(ctx, s, conv); err != nil {
		return nil, err
	}
	return conv, nil
}

// catchUp applies the entries that conv lacks.
func catchUp(ctx context.Context, s Store, conv *Conversation) error {
	for entry, err := range s.Load(ctx, conv.Tenant, conv.ContextID, conv.Version) {
		if err != nil {
			return transport.Temporary(fmt.Errorf("load %s: %w", conv.ContextID, err)) // unless the store says that it is for good
		}
		if err := conv.Apply(entry); err != nil {
			return err
		}
	}
	return nil
}

// keep puts conv back into the cache, and now and then beside the log.
func (o *Orchestrator) keep(ctx context.Context, conv *Conversation) {
	if snaps, ok := o.cfg.Store.(Snapshots); ok && conv.Seq%snapshotEvery == 0 {
		if err := PutSnapshot(ctx, snaps, conv); err != nil {
			o.log.Warn("snapshot not written", "context_id", conv.ContextID, "err", err)
		}
	}
	o.cache.put(conv)
}

// PutSnapshot keeps conv beside its log, so that a later Load has only what came after it to fold.
func PutSnapshot(ctx context.Context, s Snapshots, conv *Conversation) error {
	b, err := conv.marshal()
	if err != nil {
		return err
	}
	return s.PutSnapshot(ctx, conv.Tenant, conv.ContextID, conv.Version, b)
}

// idle returns why e changes nothing in the conversation at time now, or "".
func (c *Conversation) idle(e *transport.Event, now time.Time) string {
	if _, ok := userMessage(e); ok {
		return ""
	}
	if r, ok := resultOf(e); ok {
		t := c.Tasks[r.TaskID]
		switch {
		case t == nil:
			return "unknown or finished task"
		case t.Agent != e.From && e.From != transport.Cortex: // which says of a task that it cannot be sent
			return t.notFrom(e.From)
		case speaksFor(e) != "" && speaksFor(e) != t.Agent:
			return t.notFrom(speaksFor(e))
		case t.State == a2a.TaskStateAuthRequired:
			return "the task waits for the user's yes"
		case t.SentSeq == 0:
			return "the task was not sent yet"
		case t.State.Terminal():
			return "second result"
		case r.State == a2a.TaskStateWorking && t.Running() && t.moves(now):
			return ""
		case !r.settles():
			return "progress that moves no deadline belongs on the live topic"
		case r.State.Terminal() && r.State != a2a.TaskStateCompleted && c.gaveUp(t, e):
			return "an attempt at the task failed that was given up before"
		case t.State == a2a.TaskStateInputRequired && r.State == a2a.TaskStateInputRequired:
			return "the question was asked already"
		}
		return ""
	}
	switch p := e.Payload.(type) {
	case *transport.Deadline:
		if len(c.expired(p, now)) == 0 && c.told(e) == nil {
			return "deadline of a finished task"
		}
	case *transport.Cancel:
		return c.idleCancel(e.From, p)
	case *transport.Share:
		switch {
		case c.Seq == 0:
			return "nobody has begun this conversation"
		case slices.Equal(c.Shared, c.sharedAfter(p)):
			return "it is shared so already"
		}
	case *transport.AgentEvent:
		if len(c.left(p.AgentID)) == 0 {
			return "the agent that has gone had no task"
		}
	}
	return ""
}

func (c *Conversation) idleCancel(from string, p *transport.Cancel) string {
	if p.TaskID != "" {
		t := c.Tasks[p.TaskID]
		if t == nil || t.State.Terminal() {
			return "nothing to cancel: unknown or finished task"
		}
		if turn := c.turn(t.Turn); !mayCancel(from, "") && (turn == nil || !mayCancel(from, turn.From)) {
			return "an agent cancels what it did not ask for"
		}
		return ""
	}
	for _, t := range c.Turns {
		if t.Open() && (p.Turn == "" || t.ID == p.Turn) && mayCancel(from, t.From) {
			return ""
		}
	}
	if p.Turn == "" && mayCancel(from, "") && len(c.Waiting())+len(c.Asked()) > 0 {
		return ""
	}
	return "nothing to cancel"
}

// mayCancel reports whether a sender may cancel a turn that owner began: people may, whoever runs Cortex, and an agent its own.
func mayCancel(sender, owner string) bool {
	return !isAgent(sender) || sender == transport.Cortex || sender == owner
}

// turnOf returns the turn that e, which is not idle, belongs to, or "".
func (c *Conversation) turnOf(e *transport.Event, now time.Time) string {
	if _, ok := userMessage(e); ok {
		return transport.TurnID(c.Tenant, c.ContextID, e.From, e.ID)
	}
	if r, ok := resultOf(e); ok {
		return c.Tasks[r.TaskID].Turn
	}
	switch p := e.Payload.(type) {
	case *transport.Deadline:
		if told := c.told(e); told != nil {
			return told.ID
		}
		return c.expired(p, now)[0].Turn
	case *transport.Cancel:
		if p.TaskID != "" {
			return c.Tasks[p.TaskID].Turn
		}
	}
	return ""
}
