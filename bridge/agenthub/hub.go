package agenthub

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/cortex-orchestrator/cortex/app/role"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/transport"
)

// responder is the agent that AgentHub's chat program speaks to. Cortex is that too, unless somebody else has subscribed as it.
const responder = "agent_chat_responder"

// hub is AgentHub's broker.
type hub struct {
	hubpb.UnimplementedAgentHubServer
	*bridge
	exchange *exchange
	book     book
	stopping context.Context //nolint:containedctx // ends the streams
}

func newHub(at *role.Site, prefix string, t times) (*hub, error) {
	h := &hub{exchange: newExchange()}
	var err error
	h.bridge, err = newBridge(at, prefix, t, h)
	return h, err
}

// give implements line.
func (h *hub) give(ctx context.Context, t *hubpb.Task, agent string) (lost <-chan struct{}, err error) {
	if err := h.book.put(t); err != nil {
		return nil, err
	}
	kind := meta(t.Metadata, "task_type")
	for {
		s, k, wait := h.exchange.one(agent)
		if s == nil {
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		now := h.now()
		e := &hubpb.AgentEvent{
			EventId: eventID("task", t.Id, now), Timestamp: timestamppb.New(now), Payload: &hubpb.AgentEvent_Task{Task: t},
			Routing: route(agent, "a2a.task."+kind, hubpb.Priority_PRIORITY_MEDIUM),
		}
		if k == messages {
			e.EventId, e.Payload = eventID("evt", t.History[0].MessageId, now), &hubpb.AgentEvent_Message{Message: t.History[0]}
		}
		if s.put(ctx, weighed(e)) {
			return s.ended, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// cancel implements line.
func (h *hub) cancel(t *hubpb.Task, agent, reason string) {
	canceled, err := h.book.cancel(t.Id, reason, h.now())
	if err == nil {
		h.wg.Go(func() { h.tellCanceled(h.ctx, canceled, agent) })
	}
}

// tellCanceled tells an agent that a task is canceled; with "" all of them.
func (h *hub) tellCanceled(ctx context.Context, t *hubpb.Task, agent string) {
	now := h.now()
	u := &hubpb.TaskStatusUpdateEvent{TaskId: t.Id, ContextId: t.ContextId, Status: t.Status, Final: true}
	h.pass(ctx, tasks, &hubpb.AgentEvent{
		EventId: eventID("status", t.Id, now), Timestamp: timestamppb.New(now), Payload: &hubpb.AgentEvent_StatusUpdate{StatusUpdate: u},
		Routing: route(agent, "task_cancelled", hubpb.Priority_PRIORITY_HIGH),
	})
}

// answer implements line. What is said first to whoever was there when they asked is a response; all else is a result, which does not disturb a program
// that waits for the response to something else.
func (h *hub) answer(ctx context.Context, c *chat, r *reply, sent func()) (receipt, error) {
	for ctx.Err() == nil {
		conn, own := h.chats.came(c)
		there, wait := h.exchange.has(messages, c.Peer)
		if !there {
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		all := h.exchange.to(messages, c.Peer, "")
		if mine := on(conn, all); len(mine) > 0 {
			all = mine
		}
		sent()
		sent = func() {}
		got := receipt{}
		for _, s := range all {
			kind := taskResult
			if !r.late && !s.since.After(c.At) && (s.conn == conn || !own) {
				kind = chatResponse
			}
			now := h.now()
			e := event(r.message(c, kind, now), c.Peer, "a2a.message."+kind, now)
			e.Routing.FromAgentId = c.As
			if s.put(ctx, weighed(e)) {
				got = append(got, s.ended)
			}
		}
		if len(got) > 0 {
			return got, nil
		}
	}
	return nil, ctx.Err()
}

// on returns the streams on a connection.
func on(conn string, all []*stream) (some []*stream) {
	for _, s := range all {
		if s.conn == conn {
			some = append(some, s)
		}
	}
	return some
}

// pass sends an event to the streams of a kind that its routing names, and to those for events.
func (h *hub) pass(ctx context.Context, k kind, e *hubpb.AgentEvent) {
	to, from := e.Routing.GetToAgentId(), e.Routing.GetFromAgentId()
	wait := h.times.behind
	if to == "" {
		wait = h.times.behindAll
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	all := h.exchange.to(events, to, from)
	if k != events {
		all = append(h.exchange.to(k, to, from), all...)
	}
	one := weighed(e)
	for _, s := range all {
		if !s.put(ctx, one) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			h.at.Logger.Warn("event dropped: a subscriber takes none", "peer", s.of, "event_id", e.EventId)
		}
	}
}

// agent implements line. It waits for nobody: a subscriber that is behind misses the event.
func (h *hub) agent(e *transport.AgentEvent) {
	kind := e.Kind
	switch kind {
	case "registered", "updated":
	case transport.AgentGone:
		kind = "unregistered"
	default:
		return
	}
	all := h.exchange.to(events, "", "")
	if len(all) == 0 {
		return
	}
	card := weighed(h.directoryEvent(e.AgentID, kind))
	at, cancel := context.WithCancel(h.ctx)
	cancel()
	for _, s := range all {
		s.put(at, card)
	}
}

// directoryEvent returns an event that says of an agent what there is to know of it.
func (h *hub) directoryEvent(id, kind string) *hubpb.AgentEvent {
	name := h.guests.named(id)
	card := &hubpb.AgentCard{Name: name}
	if c := h.agentCalled(id); c != nil {
		card = shownCard(c)
		card.Name = name
	}
	now := h.now()
	return &hubpb.AgentEvent{
		EventId:   fmt.Sprintf("agent_%s_%s_%d", kind, name, now.UnixNano()),
		Timestamp: timestamppb.New(now),
		Payload:   &hubpb.AgentEvent_AgentCard{AgentCard: &hubpb.AgentCardEvent{AgentId: name, AgentCard: card, EventType: kind}},
		Routing:   &hubpb.AgentEventMetadata{FromAgentId: name, EventType: "agent." + kind, Priority: hubpb.Priority_PRIORITY_HIGH},
	}
}
