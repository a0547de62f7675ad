package cortex

import (
	"context"
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// snapshotEvery is the number of entries between two snapshots of a conversation.
const snapshotEvery = 64

// fold returns the fold of e's conversation; fresh says that it was loaded just now. It is taken out of the cache.
func (o *Orchestrator) fold(ctx context.Context, e *transport.Event) (conv *Conversation, fresh bool, err error) {
	if conv = o.cache.take(conversationKey{o.cfg.Tenant, e.ContextID}); conv != nil {
		return conv, false, nil
	}
	conv, err = Load(ctx, o.cfg.Store, o.cfg.Tenant, e.ContextID)
	return conv, true, err
}

// Load folds a conversation's log, from its newest snapshot where the store has some.
func Load(ctx context.Context, s Store, tenant, contextID string) (*Conversation, error) {
	if snaps, ok := s.(Snapshots); ok {
		// A snapshot that is missing or cannot be read costs time only.
		if v, b, err := snaps.Snapshot(ctx, tenant, contextID); err == nil && len(b) > 0 {
			if c, err := unmarshalConversation(b); err == nil && c.Version == v && c.ContextID == contextID {
				if err := catchUp(ctx, s, c); err != nil {
					return nil, err
				}
				return c, nil
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
			return fmt.Errorf("load %s: %w", conv.ContextID, err)
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

// idle returns why e changes nothing in the conversation, or "".
func (c *Conversation) idle(e *transport.Event) string {
	if _, ok := userMessage(e); ok {
		return ""
	}
	if r, ok := resultOf(e); ok {
		t := c.Tasks[r.TaskID]
		switch {
		case t == nil:
			return "unknown or finished task"
		case t.Agent != e.From:
			return "the task was given to " + t.Agent
		case t.SentSeq == 0:
			return "the task was not sent yet"
		case t.State.Terminal():
			return "second result"
		case !r.settles():
			return "progress belongs on the live topic"
		case t.State == a2a.TaskStateInputRequired && r.State == a2a.TaskStateInputRequired:
			return "the question was asked already"
		}
		return ""
	}
	switch p := e.Payload.(type) {
	case *transport.Deadline:
		if len(c.expired(p.At)) == 0 {
			return "deadline of a finished task"
		}
	case *transport.Cancel:
		return c.idleCancel(p)
	}
	return ""
}

func (c *Conversation) idleCancel(p *transport.Cancel) string {
	if p.TaskID != "" {
		if t := c.Tasks[p.TaskID]; t == nil || t.State.Terminal() {
			return "nothing to cancel: unknown or finished task"
		}
		return ""
	}
	for _, t := range c.Turns {
		if t.Open() && (p.Turn == "" || t.ID == p.Turn) {
			return ""
		}
	}
	if p.Turn == "" && len(c.Waiting()) > 0 {
		return ""
	}
	return "nothing to cancel"
}

// turnOf returns the turn that e belongs to, or "".
func (c *Conversation) turnOf(e *transport.Event) string {
	if _, ok := userMessage(e); ok {
		return e.ID
	}
	if r, ok := resultOf(e); ok {
		return c.Tasks[r.TaskID].Turn
	}
	switch p := e.Payload.(type) {
	case *transport.Deadline:
		return c.expired(p.At)[0].Turn
	case *transport.Cancel:
		if p.TaskID != "" {
			return c.Tasks[p.TaskID].Turn
		}
	}
	return ""
}
