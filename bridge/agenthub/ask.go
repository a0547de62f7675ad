package agenthub

import (
	"context"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
)

// RegisterAgent implements [hubpb.AgentHubServer]. An agent that Cortex cannot have is refused in words, and can still speak to other programs.
func (h *hub) RegisterAgent(ctx context.Context, r *hubpb.RegisterAgentRequest) (*hubpb.RegisterAgentResponse, error) {
	name := r.AgentCard.GetName()
	switch {
	case r.AgentCard == nil:
		return &hubpb.RegisterAgentResponse{Error: "agent_card is required"}, nil
	case name == "":
		return &hubpb.RegisterAgentResponse{Error: "agent name is required"}, nil
	}
	if err := checkNames(name); err != nil {
		return nil, err
	}
	card, err := cardOf(r.AgentCard, h.prefix)
	if err == nil {
		err = h.guests.register(ctx, name, card, kit.Other(connOf(ctx)))
	}
	if err != nil {
		return &hubpb.RegisterAgentResponse{Error: err.Error()}, nil
	}
	return &hubpb.RegisterAgentResponse{Success: true, AgentId: name}, nil
}

// GetTask implements [hubpb.AgentHubServer].
func (h *hub) GetTask(_ context.Context, r *hubpb.GetTaskRequest) (*hubpb.Task, error) {
	return h.book.get(r.TaskId, r.HistoryLength)
}

// CancelTask implements [hubpb.AgentHubServer].
func (h *hub) CancelTask(ctx context.Context, r *hubpb.CancelTaskRequest) (*hubpb.Task, error) {
	t, err := h.book.cancel(r.TaskId, r.Reason, h.now())
	if err != nil {
		return nil, err
	}
	if w := h.works.of(t.Id, ""); w != nil {
		w.settle(t.Status)
	}
	h.tellCanceled(ctx, t, "")
	return t, nil
}

// ListTasks implements [hubpb.AgentHubServer]. Unlike the real hub it has pages, the newest tasks first.
func (h *hub) ListTasks(_ context.Context, r *hubpb.ListTasksRequest) (*hubpb.ListTasksResponse, error) {
	all, next, err := h.book.list(r)
	if err != nil {
		return nil, err
	}
	return &hubpb.ListTasksResponse{Tasks: all, NextPageToken: next}, nil
}

// GetAgentCard implements [hubpb.AgentHubServer]: the card is the hub's.
func (h *hub) GetAgentCard(context.Context, *emptypb.Empty) (*hubpb.AgentCard, error) {
	return hubCard(), nil
}
