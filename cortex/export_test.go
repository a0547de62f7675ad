package cortex

import (
	"context"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Fold returns the fold of a conversation that o has in its cache, as a snapshot; nil when it has none.
func (o *Orchestrator) Fold(contextID string) ([]byte, error) {
	o.cache.mu.Lock()
	defer o.cache.mu.Unlock()
	el := o.cache.byKey[conversation.Key{Tenant: o.cfg.Tenant, ContextID: contextID}]
	if el == nil {
		return nil, nil
	}
	return el.Value.(*loaded).Snapshot()
}

// Unstored is what an Orchestrator keeps of entries that could not be stored.
type Unstored = unstored

// NewUnstored returns an empty Unstored.
func NewUnstored() *Unstored { return newUnstored() }

// Put keeps an entry.
func (u *Unstored) Put(contextID string, after conversation.Version, e *conversation.Entry, now time.Time) {
	u.put(conversation.NewConversation("", contextID), after, e, now)
}

// Full reports whether there is no room.
func (u *Unstored) Full(now time.Time) bool { return u.full(now) }

// Len is how many entries are kept.
func (u *Unstored) Len() int { return u.order.Len() }

// KeepRefusal notes that a message in the conversation c1 was refused.
func (o *Orchestrator) KeepRefusal(ctx context.Context, from, id string) error {
	return storage.KeepRefusal(ctx, o.cfg.Store.(storage.Notes), o.cfg.Tenant, &transport.Event{ContextID: "c1", From: from, ID: id}, "no", o.cfg.Now())
}

// GivenUp is what the transport calls before e becomes a dead letter.
func (o *Orchestrator) GivenUp(ctx context.Context, e *transport.Event, reason error) error {
	return o.givenUp(ctx, e, reason)
}
