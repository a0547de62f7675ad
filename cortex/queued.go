package cortex

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/cache"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// metaChain is the metadata key of a queued task for its requester.
const metaChain = "cortex_chain"

// sentLongAgo is the age from which a task is searched for before it is sent: inboxes soon forget the ids of events that old.
const sentLongAgo = transport.DuplicateWindow / 2

// publish sends an effect. A task of a requester who has given its agent more than the agent can take goes to the queue instead; if the queue is
// full, publish returns ErrFull. Without authentication a requester can be faked: then the task that has its turn goes to the agent instead.
func (o *Orchestrator) publish(ctx context.Context, conv *conversation.Conversation, out conversation.Effect) error {
	t, ok := taskOf(conv, out)
	if !ok || o.queue.backlog == nil {
		return o.cfg.Transport.Publish(ctx, out.Topic, out.Event)
	}
	at, err := o.inboxHolding(ctx, &t, out.Event.Time, transport.Queue, t.agent, transport.Cortex)
	switch {
	case err != nil:
		return err
	case at == transport.Cortex:
		return o.enqueue(ctx, &t, out.Event)
	case at != "":
		return nil // it was sent before
	case o.queue.admits(ctx, t):
		return o.cfg.Transport.Publish(ctx, out.Topic, out.Event)
	}
	waiting := t
	err = o.queue.reserve(ctx, &waiting)
	switch {
	case err == nil, !o.cfg.Authenticated && o.queue.exchange(&waiting):
		if err = o.enqueue(ctx, &waiting, out.Event); err != nil {
			o.queue.unreserve(&waiting)
		}
		return err
	case o.cfg.Authenticated:
		return err
	}
	return o.cfg.Transport.Publish(ctx, out.Topic, out.Event)
}

// taskOf returns the task that an effect sends to its agent.
func taskOf(conv *conversation.Conversation, out conversation.Effect) (queuedTask, bool) {
	m, ok := out.Event.Payload.(*a2a.Message)
	if !ok || out.Topic.Kind != transport.KindInbox || transport.MetaString(m, transport.MetaTaskID) == "" {
		return queuedTask{}, false
	}
	t := conv.Tasks[out.Event.TaskID]
	if t == nil {
		return queuedTask{}, false
	}
	turn := conv.Turn(t.Turn)
	if turn == nil {
		return queuedTask{}, false
	}
	return queuedTask{agent: t.Agent, requester: conv.Requester(turn), contextID: conv.ContextID, task: t.ID, id: out.Event.ID}, true
}

// enqueue puts a task into the queue's inbox, without its content, which the log has.
func (o *Orchestrator) enqueue(ctx context.Context, t *queuedTask, sends *transport.Event) error {
	task := sends.Payload.(*a2a.Message)
	e := *sends
	e.To, e.Payload = transport.Queue, &a2a.Message{
		ID: task.ID, ContextID: task.ContextID, TaskID: task.TaskID, Role: task.Role, Parts: a2a.ContentParts{a2a.NewTextPart("waits for " + t.agent)},
		Metadata: map[string]any{
			transport.MetaAgentID: t.agent, transport.MetaDeadline: task.Metadata[transport.MetaDeadline], metaChain: t.requester,
		},
	}
	return o.cfg.Transport.Publish(ctx, transport.Inbox(o.cfg.Tenant, transport.Queue), &e)
}

// inboxHolding returns the first of inboxes that has task t, or "". It only searches if t may have been sent so long ago that inboxes have forgotten its
// id. The inboxes are in the order in which a task passes through them; the orchestrator's counts when it has an event of the agent about t.
func (o *Orchestrator) inboxHolding(ctx context.Context, t *queuedTask, sent time.Time, inboxes ...string) (string, error) {
	search, ok := o.cfg.Transport.(transport.InboxSearch)
	if !ok || o.cfg.Now().Sub(sent) < sentLongAgo {
		return "", nil
	}
	for _, inbox := range inboxes {
		like := &transport.Event{ID: t.id, From: transport.Cortex, ContextID: t.contextID, TaskID: t.task}
		if inbox == transport.Cortex {
			like.ID, like.From = "", t.agent
		}
		if held, err := search.Holds(ctx, transport.Inbox(o.cfg.Tenant, inbox), like); err != nil || held {
			return inbox, err
		}
	}
	return "", nil
}

// queued handles a task in the queue: the task waits for its requester's turn, and then goes to its agent's inbox.
func (o *Orchestrator) queued(ctx context.Context, e *transport.Event) error {
	m, ok := e.Payload.(*a2a.Message)
	if !ok || e.From != transport.Cortex || e.TaskID == "" {
		return transport.Permanent(errors.New("it is not a task"))
	}
	due, err := time.Parse(time.RFC3339Nano, transport.MetaString(m, transport.MetaDeadline))
	t := &queuedTask{
		agent: transport.MetaString(m, transport.MetaAgentID), requester: transport.MetaString(m, metaChain),
		contextID: e.ContextID, task: e.TaskID, id: e.ID,
	}
	if t.agent == "" || err != nil {
		return transport.Permanent(errors.New("the task has no agent, or no deadline"))
	}
	t.due = due
	ctx = storage.WithRequester(ctx, t.requester)
	switch end, err := o.queue.wait(ctx, t, releaseUntil(e.Time, due)); {
	case err != nil:
		return transport.Temporary(err)
	case end == withdrawn:
		return nil
	case end == late:
		return o.overdue(ctx, t)
	}
	switch at, err := o.inboxHolding(ctx, t, e.Time, t.agent, transport.Cortex); {
	case err != nil:
		return transport.Temporary(err)
	case at == transport.Cortex:
		return transport.Temporary(fmt.Errorf("task %s: the report of %s about it is not in the log yet", t.task, t.agent))
	case at != "":
		return nil
	}
	return o.sendQueued(ctx, t)
}

// overdue removes a task from the queue after its deadline, but only once the log has its end: until then markWaited must find it there. It also
// removes a task that a replica sent to its agent but could not acknowledge.
func (o *Orchestrator) overdue(ctx context.Context, t *queuedTask) error {
	var like *transport.Event
	err := o.look(ctx, t, true, func(conv *conversation.Conversation) {
		if conv.Wants(t.task, t.id) && conv.Tasks[t.task].Phase == conversation.Given {
			like = conv.Work(conv.Tasks[t.task])
		}
	})
	search, ok := o.cfg.Transport.(transport.InboxSearch)
	if err != nil || like == nil || !ok {
		return err
	}
	handed, err := search.Holds(ctx, transport.Inbox(o.cfg.Tenant, t.agent), like)
	if err != nil || handed {
		return transport.Temporary(err)
	}
	return transport.Temporary(fmt.Errorf("task %s: its deadline has passed, but the log does not have its end yet", t.task))
}

// releaseUntil returns the time until which the queue may send a task: before its deadline by an eighth of its time, at most a second, so that at the
// deadline it is certain whether the agent's inbox has the task.
func releaseUntil(given, due time.Time) time.Time {
	return due.Add(-max(0, min(due.Sub(given)/8, time.Second)))
}

// sendQueued sends a task that has waited, unless it is no longer wanted.
func (o *Orchestrator) sendQueued(ctx context.Context, t *queuedTask) error {
	then, out, wanted, err := o.sending(ctx, t)
	if err != nil || !wanted {
		return err // it was canceled, given to another agent, or erased
	}
	if !o.cfg.Now().Before(t.due) {
		return transport.Temporary(fmt.Errorf("task %s: its time was over before it could be sent to %s", t.task, t.agent))
	}
	err = o.cfg.Transport.Publish(ctx, out.Topic, out.Event)
	switch {
	case errors.Is(err, transport.ErrInvalid):
		conv, lerr := storage.Load(ctx, o.cfg.Store, o.cfg.Tenant, t.contextID)
		if lerr != nil || !conv.Wants(t.task, t.id) {
			return lerr
		}
		return o.unsent(ctx, conv, conv.Tasks[t.task].SentSeq, out, err)
	case err != nil:
		return transport.Temporary(fmt.Errorf("send to %s: %w", t.agent, err))
	}
	return o.recallLate(ctx, t, then)
}

// sending returns what sends a task, and the end of the log that says so; wanted is false when it is not to be sent. It reads the log only if the
// conversation in memory does not end as the log does.
func (o *Orchestrator) sending(ctx context.Context, t *queuedTask) (end *conversation.Entry, out conversation.Effect, wanted bool, err error) {
	end, err = o.endOf(ctx, t.contextID)
	if err != nil || o.asStored(t.contextID, end, func(conv *conversation.Conversation) { out, wanted = conv.Sending(t.task, t.id) }) && wanted {
		return end, out, wanted, err
	}
	stands := false
	err = o.look(ctx, t, false, func(conv *conversation.Conversation) {
		out, wanted = conv.Sending(t.task, t.id)
		stands = end != nil && conv.EndsWith(end)
	})
	if !stands {
		end = nil // it has gone on
	}
	return end, out, wanted, err
}

// endOf returns the last entry of a conversation, or nil when the store does not say it.
func (o *Orchestrator) endOf(ctx context.Context, contextID string) (*conversation.Entry, error) {
	ends, ok := o.cfg.Store.(storage.Ends)
	if !ok {
		return nil, nil
	}
	end, err := ends.End(ctx, o.cfg.Tenant, contextID)
	if err != nil {
		return nil, transport.Temporary(err)
	}
	return end, nil
}

// asStored calls f with the conversation in memory if that ends with this entry. f changes nothing.
func (o *Orchestrator) asStored(contextID string, end *conversation.Entry, f func(*conversation.Conversation)) (is bool) {
	if end == nil {
		return false
	}
	o.folds.Look(conversation.Key{Tenant: o.cfg.Tenant, ContextID: contextID}, func(conv *cache.Fold) {
		if is = conv.EndsWith(end); is {
			f(conv.Conversation)
		}
	})
	return is
}

// recallLate withdraws a task that was stopped after the log ended with then, and before the task was sent: whoever stopped it did not find it in its
// agent's inbox. A later stop finds it there. then is nil when it is unknown.
func (o *Orchestrator) recallLate(ctx context.Context, t *queuedTask, then *conversation.Entry) error {
	w, ok := o.cfg.Transport.(transport.Withdrawer)
	if !ok {
		return nil
	}
	now, err := o.endOf(ctx, t.contextID)
	if err != nil {
		return err
	}
	if now != nil && then != nil && now.Version == then.Version && now.Seq == then.Seq && now.Time.Equal(then.Time) {
		return nil
	}
	wanted := false
	wants := func(conv *conversation.Conversation) { wanted = conv.Wants(t.task, t.id) }
	if !o.asStored(t.contextID, now, wants) {
		if err := o.look(ctx, t, false, wants); err != nil {
			return err
		}
	}
	if wanted {
		return nil
	}
	if err := w.Withdraw(ctx, transport.Inbox(o.cfg.Tenant, t.agent), t.contextID, transport.Cortex, t.id); err != nil {
		return transport.Temporary(fmt.Errorf("take task %s back from %s: %w", t.task, t.agent, err))
	}
	return nil
}
