package client

import (
	"context"
	"errors"
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// ReadLog returns a [Client.Log] that reads a tenant's conversations in a store.
func ReadLog(s storage.Store, tenant string) func(context.Context, Turn) (*a2a.Message, bool, error) {
	return func(ctx context.Context, t Turn) (*a2a.Message, bool, error) { return answer(ctx, s, tenant, t) }
}

// answer reads the answer to a turn, or why its message was refused.
func answer(ctx context.Context, s storage.Store, tenant string, t Turn) (*a2a.Message, bool, error) {
	conv, broken := cortex.Load(ctx, s, tenant, t.ContextID)
	if broken == nil {
		if m, ok := conv.AnswerOf(t.From, t.MessageID); ok && slices.ContainsFunc(m.Parts, transport.IsForgotten) {
			return whole(ctx, s, tenant, t, m)
		} else if ok {
			return m, true, nil
		}
	}
	if m, ok, err := cortex.RefusalOf(ctx, s, tenant, t.ContextID, t.From, t.MessageID); ok || err != nil {
		return m, ok, err
	}
	if broken != nil || conv.Open(t.From, t.MessageID) {
		return nil, false, broken
	}
	// Not taken up yet, or answered so long ago that only the log has it.
	return inLog(ctx, s, tenant, t, "")
}

// whole returns an answer with the files that a conversation lets go of when others have been answered: the log has them.
func whole(ctx context.Context, s storage.Store, tenant string, t Turn, m *a2a.Message) (*a2a.Message, bool, error) {
	is, ok, err := inLog(ctx, s, tenant, t, m.ID)
	switch {
	case errors.Is(err, conversation.ErrDamaged), err == nil && !ok: // nobody has them
		return m, true, nil
	case errors.Is(err, context.DeadlineExceeded): // nor would there be time for all of the log at the next attempt
		return m, true, nil
	}
	return is, ok, err
}

// inLog reads the answer to a turn as it was when the log had no more behind it, with this id, or "" for any.
func inLog(ctx context.Context, s storage.Store, tenant string, t Turn, id string) (*a2a.Message, bool, error) {
	turn := transport.TurnID(tenant, t.ContextID, t.From, t.MessageID)
	conv := conversation.NewConversation(tenant, t.ContextID)
	for entry, err := range s.Load(ctx, tenant, t.ContextID, 0) {
		if err != nil {
			return nil, false, err
		}
		if err := conv.Apply(entry); err != nil {
			return nil, false, err
		}
		if entry.Turn == turn || entry.Turn == t.MessageID || entry.Turn == "" { // in old logs the message's id
			if m, ok := conv.AnswerOf(t.From, t.MessageID); ok && (id == "" || m.ID == id) {
				return m, true, nil
			}
		}
	}
	return nil, false, nil
}
