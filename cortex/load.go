package cortex

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// snapshotEvery is the number of entries between two snapshots of a conversation. To fold so many takes a few milliseconds; to write
// a snapshot of a long conversation takes as much as some turns.
const snapshotEvery = 256

// load returns e's conversation, which it takes out of the cache. One that was read under this epoch stands for the log, unless somebody
// else has appended to it or erased it.
func (o *Orchestrator) load(ctx context.Context, e *transport.Event) (*loaded, error) {
	conv := o.cache.take(conversation.Key{Tenant: o.cfg.Tenant, ContextID: e.ContextID})
	if conv != nil && conv.epoch == e.Epoch {
		return conv, nil
	}
	return o.reload(ctx, e, conv)
}

// reload returns conv, e's conversation, with what the log has gained since it was read; all of it is read when conv is nil, or does
// not stand for a beginning of the log.
func (o *Orchestrator) reload(ctx context.Context, e *transport.Event, conv *loaded) (*loaded, error) {
	if conv != nil {
		stands, err := refresh(ctx, o.cfg.Store, conv.Conversation)
		if err != nil {
			o.cache.put(conv) // under its own epoch, so that it is asked for again
			return nil, err
		}
		if !stands {
			conv = nil
		}
	}
	if conv == nil {
		c, err := Load(ctx, o.cfg.Store, o.cfg.Tenant, e.ContextID)
		if err != nil {
			return nil, err
		}
		conv = &loaded{Conversation: c}
	}
	if conv.epoch != e.Epoch {
		conv.timer = time.Time{} // others may have let it fire
	}
	conv.epoch, conv.fresh = e.Epoch, true
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

// Load folds a conversation's log, from its newest snapshot where the store has some.
func Load(ctx context.Context, s storage.Store, tenant, contextID string) (*conversation.Conversation, error) {
	if snaps, ok := s.(storage.Snapshots); ok {
		// A snapshot that is missing or cannot be read costs time only.
		if v, b, err := snaps.Snapshot(ctx, tenant, contextID); err == nil && len(b) > 0 {
			if c, err := conversation.ReadSnapshot(b); err == nil && c.Version == v && c.ContextID == contextID {
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
func loadLog(ctx context.Context, s storage.Store, tenant, contextID string) (*conversation.Conversation, error) {
	conv := conversation.NewConversation(tenant, contextID)
	if err := catchUp(ctx, s, conv); err != nil {
		return nil, err
	}
	return conv, nil
}

// loadTo folds the log to entry seq: as the conversation was when that was its last one.
func loadTo(ctx context.Context, s storage.Store, tenant, contextID string, seq uint64) (*conversation.Conversation, error) {
	conv := conversation.NewConversation(tenant, contextID)
	for entry, err := range s.Load(ctx, tenant, contextID, 0) {
		if err != nil {
			return nil, transport.Temporary(fmt.Errorf("load %s: %w", contextID, err))
		}
		if err := conv.Apply(entry); err != nil {
			return nil, err
		}
		if conv.Seq == seq {
			return conv, nil
		}
	}
	return nil, fmt.Errorf("%w: conversation %s has no entry %d", conversation.ErrDamaged, contextID, seq)
}

// catchUp applies the entries that conv lacks.
func catchUp(ctx context.Context, s storage.Store, conv *conversation.Conversation) error {
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
func (o *Orchestrator) keep(ctx context.Context, conv *loaded) {
	if snaps, ok := o.cfg.Store.(storage.Snapshots); ok && conv.Seq%snapshotEvery == 0 {
		if err := PutSnapshot(ctx, snaps, conv.Conversation); err != nil {
			o.log.Warn("snapshot not written", "context_id", conv.ContextID, "err", err)
		}
	}
	o.cache.put(conv)
}

// PutSnapshot keeps conv beside its log, so that a later Load has only what came after it to fold.
func PutSnapshot(ctx context.Context, s storage.Snapshots, conv *conversation.Conversation) error {
	b, err := conv.Snapshot()
	if err != nil {
		return err
	}
	return s.PutSnapshot(ctx, conv.Tenant, conv.ContextID, conv.Version, b)
}
