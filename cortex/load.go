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

// load takes the conversation of d's event out of the cache, or loads it. A fold that was read under the event's epoch equals the log, unless another
// process has appended to the log or erased it.
func (o *Orchestrator) load(ctx context.Context, d *delivery) (conv *cache.Fold, err error) {
	e := d.event
	conv = o.folds.Take(conversation.Key{Tenant: o.cfg.Tenant, ContextID: e.ContextID})
	if conv != nil && conv.Epoch == e.Epoch {
		if d.lost == nil {
			return conv, nil
		}
	} else if conv, err = o.reload(ctx, e, conv); err != nil || d.lost == nil {
		return conv, err
	}
	if conv.Version == d.conflictAt {
		// The log has nothing new, and yet there was a conflict: the snapshot belongs to another log.
		conv.Conversation, err = storage.LoadWhole(ctx, o.cfg.Store, o.cfg.Tenant, e.ContextID)
		conv.Fresh, conv.Erased = true, nil
	}
	if err == nil {
		err = o.cutOff(ctx, e, conv.Conversation, d.lost.Conv)
	}
	return conv, err
}

// reload brings conv, e's conversation, up to date with the log. It loads the whole conversation when conv is nil or does not equal a
// beginning of the log, and fails when the log ends before it without having been erased.
func (o *Orchestrator) reload(ctx context.Context, e *transport.Event, conv *cache.Fold) (*cache.Fold, error) {
	var seen *conversation.Conversation
	if conv != nil {
		seen = conv.Conversation
		stands, err := refresh(ctx, o.cfg.Store, conv.Conversation)
		if err != nil {
			o.folds.Put(conv) // with its old epoch, so that it is reloaded next time
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
		if err := o.cutOff(ctx, e, c, seen); err != nil {
			return nil, err
		}
		conv = &cache.Fold{Conversation: c}
	}
	if conv.Epoch != e.Epoch {
		conv.Timer = time.Time{} // another process may have handled the timer
	}
	conv.Epoch, conv.Fresh = e.Epoch, true
	o.loaded(conv.Conversation)
	o.track(conv.Conversation)
	return conv, nil
}

// refresh applies the log's new entries to conv: under another epoch another process may have handled the conversation, and reading only these
// is much less work than whole logs when many conversations move at the same time. It returns false when the log does not have conv's last entry
// any more, or what follows does not fit: it was erased, or has lost its end. After an error conv is still valid.
func refresh(ctx context.Context, s storage.Store, conv *conversation.Conversation) (stands bool, err error) {
	if conv.Version == 0 || conv.Undated() {
		return false, nil
	}
	if ends, ok := s.(storage.Ends); ok {
		switch end, err := ends.End(ctx, conv.Tenant, conv.ContextID); {
		case err != nil:
			return false, transport.Temporary(err)
		case end != nil && conv.EndsWith(end):
			return true, nil
		}
	}
	for entry, err := range s.Load(ctx, conv.Tenant, conv.ContextID, conv.Version-1) {
		switch {
		case errors.Is(err, conversation.ErrDamaged):
			return false, nil // loading the whole log gives a better error
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
