package client

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/recent"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxUnanswered bounds how many turns a [Client.Log] knows to have no answer yet.
const maxUnanswered = 20_000

// ReadLog returns a [Client.Log] that reads a tenant's conversations from a store. It reads a log again only when that has grown, if the store can say
// where a log ends: thousands wait at the same time, and each of them asks again and again.
func ReadLog(s storage.Store, tenant string) func(context.Context, Turn) (*a2a.Message, bool, error) {
	ends, ok := s.(storage.Ends)
	if !ok {
		return func(ctx context.Context, t Turn) (*a2a.Message, bool, error) { return answer(ctx, s, tenant, t) }
	}
	var mu sync.Mutex
	var unanswered recent.Cache[Turn, conversation.Version] // by turns, the end of the log in which there was no answer
	return func(ctx context.Context, t Turn) (*a2a.Message, bool, error) {
		end, err := ends.End(ctx, tenant, t.ContextID)
		if err != nil {
			return nil, false, err
		}
		var now conversation.Version
		if end != nil {
			now = end.Version
		}
		mu.Lock()
		then, known := unanswered.Get(t)
		mu.Unlock()
		if known && then == now || end != nil && delegates(end, transport.TurnID(tenant, t.ContextID, t.From, t.MessageID)) {
			return storage.RefusalOf(ctx, s, tenant, t.ContextID, t.From, t.MessageID)
		}
		m, found, err := answer(ctx, s, tenant, t)
		mu.Lock()
		defer mu.Unlock()
		if err != nil || found {
			unanswered.Take(t)
			return m, found, err
		}
		unanswered.Put(t, now, 1)
		if unanswered.Len() > maxUnanswered {
			unanswered.Drop()
		}
		return nil, false, nil
	}
}

// delegates reports whether the last entry of a log has agents work for a turn, so that it is not answered.
func delegates(end *conversation.Entry, turn string) bool {
	return end.Turn == turn && end.Failure == "" && end.Consent == "" && end.Decision != nil && end.Decision.Kind.Delegates()
}

// answer reads the answer to a turn, or why its message was refused.
func answer(ctx context.Context, s storage.Store, tenant string, t Turn) (*a2a.Message, bool, error) {
	conv, broken := storage.Load(ctx, s, tenant, t.ContextID)
	if broken == nil {
		if m, ok := conv.AnswerOf(t.From, t.MessageID); ok && slices.ContainsFunc(m.Parts, transport.IsForgotten) {
			return withFiles(ctx, s, tenant, t, m)
		} else if ok {
			return m, true, nil
		}
	}
	if m, ok, err := storage.RefusalOf(ctx, s, tenant, t.ContextID, t.From, t.MessageID); ok || err != nil {
		return m, ok, err
	}
	if broken != nil || conv.Open(t.From, t.MessageID) || conv.Seq == 0 || len(conv.Turns) > 0 && conv.Turns[0].Seq == 1 {
		return nil, false, broken // it is not answered, or not processed yet
	}
	// Not processed yet, or answered so long ago that only the log has the answer.
	return inLog(ctx, s, tenant, t, "")
}

// withFiles returns an answer with the files whose bytes the conversation has dropped since; it reads them from the log.
func withFiles(ctx context.Context, s storage.Store, tenant string, t Turn, m *a2a.Message) (*a2a.Message, bool, error) {
	is, ok, err := inLog(ctx, s, tenant, t, m.ID)
	switch {
	case errors.Is(err, conversation.ErrDamaged), err == nil && !ok: // the files are lost
		return m, true, nil
	case errors.Is(err, context.DeadlineExceeded): // another attempt would have no more time for the whole log
		return m, true, nil
	}
	return is, ok, err
}

// inLog reads the answer to a turn as it was at its entry in the log, with this id, or any id if id is "".
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
		if entry.Turn == turn || entry.Turn == t.MessageID || entry.Turn == "" { // old logs have the message's id
			if m, ok := conv.AnswerOf(t.From, t.MessageID); ok && (id == "" || m.ID == id) {
				return m, true, nil
			}
		}
	}
	return nil, false, nil
}
