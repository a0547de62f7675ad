package agenthub

import (
	"context"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/transport"
)

// unrouted is the answer to what is published without routing. It is stored all the same.
var unrouted = &hubpb.PublishResponse{Error: "routing metadata is required"}

// PublishMessage implements [hubpb.AgentHubServer]. A message for Cortex begins a turn; all others are passed on.
func (h *hub) PublishMessage(ctx context.Context, r *hubpb.PublishMessageRequest) (*hubpb.PublishResponse, error) {
	m := r.Message
	switch {
	case m == nil:
		return nil, status.Error(codes.InvalidArgument, "message cannot be nil")
	case m.MessageId == "":
		return nil, status.Error(codes.InvalidArgument, "message_id cannot be empty")
	}
	if err := checkNames(m.MessageId, m.ContextId, m.TaskId, r.Routing.GetFromAgentId(), r.Routing.GetToAgentId()); err != nil {
		return nil, err
	}
	now := h.now()
	var task *hubpb.Task
	if m.TaskId != "" {
		var err error
		if task, err = h.book.message(m, now); err != nil {
			return nil, err
		}
	}
	if r.Routing == nil {
		return unrouted, nil
	}
	e := &hubpb.AgentEvent{
		EventId: eventID("evt", m.MessageId, now), Timestamp: timestamppb.New(now), Payload: &hubpb.AgentEvent_Message{Message: m}, Routing: r.Routing,
	}
	if to := h.addressee(m, r.Routing); to != "" {
		if err := h.chat(ctx, m, r.Routing, to); err != nil {
			return nil, err
		}
		return &hubpb.PublishResponse{Success: true, EventId: e.EventId}, nil
	}
	h.pass(ctx, messages, e)
	if task != nil {
		h.pass(ctx, tasks, &hubpb.AgentEvent{
			EventId: eventID("task", task.Id, now), Timestamp: e.Timestamp, Payload: &hubpb.AgentEvent_Task{Task: task}, Routing: r.Routing,
		})
	}
	return &hubpb.PublishResponse{Success: true, EventId: e.EventId}, nil
}

// addressee returns who answers a message: Cortex, or an agent of Cortex that is none of the hub's own; "" if it is passed on.
func (h *hub) addressee(m *hubpb.Message, r *hubpb.AgentEventMetadata) string {
	to := r.ToAgentId
	switch {
	case to == "" || m.Role != hubpb.Role_ROLE_USER || h.works.of(m.TaskId, "") != nil:
		return ""
	case to == transport.Cortex:
		return to
	case h.exchange.knows(to) || h.guests.has(to):
		return ""
	case to == responder || h.agentCalled(to) != nil:
		return to
	}
	return ""
}

// agentCalled returns the card of an agent of Cortex, or nil.
func (h *hub) agentCalled(id string) *a2a.AgentCard {
	for _, c := range h.at.Agents() {
		if is, err := transport.AgentID(c.Name); err == nil && is == id {
			return c
		}
	}
	return nil
}

// chat begins a turn with a message to Cortex, or to one of its agents.
func (h *hub) chat(ctx context.Context, m *hubpb.Message, r *hubpb.AgentEventMetadata, to string) error {
	if r.FromAgentId == "" {
		return status.Error(codes.InvalidArgument, "from_agent_id cannot be empty: Cortex would not know whom to answer")
	}
	var direct *transport.Direct
	if card := h.agentCalled(to); card != nil && to != responder {
		direct = &transport.Direct{Agent: to, Skill: skillCalled(card, meta(m.Metadata, "task_type"))}
	} else {
		to = transport.Cortex
	}
	conn := connOf(ctx)
	c := newChat(m, r.FromAgentId, to)
	c.conn, c.own = conn, len(on(conn, h.exchange.to(messages, r.FromAgentId, ""))) > 0
	return h.chats.begin(ctx, c, partsOf(m.Content), direct)
}

// connOf returns the address of the connection of a call.
func connOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}

// PublishTaskUpdate implements [hubpb.AgentHubServer].
func (h *hub) PublishTaskUpdate(ctx context.Context, r *hubpb.PublishTaskUpdateRequest) (*hubpb.PublishResponse, error) {
	u := r.Update
	if u == nil {
		return nil, status.Error(codes.InvalidArgument, "update cannot be nil")
	}
	from := r.Routing.GetFromAgentId()
	if err := checkNames(u.TaskId, u.ContextId, from, r.Routing.GetToAgentId()); err != nil {
		return nil, err
	}
	if err := h.book.status(u); err != nil {
		return nil, err
	}
	if r.Routing == nil {
		return unrouted, nil
	}
	h.works.status(u, from)
	now := h.now()
	e := &hubpb.AgentEvent{
		EventId: eventID("status", u.TaskId, now), Timestamp: timestamppb.New(now), Payload: &hubpb.AgentEvent_StatusUpdate{StatusUpdate: u}, Routing: r.Routing,
	}
	h.pass(ctx, tasks, e)
	return &hubpb.PublishResponse{Success: true, EventId: e.EventId}, nil
}

// PublishTaskArtifact implements [hubpb.AgentHubServer].
func (h *hub) PublishTaskArtifact(ctx context.Context, r *hubpb.PublishTaskArtifactRequest) (*hubpb.PublishResponse, error) {
	u := r.Artifact
	if u == nil || u.Artifact == nil {
		return nil, status.Error(codes.InvalidArgument, "artifact cannot be nil")
	}
	from := r.Routing.GetFromAgentId()
	if err := checkNames(u.TaskId, u.ContextId, u.Artifact.ArtifactId, from, r.Routing.GetToAgentId()); err != nil {
		return nil, err
	}
	if err := h.book.artifact(u); err != nil {
		return nil, err
	}
	if r.Routing == nil {
		return unrouted, nil
	}
	if err := h.works.artifact(u, from); err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	now := h.now()
	e := &hubpb.AgentEvent{
		EventId: eventID("artifact", u.TaskId, now), Timestamp: timestamppb.New(now), Payload: &hubpb.AgentEvent_ArtifactUpdate{ArtifactUpdate: u}, Routing: r.Routing,
	}
	h.pass(ctx, tasks, e)
	return &hubpb.PublishResponse{Success: true, EventId: e.EventId}, nil
}
