// Package erase deletes a conversation from everywhere. It is for the commands that delete, and for measurements that must leave nothing
// behind.
package erase

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/learn"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Store keeps conversations, and, if it is a [storage.Notes], what was learned from them.
type Store interface {
	storage.Store
	storage.Eraser
}

// Bus keeps the events of conversations until they are processed.
type Bus interface {
	transport.Transport
	transport.Eraser
}

// Erased says what was deleted with a conversation.
type Erased struct {
	Entries int
	Learned int // agents about which the conversation had taught something
}

// Conversation deletes everything that is stored of a conversation, and notifies running orchestrators. After an error some of it may
// be deleted; calling Conversation again is harmless.
func Conversation(ctx context.Context, store Store, bus Bus, tenant, contextID string) (Erased, error) {
	var done Erased
	worked := map[string]bool{} // agents
	for e, err := range store.Load(ctx, tenant, contextID, 0) {
		if errors.Is(err, conversation.ErrDamaged) {
			break // the agents of later entries are unknown
		}
		if err != nil {
			return done, err
		}
		done.Entries++
		if e.Decision != nil {
			for _, d := range e.Decision.Delegations {
				worked[d.Agent] = true
			}
		}
		for _, r := range e.Retries {
			worked[r.Agent] = true
		}
	}
	// Erase the bus first: its events could begin the conversation anew. Erase the log last: it names the agents that have worked, which a
	// second attempt after an interruption needs.
	if err := bus.Erase(ctx, tenant, contextID); err != nil {
		return done, err
	}
	if notes, ok := store.(storage.Notes); ok {
		agents, err := learn.Forget(ctx, notes, tenant, contextID, slices.Collect(maps.Keys(worked))...)
		if err != nil {
			return done, err
		}
		done.Learned = len(agents)
	}
	if err := store.Erase(ctx, tenant, contextID); err != nil {
		return done, err
	}
	// Running orchestrators must forget the conversation too, or it could get into the prompts or the log of a new one with the same id.
	if err := bus.Publish(ctx, transport.Control(tenant, transport.Cortex), &transport.Event{
		ID: uuid.NewString(), Time: time.Now(), From: "user", Tenant: tenant, ContextID: contextID, Payload: &transport.Forget{},
	}); err != nil {
		return done, fmt.Errorf("the running Cortex could not be notified: %w", err)
	}
	return done, nil
}
