package cortex

import (
	"context"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Fold returns a snapshot of the fold that o has in its cache for a conversation; nil when it has none.
func (o *Orchestrator) Fold(contextID string) ([]byte, error) {
	f := o.folds.Take(conversation.Key{Tenant: o.cfg.Tenant, ContextID: contextID})
	if f == nil {
		return nil, nil
	}
	defer o.folds.Put(f)
	return f.Snapshot()
}

// KeepRefusal stores that a message in the conversation c1 was refused.
func (o *Orchestrator) KeepRefusal(ctx context.Context, from, id string) error {
	return o.refusals.Keep(ctx, o.cfg.Store.(storage.Notes), o.cfg.Tenant, &transport.Event{ContextID: "c1", From: from, ID: id}, "no", o.cfg.Now())
}

// GivenUp is called by the transport before e becomes a dead letter.
func (o *Orchestrator) GivenUp(ctx context.Context, e *transport.Event, reason error) error {
	return o.givenUp(ctx, e, reason)
}
