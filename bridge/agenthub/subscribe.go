package agenthub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxName bounds the ids that peers make, in bytes.
const maxName = 256

// checkNames returns an error if one of the ids that a peer made is too long.
func checkNames(names ...string) error {
	for _, name := range names {
		if len(name) > maxName {
			return status.Error(codes.InvalidArgument, fmt.Sprintf("an id has %d bytes: at most %d are allowed", len(name), maxName))
		}
	}
	return nil
}

// outgoing is a stream of events to a peer.
type outgoing = grpc.ServerStreamingServer[hubpb.AgentEvent]

// SubscribeToMessages implements [hubpb.AgentHubServer]. As with the real hub, filters have no effect.
func (h *hub) SubscribeToMessages(r *hubpb.SubscribeToMessagesRequest, to outgoing) error {
	return h.subscribe(messages, r.AgentId, to)
}

// SubscribeToTasks implements [hubpb.AgentHubServer].
func (h *hub) SubscribeToTasks(r *hubpb.SubscribeToTasksRequest, to outgoing) error {
	return h.subscribe(tasks, r.AgentId, to)
}

// SubscribeToAgentEvents implements [hubpb.AgentHubServer]. A subscriber is first told of the agents that are there.
func (h *hub) SubscribeToAgentEvents(r *hubpb.SubscribeToAgentEventsRequest, to outgoing) error {
	return h.subscribe(events, r.AgentId, to)
}

// subscribe sends a peer its events until the stream or the hub ends.
func (h *hub) subscribe(k kind, of string, to outgoing) error {
	ctx := to.Context()
	kit.Arrived(ctx)
	kit.Leave(ctx)
	switch {
	case of == "":
		return status.Error(codes.InvalidArgument, "agent_id cannot be empty")
	case of == transport.Cortex:
		return status.Error(codes.AlreadyExists, "cortex is this hub itself: subscribe with another agent_id")
	}
	if err := checkNames(of); err != nil {
		return err
	}
	s := newStream(ctx, of, connOf(ctx), time.Now())
	if err := h.exchange.open(k, s); err != nil {
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	defer h.exchange.close(k, s)
	if k != events {
		h.guests.opened(of)
		defer h.guests.closed(of)
	} else {
		for _, c := range h.at.Agents() {
			if id, err := transport.AgentID(c.Name); err == nil {
				if err := to.Send(h.directoryEvent(id, "registered")); err != nil {
					return err
				}
			}
		}
	}
	for {
		select {
		case <-s.more:
		case <-ctx.Done():
			return h.cut(ctx, of, ctx.Err())
		case <-h.stopping.Done():
			return status.Error(codes.Unavailable, "the hub ends")
		}
		for _, e := range s.take() {
			if err := to.SendMsg(&kit.Told{Message: e.AgentEvent, Written: func() { h.exchange.sent(s, e.weight) }}); err != nil {
				return h.cut(ctx, of, err)
			}
		}
	}
}

// cut returns why a stream to a peer has ended.
func (h *hub) cut(ctx context.Context, of string, err error) error {
	if !errors.Is(context.Cause(ctx), errBehind) {
		return err
	}
	h.at.Logger.Warn("subscription ended: too much waits for the program", "peer", of)
	return status.Error(codes.ResourceExhausted, errBehind.Error())
}
