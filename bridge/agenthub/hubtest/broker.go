package hubtest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
)

// Broker behaves as AgentHub's own broker: it sends to whoever is there, the sender included, and keeps nothing for the others.
type Broker struct {
	hubpb.UnimplementedAgentHubServer

	mu      sync.Mutex
	streams map[string]map[string][]chan *hubpb.AgentEvent // by kind and agent
	tasks   map[string]*hubpb.Task
}

// Serve serves at an address until the returned function is called.
func (b *Broker) Serve(address string) (at string, stop func(), err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, err
	}
	b.mu.Lock()
	b.streams, b.tasks = map[string]map[string][]chan *hubpb.AgentEvent{"messages": {}, "tasks": {}, "events": {}}, map[string]*hubpb.Task{}
	b.mu.Unlock()
	s := grpc.NewServer()
	hubpb.RegisterAgentHubServer(s, b)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(l)
	}()
	return l.Addr().String(), func() {
		s.Stop()
		<-ended
	}, nil
}

// Has reports whether an agent has subscribed to a kind of events.
func (b *Broker) Has(kind, agent string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.streams[kind][agent]) > 0
}

func (b *Broker) subscribe(kind, agent string, to grpc.ServerStreamingServer[hubpb.AgentEvent]) error {
	if agent == "" {
		return status.Error(codes.InvalidArgument, "agent_id cannot be empty")
	}
	events := make(chan *hubpb.AgentEvent, 10)
	b.mu.Lock()
	b.streams[kind][agent] = append(b.streams[kind][agent], events)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		var rest []chan *hubpb.AgentEvent
		for _, one := range b.streams[kind][agent] {
			if one != events {
				rest = append(rest, one)
			}
		}
		b.streams[kind][agent] = rest
	}()
	for {
		select {
		case e := <-events:
			if err := to.Send(e); err != nil {
				return err
			}
		case <-to.Context().Done():
			return to.Context().Err()
		}
	}
}

// send sends an event to streams of a kind, and to those for events.
func (b *Broker) send(kind string, e *hubpb.AgentEvent) {
	b.mu.Lock()
	var all []chan *hubpb.AgentEvent
	for _, k := range []string{kind, "events"} { // twice, if it is a card
		for agent, some := range b.streams[k] {
			if to := e.Routing.ToAgentId; to == "" || to == agent {
				all = append(all, some...)
			}
		}
	}
	b.mu.Unlock()
	for _, one := range all {
		select {
		case one <- e:
		case <-time.After(5 * time.Second):
		}
	}
}

// SubscribeToMessages implements [hubpb.AgentHubServer].
func (b *Broker) SubscribeToMessages(r *hubpb.SubscribeToMessagesRequest, to grpc.ServerStreamingServer[hubpb.AgentEvent]) error {
	return b.subscribe("messages", r.AgentId, to)
}

// SubscribeToTasks implements [hubpb.AgentHubServer].
func (b *Broker) SubscribeToTasks(r *hubpb.SubscribeToTasksRequest, to grpc.ServerStreamingServer[hubpb.AgentEvent]) error {
	return b.subscribe("tasks", r.AgentId, to)
}

// SubscribeToAgentEvents implements [hubpb.AgentHubServer].
func (b *Broker) SubscribeToAgentEvents(r *hubpb.SubscribeToAgentEventsRequest, to grpc.ServerStreamingServer[hubpb.AgentEvent]) error {
	return b.subscribe("events", r.AgentId, to)
}

// PublishMessage implements [hubpb.AgentHubServer].
func (b *Broker) PublishMessage(_ context.Context, r *hubpb.PublishMessageRequest) (*hubpb.PublishResponse, error) {
	m := r.Message
	if m == nil || m.MessageId == "" {
		return nil, status.Error(codes.InvalidArgument, "message_id cannot be empty")
	}
	var task *hubpb.Task
	if m.TaskId != "" {
		b.mu.Lock()
		t := b.tasks[m.TaskId]
		if t == nil {
			t = &hubpb.Task{Id: m.TaskId, ContextId: m.ContextId, Metadata: m.Metadata, Status: &hubpb.TaskStatus{State: hubpb.TaskState_TASK_STATE_SUBMITTED}}
			b.tasks[m.TaskId] = t
		} else {
			t.Status.Update = m
		}
		t.History = append(t.History, m)
		task = proto.CloneOf(t)
		b.mu.Unlock()
	}
	if r.Routing == nil {
		return &hubpb.PublishResponse{Error: "routing metadata is required"}, nil
	}
	id := fmt.Sprintf("evt_%s_%d", m.MessageId, time.Now().Unix())
	b.send("messages", &hubpb.AgentEvent{EventId: id, Routing: r.Routing, Payload: &hubpb.AgentEvent_Message{Message: m}})
	if task != nil {
		b.send("tasks", &hubpb.AgentEvent{EventId: "task_" + task.Id, Routing: r.Routing, Payload: &hubpb.AgentEvent_Task{Task: task}})
	}
	return &hubpb.PublishResponse{Success: true, EventId: id}, nil
}

// PublishTaskUpdate implements [hubpb.AgentHubServer].
func (b *Broker) PublishTaskUpdate(_ context.Context, r *hubpb.PublishTaskUpdateRequest) (*hubpb.PublishResponse, error) {
	b.send("tasks", &hubpb.AgentEvent{EventId: "status_" + r.Update.TaskId, Routing: r.Routing, Payload: &hubpb.AgentEvent_StatusUpdate{StatusUpdate: r.Update}})
	return &hubpb.PublishResponse{Success: true}, nil
}

// PublishTaskArtifact implements [hubpb.AgentHubServer].
func (b *Broker) PublishTaskArtifact(_ context.Context, r *hubpb.PublishTaskArtifactRequest) (*hubpb.PublishResponse, error) {
	b.send("tasks", &hubpb.AgentEvent{EventId: "artifact_" + r.Artifact.TaskId, Routing: r.Routing, Payload: &hubpb.AgentEvent_ArtifactUpdate{ArtifactUpdate: r.Artifact}})
	return &hubpb.PublishResponse{Success: true}, nil
}

// RegisterAgent implements [hubpb.AgentHubServer].
func (b *Broker) RegisterAgent(_ context.Context, r *hubpb.RegisterAgentRequest) (*hubpb.RegisterAgentResponse, error) {
	name := r.AgentCard.GetName()
	b.send("events", &hubpb.AgentEvent{
		EventId: fmt.Sprintf("agent_registered_%s_%d", name, time.Now().UnixNano()), Routing: &hubpb.AgentEventMetadata{FromAgentId: name, EventType: "agent.registered"},
		Payload: &hubpb.AgentEvent_AgentCard{AgentCard: &hubpb.AgentCardEvent{AgentId: name, AgentCard: r.AgentCard, EventType: "registered"}},
	})
	return &hubpb.RegisterAgentResponse{Success: true, AgentId: name}, nil
}
