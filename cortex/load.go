package cortex

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/cache"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// load returns e's conversation, which it takes out of the cache. One that was read under this epoch stands for the log, unless somebody
// else has appended to it or erased it.
func (o *Orchestrator) load(ctx context.Context, e *transport.Event) (*cache.Fold, error) {
	conv := o.folds.Take(conversation.Key{Tenant: o.cfg.Tenant, ContextID: e.ContextID})
	if conv != nil && conv.Epoch == e.Epoch {
		return conv, nil
	}
	return o.reload(ctx, e, conv)
}

// reload returns conv, e's conversation, with what the log has gained since it was read; all of it is read when conv is nil, or does
// not stand for a beginning of the log.
func (o *Orchestrator) reload(ctx context.Context, e *transport.Event, conv *cache.Fold) (*cache.Fold, error) {
	if conv != nil {
		stands, err := refresh(ctx, o.cfg.Store, conv.Conversation)
		if err != nil {
			o.folds.Put(conv) // under its own epoch, so that it is asked for again
			return nil, err
		}
		if !stands {
			conv = nil
		}
	}
	if conv == nil {
		c, err := storage.Load(ctx, o.cfg.Store, o.cfg.Tenant, e.ContextID)
		if err != nil {
			return nil, err
		}
		conv = &cache.Fold{Conversation: c}
	}
	if conv.Epoch != e.Epoch {
		conv.Timer = time.Time{} // others may have let it fire
	}
	conv.Epoch, conv.Fresh = e.Epoch, true
	o.maker.Track(conv.Conversation)
	return conv, nil
}

// refresh applies to conv what the log has gained since: under another epoch others may have handled the conversation, and to read only
// that is much less work than to read all of it, for many conversations at the same time. It reports false when the log does not have
// the last entry of conv any more, or what follows does not fit: it was erased, or has lost its end. With an error conv is as good as before.
func refresh(ctx context.Context, s storage.Store, conv *conversation.Conversation) (stands bool, err error) {
	if conv.Version == 0 || conv.Undated() {
		return false, nil
	}
	for entry, err := range s.Load(ctx, conv.Tenant, conv.ContextID, conv.Version-1) {
		switch {
		case errors.Is(err, conversation.ErrDamaged):
			return false, nil // the whole log tells more
		case err != nil:
			return false, transport.Temporary(fmt.Errorf("load %s: %w", conv.ContextID, err))
		case stands:
			if err := conv.Apply(entry); err != nil {
				return false, nil
			}
		case !conv.EndsWith(entry):
			return false, nil
		}
		stands = true
	}
	return stands, nil
}
