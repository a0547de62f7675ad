package storage

import (
	"context"
	"fmt"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

// shortLog is the number of entries that are read before a snapshot is looked for: most conversations have no more, and no snapshot.
const shortLog = 32

// Load folds a conversation's log, beginning with its newest snapshot if the log is long and the store keeps snapshots.
func Load(ctx context.Context, s Store, tenant, contextID string) (*conversation.Conversation, error) {
	snaps, ok := s.(Snapshots)
	if !ok {
		return LoadWhole(ctx, s, tenant, contextID)
	}
	begun := conversation.NewConversation(tenant, contextID)
	whole, broken := loadShort(ctx, s, begun)
	if whole && broken == nil {
		return begun, nil
	}
	// A snapshot that is missing or cannot be read only costs time.
	if v, b, err := snaps.Snapshot(ctx, tenant, contextID); err == nil && len(b) > 0 {
		if c, err := conversation.ReadSnapshot(b); err == nil && c.Version == v && c.ContextID == contextID {
			if err := catchUp(ctx, s, c); err == nil {
				return c, nil
			}
			// The snapshot may belong to another log: fold the whole log.
		}
	}
	if broken != nil {
		return nil, broken
	}
	if err := catchUp(ctx, s, begun); err != nil {
		return nil, err
	}
	return begun, nil
}

// loadShort applies the first entries of conv's log. It reports whether there are no more, which is not known after an error.
func loadShort(ctx context.Context, s Store, conv *conversation.Conversation) (whole bool, err error) {
	for entry, err := range s.Load(ctx, conv.Tenant, conv.ContextID, 0) {
		if err != nil {
			return false, unloaded(conv, err)
		}
		if conv.Seq == shortLog {
			return false, nil
		}
		if err := conv.Apply(entry); err != nil {
			return false, err
		}
	}
	return true, nil
}

// LoadWhole is Load without a snapshot, which may belong to another log.
func LoadWhole(ctx context.Context, s Store, tenant, contextID string) (*conversation.Conversation, error) {
	conv := conversation.NewConversation(tenant, contextID)
	if err := catchUp(ctx, s, conv); err != nil {
		return nil, err
	}
	return conv, nil
}

// LoadTo folds the log up to entry seq and returns the conversation as it was then.
func LoadTo(ctx context.Context, s Store, tenant, contextID string, seq uint64) (*conversation.Conversation, error) {
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
func catchUp(ctx context.Context, s Store, conv *conversation.Conversation) error {
	for entry, err := range s.Load(ctx, conv.Tenant, conv.ContextID, conv.Version) {
		if err != nil {
			return unloaded(conv, err)
		}
		if err := conv.Apply(entry); err != nil {
			return err
		}
	}
	return nil
}

// unloaded returns the error for a log that cannot be read now, unless the store says that it is for good.
func unloaded(conv *conversation.Conversation, err error) error {
	return transport.Temporary(fmt.Errorf("load %s: %w", conv.ContextID, err))
}

// PutSnapshot stores a snapshot of conv, so that a later Load only folds the entries after it.
func PutSnapshot(ctx context.Context, s Snapshots, conv *conversation.Conversation) error {
	b, err := conv.Snapshot()
	if err != nil {
		return err
	}
	return s.PutSnapshot(ctx, conv.Tenant, conv.ContextID, conv.Version, b)
}
