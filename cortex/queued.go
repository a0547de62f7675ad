package cortex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// metaChain is, of a task in the queue, who began the chain of its turn. Its agent does not get it.
const metaChain = "cortex_chain"

// publish sends an effect, or has it wait in the queue.
func (o *Orchestrator) publish(ctx context.Context, conv *conversation.Conversation, out conversation.Effect) error {
	requester, err := o.toQueue(ctx, conv, out)
	if err != nil {
		return err
	}
	if requester == "" {
		return o.cfg.Transport.Publish(ctx, out.Topic, out.Event)
	}
	e := *out.Event
	m := *e.Payload.(*a2a.Message)
	m.Metadata = maps.Clone(m.Metadata)
	m.Metadata[metaChain] = requester
	e.To, e.Payload = transport.Queue, &m
	return o.cfg.Transport.Publish(ctx, transport.Inbox(conv.Tenant, transport.Queue), &e)
}

// toQueue returns for whom an effect is to wait, if it is a task of somebody who has given an agent more than it can take, or "". It returns
// ErrFull when too many of that requester wait already. Without keys anybody can be any requester: then the task goes to
// its agent.
func (o *Orchestrator) toQueue(ctx context.Context, conv *conversation.Conversation, out conversation.Effect) (string, error) {
	m, ok := out.Event.Payload.(*a2a.Message)
	t := conv.Tasks[out.Event.TaskID]
	if !ok || out.Topic.Kind != transport.KindInbox || t == nil || conv.Turn(t.Turn) == nil || transport.MetaString(m, transport.MetaTaskID) == "" {
		return "", nil
	}
	requester := conv.Requester(conv.Turn(t.Turn))
	if o.maker.Tasks(t.Agent, requester) <= ownTasks || o.queue.admits(ctx, t.Agent) {
		return "", nil
	}
	if err := o.queue.full(requester, t.Agent); err != nil {
		if o.cfg.Authenticated {
			return "", err
		}
		return "", nil
	}
	return requester, nil
}

// queued handles a task in the queue: it waits for its turn, and goes to its agent's inbox.
func (o *Orchestrator) queued(ctx context.Context, e *transport.Event) error {
	m, ok := e.Payload.(*a2a.Message)
	if !ok || e.From != transport.Cortex || e.TaskID == "" {
		return transport.Permanent(errors.New("it is no task"))
	}
	agent := transport.MetaString(m, transport.MetaAgentID)
	due, err := time.Parse(time.RFC3339Nano, transport.MetaString(m, transport.MetaDeadline))
	if agent == "" || err != nil {
		return transport.Permanent(errors.New("the task has no agent, or no deadline"))
	}
	size, _ := json.Marshal(m) // as it is held
	t := &queuedTask{
		agent: agent, requester: transport.MetaString(m, metaChain), contextID: e.ContextID, id: e.ID, bytes: len(size),
	}
	if may, err := o.queue.wait(ctx, t, due); err != nil {
		return transport.Temporary(err)
	} else if !may {
		return nil
	}
	conv, err := storage.Load(ctx, o.cfg.Store, o.cfg.Tenant, e.ContextID)
	if err != nil {
		return err
	}
	if !conv.Wants(e.TaskID, e.ID) {
		return nil // another replica has canceled it, or given it to somebody else, or it is erased
	}
	delete(m.Metadata, metaChain)
	e.To = agent
	if err := o.cfg.Transport.Publish(ctx, transport.Inbox(o.cfg.Tenant, agent), e); errors.Is(err, transport.ErrInvalid) {
		return transport.Permanent(err)
	} else if err != nil {
		return transport.Temporary(fmt.Errorf("send to %s: %w", agent, err))
	}
	return o.recallLate(ctx, conv, agent, e)
}

// recallLate takes a task back that was stopped after conv was loaded and before it was sent: whoever stopped it did not find it in its agent's
// inbox. Who stops it later does.
func (o *Orchestrator) recallLate(ctx context.Context, conv *conversation.Conversation, agent string, e *transport.Event) error {
	w, ok := o.cfg.Transport.(transport.Withdrawer)
	if !ok {
		return nil
	}
	stands, err := refresh(ctx, o.cfg.Store, conv)
	if err == nil && !stands {
		conv, err = storage.Load(ctx, o.cfg.Store, o.cfg.Tenant, e.ContextID)
	}
	if err != nil {
		return err
	}
	if conv.Wants(e.TaskID, e.ID) {
		return nil
	}
	if err := w.Withdraw(ctx, transport.Inbox(o.cfg.Tenant, agent), e.ContextID, transport.Cortex, e.ID); err != nil {
		return transport.Temporary(fmt.Errorf("take task %s back from %s: %w", e.TaskID, agent, err))
	}
	return nil
}
