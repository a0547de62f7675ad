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

// Conversation deletes a conversation as [Batch.Conversation] does.
func Conversation(ctx context.Context, store Store, bus Bus, tenant, contextID string) (Erased, error) {
	return (&Batch{Store: store, Bus: bus, Tenant: tenant}).Conversation(ctx, contextID)
}

// Conversation deletes everything that is stored of a conversation, and notifies running orchestrators and the agents that have worked for it. After
// an error some of it may be deleted; calling Conversation again is harmless, and [Deletions] does so when the process is killed meanwhile.
func (b *Batch) Conversation(ctx context.Context, contextID string) (Erased, error) {
	store, bus, tenant := b.Store, b.Bus, b.Tenant
	var done Erased
	worked := map[string]bool{} // agents
	var last conversation.Version
	unlearn := learn.ForgetOf
	for e, err := range store.Load(ctx, tenant, contextID, 0) {
		if errors.Is(err, conversation.ErrDamaged) { // the agents of later entries are unknown
			unlearn = learn.Forget
			end, err := endOf(ctx, store, tenant, contextID)
			if err != nil {
				return done, err
			}
			last = max(last, end)
			break
		}
		if err != nil {
			return done, err
		}
		done.Entries++
		last = e.Version
		if e.Decision != nil {
			for _, d := range e.Decision.Delegations {
				worked[d.Agent] = true
			}
		}
		for _, r := range e.Retries {
			worked[r.Agent] = true
		}
	}
	if last == 0 { // an earlier deletion may have come as far as the log
		unlearn = learn.Forget
	}
	note, err := begin(ctx, store, tenant, contextID, last)
	if err != nil {
		return done, err
	}
	if again, err := beganAnew(ctx, store, tenant, contextID, last); err != nil {
		return done, err
	} else if again {
		return done, note.end(ctx)
	}
	// A server that is killed may deliver its acknowledged events again, which nobody could tell from new ones when the log is gone. There may be such
	// events without a log, too: a message that nobody has handled yet.
	if err := storage.KeepErased(ctx, store, tenant, contextID); err != nil {
		return done, err
	}
	// Erase the bus first: its events could begin the conversation anew. Erase the log last: it names the agents that have worked, which a
	// second attempt after an interruption needs.
	if err := bus.Erase(ctx, tenant, contextID); err != nil {
		return done, err
	}
	if notes, ok := store.(storage.Notes); ok {
		agents, err := unlearn(ctx, notes, tenant, contextID, slices.Collect(maps.Keys(worked))...)
		if err != nil {
			return done, err
		}
		done.Learned = len(agents)
	}
	forget := func(whom, from string) error {
		return bus.Publish(ctx, transport.Control(tenant, whom), &transport.Event{
			ID: uuid.NewString(), Time: time.Now(), From: from, Tenant: tenant, ContextID: contextID, Payload: &transport.Forget{},
		})
	}
	for _, agent := range slices.Sorted(maps.Keys(worked)) { // they may keep words of it on their machines
		if transport.CheckID(agent) != nil {
			continue // an agent that a model made up
		}
		if err := forget(agent, transport.Cortex); err != nil {
			return done, fmt.Errorf("agent %s could not be notified: %w", agent, err)
		}
	}
	if again, err := beganAnew(ctx, store, tenant, contextID, last); err != nil {
		return done, err
	} else if again {
		return done, note.end(ctx)
	}
	if err := storage.KeepErased(ctx, store, tenant, contextID); err != nil { // for what was said meanwhile: its entries are erased, too
		return done, err
	}
	if err := b.eraseLog(ctx, contextID); err != nil {
		return done, err
	}
	// Running orchestrators must forget the conversation too, or it could get into the prompts or the log of a new one with the same id.
	if err := forget(transport.Cortex, "user"); err != nil {
		return done, fmt.Errorf("the running Cortex could not be notified: %w", err)
	}
	return done, note.end(ctx)
}

// beganAnew reports whether a conversation, whose last entry was last, is another one by now: this process was frozen for so long that another one has
// deleted it, and somebody has begun one with the same id.
func beganAnew(ctx context.Context, store Store, tenant, contextID string, last conversation.Version) (bool, error) {
	if last == 0 {
		return false, nil
	}
	for e, err := range store.Load(ctx, tenant, contextID, 0) {
		if errors.Is(err, conversation.ErrDamaged) {
			return false, nil
		}
		return err == nil && e.Version > last, err
	}
	return false, nil
}

// endOf returns the version of a conversation's last entry, also of one that is damaged before; 0 if that is unknown.
func endOf(ctx context.Context, store Store, tenant, contextID string) (conversation.Version, error) {
	ends, ok := store.(storage.Ends)
	if !ok {
		return 0, nil
	}
	e, err := ends.End(ctx, tenant, contextID)
	if e == nil {
		return 0, err
	}
	return e.Version, err
}
