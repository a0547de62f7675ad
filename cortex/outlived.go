package cortex

import (
	"context"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/cache"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// clocksApart is by how much the clock of Cortex may be behind the one that the transport dates events with, so that a conversation that began anew
// is known to be younger than an event of its deleted namesake.
const clocksApart = time.Minute

// atOnce is how long a decision takes at most that leaves no more time for a deletion than the append behind it.
const atOnce = 10 * time.Millisecond

const textOutlived = "This was said before the conversation was deleted, so it is not answered. If it is new, say it again."

// outlived returns a text when e is a message of a conversation that was deleted since it was stored, or "". A NATS server that was killed may deliver
// again what was acknowledged before; in the log of a living conversation such a message is found, and that of a deleted one is gone.
//
// The mark of a deletion is read once for a fold whose conversation has a log: a later deletion erases that, so the entry conflicts and the conversation is
// loaded again.
func (o *Orchestrator) outlived(ctx context.Context, conv *cache.Fold, e *transport.Event) (why string, err error) {
	if _, ok := transport.Request(e); !ok || e.Stored.IsZero() {
		return "", nil // only a message begins anything
	}
	if conv.Seq != 0 && e.Stored.After(conv.Began.Add(clocksApart)) {
		return "", nil
	}
	erased := conv.Erased
	if erased == nil {
		at, err := storage.ErasedAt(ctx, o.cfg.Store, o.cfg.Tenant, e.ContextID)
		if err != nil {
			return "", err
		}
		if erased = &at; conv.Version != 0 {
			conv.Erased = erased
		}
	}
	if e.Stored.After(*erased) {
		return "", nil
	}
	now, err := storage.Now(ctx, o.cfg.Store)
	if err != nil {
		return "", transport.Temporary(err)
	}
	if now = now.Add(clocksApart); erased.After(now) && !e.Stored.After(now) {
		return "", nil // a clock that was ahead dated the deletion, and was set right: otherwise nothing could be said until that time comes
	}
	o.log.WarnContext(ctx, "the conversation of a message was deleted since: nothing is done", "context_id", e.ContextID, "from", e.From,
		"stored", e.Stored, "deleted", *erased)
	return textOutlived, nil
}

// erasedMeanwhile returns an error that wraps [storage.ErrConflict] when the conversation that entry begins was deleted while it was decided: without a log
// there is nothing that its append could conflict with.
func (o *Orchestrator) erasedMeanwhile(ctx context.Context, conv *cache.Fold, entry *conversation.Entry) error {
	if entry.Seq != 1 || o.now().Sub(entry.Time) < atOnce {
		return nil
	}
	why, err := o.outlived(ctx, conv, entry.Cause)
	if err == nil && why != "" {
		return fmt.Errorf("conversation %s was deleted: %w", conv.ContextID, storage.ErrConflict)
	}
	return err
}
