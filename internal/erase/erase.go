// Package erase deletes a conversation wherever something of it is kept. It is for the commands that delete, and for measurements
// that have to leave nothing.
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

// Bus keeps what was said in conversations until it is done with.
type Bus interface {
	transport.Transport
	transport.Eraser
}

// Erased says what was deleted with a conversation.
type Erased struct {
	Entries int
	Learned int // agents about which it had taught something
}

// Conversation deletes everything that is kept of a conversation, and tells the orchestrators that run. After an error some of it may
// be deleted; to do it again is harmless.
func Conversation(ctx context.Context, store Store, bus Bus, tenant, contextID string) (Erased, error) {
	var done Erased
	worked := map[string]bool{} // agents
	for e, err := range store.Load(ctx, tenant, contextID, 0) {
		if errors.Is(err, conversation.ErrDamaged) {
			break // who worked for it behind that is not known any more
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
	// First what could be handled, and begin the conversation anew. The log, which says who worked for it, last: what is interrupted can
	// be done again.
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
	// What orchestrators that run remember must not get into the prompt of whoever begins it anew, nor into what they write down.
	if err := bus.Publish(ctx, transport.Control(tenant, transport.Cortex), &transport.Event{
		ID: uuid.NewString(), Time: time.Now(), From: "user", Tenant: tenant, ContextID: contextID, Payload: &transport.Forget{},
	}); err != nil {
		return done, fmt.Errorf("the Cortex that runs could not be told: %w", err)
	}
	return done, nil
}
