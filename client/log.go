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
	"github.com/cortex-orchestrator/cortex/internal/together"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxUnanswered bounds how many turns a [Client.Log] knows to have no answer yet.
const maxUnanswered = 20_000

// ReadLog returns a [Client.Log] that reads a tenant's conversations from a store. It reads a log again only when that has grown, if the store can say
// where a log ends, and then only what is new, until that is about the turn. Those who ask for the same turn at the same time share a reading: thousands wait
// at the same time, and each of them asks again and again.
func ReadLog(s storage.Store, tenant string) func(context.Context, Turn) (*a2a.Message, bool, error) {
	ends, ok := s.(storage.Ends)
	if !ok {
		return func(ctx context.Context, t Turn) (*a2a.Message, bool, error) { return answer(ctx, s, tenant, t) }
	}
	l := &logReader{store: s, ends: ends, tenant: tenant}
	return func(ctx context.Context, t Turn) (*a2a.Message, bool, error) {
		is, err := l.asks.Get(ctx, asked{t, storage.Requester(ctx)}, func(ctx context.Context) (logged, error) { return l.read(ctx, t) })
		return is.message, is.found, err
	}
}

// logReader reads the answers to turns.
type logReader struct {
	store  storage.Store
	ends   storage.Ends
	tenant string
	asks   together.Asks[asked, logged]

	mu         sync.Mutex
	unanswered recent.Cache[Turn, conversation.Version] // by turns, the end of the log in which there was no answer
}

// asked is what those share who ask for a turn. They are one person's, since the reads of a person wait for one another.
type asked struct {
	turn      Turn
	requester string
}

func (l *logReader) read(ctx context.Context, t Turn) (is logged, err error) {
	end, err := l.ends.End(ctx, l.tenant, t.ContextID)
	if err != nil {
		return logged{}, err
	}
	var now conversation.Version
	if end != nil {
		now = end.Version
	}
	l.mu.Lock()
	then, known := l.unanswered.Get(t)
	l.mu.Unlock()
	read := answer
	switch {
	case known && then == now, end != nil && delegates(end, transport.TurnID(l.tenant, t.ContextID, t.From, t.MessageID)),
		known && then < now && !mayBeAnswered(ctx, l.store, l.tenant, t, then):
		read = refusal
	}
	is.message, is.found, err = read(ctx, l.store, l.tenant, t)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || is.found {
		l.unanswered.Take(t)
	} else if l.unanswered.Put(t, now, 1); l.unanswered.Len() > maxUnanswered {
		l.unanswered.Drop()
	}
	return is, err
}

// delegates reports whether the last entry of a log has agents work for a turn, so that it is not answered.
func delegates(end *conversation.Entry, turn string) bool {
	return end.Turn == turn && end.Failure == "" && end.Consent == "" && end.Decision != nil && end.Decision.Kind.Delegates()
}

// mayBeAnswered reports whether an entry behind a place in the log may have answered a turn; true when they cannot be read.
func mayBeAnswered(ctx context.Context, s storage.Store, tenant string, t Turn, after conversation.Version) bool {
	for e, err := range s.Load(ctx, tenant, t.ContextID, after) {
		if err != nil || mayAnswer(e, tenant, t) {
			return true
		}
	}
	return false
}

// mayAnswer reports whether an entry may answer a turn: if it belongs to the turn, or to several, or cancels what may be others'.
func mayAnswer(e *conversation.Entry, tenant string, t Turn) bool {
	if e.Cause != nil {
		if _, cancels := e.Cause.Payload.(*transport.Cancel); cancels {
			return true
		}
	}
	return e.Turn == "" || e.Turn == t.MessageID || e.Turn == transport.TurnID(tenant, t.ContextID, t.From, t.MessageID) // old logs have the message's id
}

// refusal reads why the message of a turn was refused.
func refusal(ctx context.Context, s storage.Store, tenant string, t Turn) (*a2a.Message, bool, error) {
	return storage.RefusalOf(ctx, s, tenant, t.ContextID, t.From, t.MessageID)
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
	if m, ok, err := refusal(ctx, s, tenant, t); ok || err != nil {
		return m, ok, err
	}
	if broken != nil || conv.Open(t.From, t.MessageID) || conv.Seq == 0 || len(conv.Turns) > 0 && conv.Turns[0].Seq == 1 {
		return nil, false, broken // it is not answered, or not processed yet
	}
	// Not processed yet, or answered so long ago that only the log has the answer.
	return inLog(ctx, s, tenant, t, "")
}

// filesTime bounds how long an answer waits for its files. Readings that are shared have no deadline of those who ask, each of whom may wait for two of them.
const filesTime = readTime * 2 / 5

// withFiles returns an answer with the files whose bytes the conversation has dropped since; it reads them from the log.
func withFiles(ctx context.Context, s storage.Store, tenant string, t Turn, m *a2a.Message) (*a2a.Message, bool, error) {
	ctx, done := context.WithTimeout(ctx, filesTime)
	defer done()
	is, ok, err := inLog(ctx, s, tenant, t, m.ID)
	switch {
	case errors.Is(err, conversation.ErrDamaged), err == nil && !ok:
		return withoutFiles(m, "The files of this answer are lost: the log of its conversation is damaged."), true, nil
	case errors.Is(err, context.DeadlineExceeded): // another attempt would have no more time for the whole log
		return withoutFiles(m, "The files of this answer cannot be read now: the log of its conversation takes too long to read. Ask for the answer again."), true, nil
	}
	return is, ok, err
}

// withoutFiles returns an answer without the bytes of its files, which says why: what is known of them, such as their names, would look like the whole of it.
func withoutFiles(m *a2a.Message, why string) *a2a.Message {
	is := *m
	is.Parts = append(slices.Clone(m.Parts), a2a.NewTextPart("["+why+"]"))
	return &is
}

// inLog reads the answer to a turn as it was at its entry in the log, with this id, or any id if id is "".
func inLog(ctx context.Context, s storage.Store, tenant string, t Turn, id string) (*a2a.Message, bool, error) {
	conv := conversation.NewConversation(tenant, t.ContextID)
	for entry, err := range s.Load(ctx, tenant, t.ContextID, 0) {
		if err != nil {
			return nil, false, err
		}
		if err := conv.Apply(entry); err != nil {
			return nil, false, err
		}
		if mayAnswer(entry, tenant, t) {
			if m, ok := conv.AnswerOf(t.From, t.MessageID); ok && (id == "" || m.ID == id) {
				return m, true, nil
			}
		}
	}
	return nil, false, nil
}
