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
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// snapshotEvery is the number of entries between two snapshots of a conversation. To fold so many takes a few milliseconds; to write
// a snapshot of a long conversation takes as much as some turns.
const snapshotEvery = 512

// dispatch sends what follows from an entry that is stored, and puts the conversation back.
func (o *Orchestrator) dispatch(ctx context.Context, conv *cache.Fold, entry *conversation.Entry, shown []a2a.TaskID) error {
	o.stats.Entries.Add(1)
	for id, r := range entry.Retries {
		o.stats.Retries.Add(1)
		o.log.Info("task tried again", "context_id", conv.ContextID, "task_id", id, "agent", r.Agent, "why", r.Why)
	}
	o.maker.Track(conv.Conversation)
	if err := o.send(ctx, conv, entry.Seq, shown...); err != nil {
		o.folds.Put(conv) // it stands for the log, and the event comes again
		return err
	}
	o.learner.Learn(conv.Conversation, entry) // behind what others wait for
	o.outlines.note(conv.Conversation, entry.Time)
	if snaps, ok := o.cfg.Store.(storage.Snapshots); ok && conv.Seq%snapshotEvery == 0 {
		if err := storage.PutSnapshot(ctx, snaps, conv.Conversation); err != nil {
			o.log.Warn("snapshot not written", "context_id", conv.ContextID, "err", err)
		}
	}
	o.folds.Put(conv)
	return nil
}

// send publishes what follows from entry seq, but for what was shown and for a timer that is not needed.
func (o *Orchestrator) send(ctx context.Context, conv *cache.Fold, seq uint64, shown ...a2a.TaskID) error {
	for _, out := range conv.Effects(seq, shown...) {
		timer := out.Event.DeliverAt
		if !timer.IsZero() && conv.Wakes(o.cfg.Now(), timer) {
			continue
		}
		err := o.publish(ctx, conv.Conversation, out)
		switch {
		case err == nil:
		case out.Topic.Kind == transport.KindLive: // best effort
			o.log.Debug("live event not sent", "context_id", conv.ContextID, "err", err)
		case errors.Is(err, transport.ErrInvalid), errors.Is(err, transport.ErrFull): // nor will it be the next time, or not soon
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
			o.log.LogAttrs(ctx, slog.LevelInfo, "task sent", slog.String("context_id", conv.ContextID),
				slog.String("task_id", string(out.Event.TaskID)), slog.String("agent", out.Topic.ID))
		}
	}
	o.recall(ctx, conv.Conversation, seq)
	return nil
}

// unsent handles an effect that the transport refuses, for good or because the agent's inbox is full. A task that cannot be sent is reported to
// Cortex itself as rejected, and ends with that in the log, as with any result. An agent that asked gets the reason in place of the answer, unless its
// inbox is full: then the answer is in the log only.
func (o *Orchestrator) unsent(ctx context.Context, conv *conversation.Conversation, seq uint64, out conversation.Effect, refused error) error {
	o.log.Warn("event cannot be sent", "context_id", conv.ContextID, "to", out.Topic.ID, "task_id", out.Event.TaskID, "err", refused)
	m, ok := out.Event.Payload.(*a2a.Message)
	if !ok {
		return nil // all else is small
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
		o.log.Error("nobody could be told", "context_id", conv.ContextID, "to", out.Topic.ID, "err", err)
		return nil
	}
	if err != nil {
		return transport.Temporary(fmt.Errorf("send to %s: %w", out.Topic.ID, err))
	}
	return nil
}

// refusal is why a transport refuses an event, in words: without those that are for programs.
func refusal(err error) string {
	text := err.Error()
	for _, kind := range []error{transport.ErrInvalid, transport.ErrTooLarge, transport.ErrFull} {
		text = strings.ReplaceAll(text, kind.Error()+": ", "")
	}
	return conversation.Explain(conversation.Failure(text))
}

// ignore acknowledges an event that changes nothing.
func (o *Orchestrator) ignore(ctx context.Context, conv *cache.Fold, e *transport.Event, why string, now time.Time) error {
	if d, ok := e.Payload.(*transport.Deadline); ok {
		if timer, ok := conv.Wake(d, now); ok {
			if err := o.cfg.Transport.Publish(ctx, timer.Topic, timer.Event); err != nil {
				return transport.Temporary(fmt.Errorf("set the timer: %w", err))
			}
			conv.Timer = timer.Event.DeliverAt
		}
	} else {
		o.stats.Ignored.Add(1)
		o.log.Info("event ignored", "context_id", e.ContextID, "task_id", e.TaskID, "from", e.From, "why", why)
	}
	o.folds.Put(conv)
	return nil
}

// recallTimeout bounds the time that taking tasks back takes; what is not taken back is done in vain.
const recallTimeout = 2 * time.Second

// recall takes the tasks that entry seq stopped out of their agents' inboxes, where the transport can. So an agent that does not
// run, and misses the Cancel, does not do them when it starts. An agent that has begun is told by the Cancel.
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
			inboxes = []string{transport.Queue, r.Agent} // in the order in which a task goes through them
		}
		for _, inbox := range inboxes {
			if err := w.Withdraw(ctx, transport.Inbox(conv.Tenant, inbox), conv.ContextID, transport.Cortex, r.EventID); err != nil {
				o.log.Info("task not taken back", "context_id", conv.ContextID, "agent", r.Agent, "err", err)
			}
		}
	}
}
