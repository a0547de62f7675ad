package cortex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/cache"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// snapshotEvery is the number of entries between two snapshots of a conversation. Folding that many takes a few milliseconds; writing
// a snapshot of a long conversation takes as long as a few turns.
const snapshotEvery = 512

// dispatch sends the effects of a stored entry, and returns the conversation to the cache.
func (o *Orchestrator) dispatch(ctx context.Context, conv *cache.Fold, entry *conversation.Entry, shown []a2a.TaskID) error {
	o.count(ctx, conv, entry)
	o.track(conv.Conversation)
	o.maker.GiveBack(ctx, conv.Conversation, entry)
	if err := o.send(ctx, conv, entry.Seq, shown...); err != nil {
		o.folds.Put(conv) // it stands for the log, and the event comes again
		return err
	}
	o.maker.Release(ctx, conv.Conversation, entry.Seq)
	o.learner.Learn(conv.Conversation, entry) // after everything that others wait for
	o.outlines.note(conv, entry)
	if snaps, ok := o.cfg.Store.(storage.Snapshots); ok && conv.Seq%snapshotEvery == 0 {
		if err := storage.PutSnapshot(ctx, snaps, conv.Conversation); err != nil {
			o.log.WarnContext(ctx, "snapshot not written", "context_id", conv.ContextID, "err", err)
		}
	}
	o.folds.Put(conv)
	return nil
}

// count counts a stored entry.
func (o *Orchestrator) count(ctx context.Context, conv *cache.Fold, entry *conversation.Entry) {
	o.stats.Entries.Add(1)
	for id, r := range entry.Retries {
		o.stats.Retries.Add(1)
		o.log.InfoContext(o.within(ctx, conv.Conversation, "", id), "task tried again", "context_id", conv.ContextID, "task_id", id, "agent", r.Agent, "why", r.Why)
	}
	o.observe(conv.Conversation, entry)
}

// countLate counts entry seq of the log, and learns from it, if it is one of two that may be there, or nil: the store took it without a word in time, as in
// an overload. It gives nothing back: by the clock alone, an entry of another process may be taken for it.
func (o *Orchestrator) countLate(ctx context.Context, conv *cache.Fold, seq uint64, kept *cache.UnstoredEntry, lost *decide.Lost) {
	var entry *conversation.Entry
	switch {
	case kept != nil:
		entry = kept.Entry
	case lost != nil:
		entry = lost.Entry
	default:
		return
	}
	if !conv.Stands(entry, seq) {
		return // another process was first
	}
	o.count(ctx, conv, entry)
	o.learner.Learn(conv.Conversation, entry)
	if seq == conv.Seq {
		o.outlines.note(conv, entry)
	}
}

// send publishes the effects of entry seq, except those of shown tasks and a timer that is not needed.
func (o *Orchestrator) send(ctx context.Context, conv *cache.Fold, seq uint64, shown ...a2a.TaskID) error {
	for _, out := range conv.Effects(seq, shown...) {
		timer := out.Event.DeliverAt
		if !timer.IsZero() && conv.Wakes(o.cfg.Now(), timer) {
			continue
		}
		o.trace(conv.Conversation, out)
		err := o.publish(ctx, conv.Conversation, out)
		switch {
		case err == nil:
		case out.Topic.Kind == transport.KindLive: // best effort
			o.log.DebugContext(ctx, "live event not sent", "context_id", conv.ContextID, "err", err)
		case errors.Is(err, transport.ErrInvalid), errors.Is(err, transport.ErrFull): // permanent, or lasting
			if err := o.unsent(ctx, conv.Conversation, seq, out, err); err != nil {
				return err
			}
			continue
		default:
			return transport.Temporary(fmt.Errorf("send to %s: %w", out.Topic.ID, err))
		}
		if !timer.IsZero() {
			conv.Timer = timer
		}
		if out.Topic.Kind == transport.KindInbox && out.Event.TaskID != "" {
			o.stats.Tasks.Add(1)
			o.log.LogAttrs(o.within(ctx, conv.Conversation, "", out.Event.TaskID), slog.LevelInfo, "task sent", slog.String("context_id", conv.ContextID),
				slog.String("task_id", string(out.Event.TaskID)), slog.String("agent", out.Topic.ID))
		}
	}
	o.recall(ctx, conv.Conversation, seq)
	return nil
}

// unsent handles an effect that the transport refuses permanently or because the agent's inbox is full. For a task it reports to Cortex itself
// that the task is rejected, which ends the task in the log like any result. For an answer to an agent it sends the reason instead, unless the
// inbox is full: then the answer is only in the log.
func (o *Orchestrator) unsent(ctx context.Context, conv *conversation.Conversation, seq uint64, out conversation.Effect, refused error) error {
	o.log.WarnContext(o.within(ctx, conv, "", out.Event.TaskID), "event cannot be sent", "context_id", conv.ContextID, "to", out.Topic.ID, "task_id", out.Event.TaskID, "err", refused)
	m, ok := out.Event.Payload.(*a2a.Message)
	if !ok {
		return nil // everything else is small
	}
	switch { // only tasks and answers
	case errors.Is(refused, transport.ErrFull):
		o.stats.Unsent.Full.Add(1)
	case errors.Is(refused, transport.ErrTooLarge):
		o.stats.Unsent.TooLarge.Add(1)
	default:
		o.stats.Unsent.Invalid.Add(1)
	}
	e := *out.Event
	reason := refusal(refused)
	if e.TaskID == "" {
		if errors.Is(refused, transport.ErrFull) {
			return nil
		}
		short := *m
		short.Parts = a2a.ContentParts{a2a.NewTextPart("The answer cannot be sent to you: " + reason + ".")}
		short.Metadata = map[string]any{transport.MetaFailed: true}
		for _, k := range []string{transport.MetaTurn, transport.MetaMessage, transport.MetaRequester} {
			short.Metadata[k] = m.Metadata[k]
		}
		e.Payload = &short
	} else {
		e.ID, e.To, out.Topic = conv.ID(seq, "unsent:"+string(e.TaskID), 0), transport.Cortex, transport.Inbox(conv.Tenant, transport.Cortex)
		e.Payload = &a2a.Task{
			ID: e.TaskID, ContextID: conv.ContextID,
			Status: a2a.TaskStatus{State: a2a.TaskStateRejected, Timestamp: &e.Time, Message: &a2a.Message{
				ID: e.ID, ContextID: conv.ContextID, TaskID: e.TaskID, Role: a2a.MessageRoleAgent,
				Parts: a2a.ContentParts{a2a.NewTextPart("it cannot be sent: " + reason)},
			}},
			Metadata: map[string]any{transport.MetaOriginalMessage: m.ID},
		}
	}
	err := o.cfg.Transport.Publish(ctx, out.Topic, &e)
	if errors.Is(err, transport.ErrInvalid) { // then a task ends at its deadline
		o.log.WarnContext(ctx, "answer dropped: it cannot be published", "context_id", conv.ContextID, "to", out.Topic.ID, "err", err)
		return nil
	}
	if err != nil {
		return transport.Temporary(fmt.Errorf("send to %s: %w", out.Topic.ID, err))
	}
	return nil
}

// refusal returns why a transport refuses an event, without the texts of its sentinel errors.
func refusal(err error) string {
	text := err.Error()
	for _, kind := range []error{transport.ErrInvalid, transport.ErrTooLarge, transport.ErrFull} {
		text = strings.ReplaceAll(text, kind.Error()+": ", "")
	}
	return conversation.Explain(conversation.Failure(text))
}

// ignore acknowledges an event that changes nothing. For a deadline it sets the next timer. An agent that asks whether its task is still wanted is told to
// stop if it is not, and one that asks for a board gets it.
func (o *Orchestrator) ignore(ctx context.Context, conv *cache.Fold, e *transport.Event, why string, now time.Time) error {
	if d, ok := e.Payload.(*transport.Deadline); ok {
		if timer, ok := conv.Wake(d, now, e.Stored); ok {
			if err := o.cfg.Transport.Publish(ctx, timer.Topic, timer.Event); err != nil {
				return transport.Temporary(fmt.Errorf("set the timer: %w", err))
			}
			conv.Timer = timer.Event.DeliverAt
		}
	} else if _, ok := conversation.Inquiry(e); ok {
		if stop, ok := conv.Stop(e, now); ok {
			if err := o.cfg.Transport.Publish(ctx, stop.Topic, stop.Event); err != nil { // it asks again
				o.log.DebugContext(ctx, "live event not sent", "context_id", e.ContextID, "err", err)
			}
		}
	} else if board, ok := conv.Board(e, now); ok {
		if err := o.cfg.Transport.Publish(ctx, board.Topic, board.Event); err != nil { // it asks again
			o.log.DebugContext(ctx, "live event not sent", "context_id", e.ContextID, "err", err)
		}
	} else {
		o.stats.Ignored.Add(1)
		o.log.InfoContext(o.within(ctx, conv.Conversation, "", e.TaskID), "event ignored", "context_id", e.ContextID, "task_id", e.TaskID, "from", e.From, "why", why)
	}
	o.folds.Put(conv)
	return nil
}

// resend sends the effects of an earlier entry, with the files that its answer had then.
func (o *Orchestrator) resend(ctx context.Context, conv *cache.Fold, seq uint64) error {
	if conv.Trimmed(seq) {
		then, err := storage.LoadTo(ctx, o.cfg.Store, conv.Tenant, conv.ContextID, seq)
		switch {
		case err == nil:
			defer conv.Restore(then)()
		case !errors.Is(err, conversation.ErrDamaged): // else the files are lost
			return err
		}
	}
	return o.send(ctx, conv, seq)
}

// recallTimeout bounds the time for withdrawing tasks; an agent may do a task in vain that was not withdrawn.
const recallTimeout = 2 * time.Second

// recall withdraws the tasks that entry seq stopped from their agents' inboxes, if the transport can. An agent that is not running misses the
// Cancel, and must not do them when it starts. An agent that has begun gets the Cancel.
func (o *Orchestrator) recall(ctx context.Context, conv *conversation.Conversation, seq uint64) {
	stopped := conv.Withdrawals(seq)
	w, ok := o.cfg.Transport.(transport.Withdrawer)
	if !ok || len(stopped) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recallTimeout)
	defer cancel()
	for _, r := range stopped {
		inboxes := []string{r.Agent}
		if o.queue.backlog != nil {
			o.queue.withdraw(conv.ContextID, r.EventID)
			inboxes = []string{transport.Queue, r.Agent} // in the order in which a task passes through them
		}
		for _, inbox := range inboxes {
			if err := w.Withdraw(ctx, transport.Inbox(conv.Tenant, inbox), conv.ContextID, transport.Cortex, r.EventID); err != nil {
				o.log.InfoContext(ctx, "task not taken back", "context_id", conv.ContextID, "agent", r.Agent, "err", err)
			}
		}
	}
}
