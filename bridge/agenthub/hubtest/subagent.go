package hubtest

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
)

// SubAgent behaves as the agents that are built with AgentHub's library. It does not survive the end of its stream.
type SubAgent struct {
	ID       string
	Skills   []Skill
	Silent   bool // it does not register, as the subscriber
	OnStream func()
	// Refused is called when the registration has not succeeded; the library does not look.
	Refused func(why string)
}

// Skill is a skill of a SubAgent. Do returns the state, and the artifact unless it is nil.
type Skill struct {
	Name, About string
	Do          func(ctx context.Context, t *hubpb.Task, input *hubpb.Message) (hubpb.TaskState, *hubpb.Artifact)
}

// Run registers and works until the stream ends, and returns its error.
func (a *SubAgent) Run(ctx context.Context, hub hubpb.AgentHubClient) error {
	if !a.Silent {
		card := &hubpb.AgentCard{ProtocolVersion: "0.2.9", Name: a.ID, Description: "Works for others", Version: "1.0.0", Capabilities: &hubpb.AgentCapabilities{}}
		for i, s := range a.Skills {
			card.Skills = append(card.Skills, &hubpb.AgentSkill{
				Id: fmt.Sprintf("skill_%d", i), Name: s.Name, Description: s.About, Tags: []string{s.Name}, InputModes: []string{"text/plain"}, OutputModes: []string{"text/plain"},
			})
		}
		r, err := hub.RegisterAgent(ctx, &hubpb.RegisterAgentRequest{AgentCard: card})
		if err != nil {
			return err
		}
		if !r.Success && a.Refused != nil {
			a.Refused(r.Error)
		}
	}
	stream, err := hub.SubscribeToTasks(ctx, &hubpb.SubscribeToTasksRequest{AgentId: a.ID})
	if err != nil {
		return err
	}
	if a.OnStream != nil {
		a.OnStream()
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			return err
		}
		go a.handle(ctx, hub, e)
	}
}

// handle does what an event asks for.
func (a *SubAgent) handle(ctx context.Context, hub hubpb.AgentHubClient, e *hubpb.AgentEvent) {
	t := e.GetTask()
	if m := e.GetMessage(); m.GetTaskId() != "" {
		t, _ = hub.GetTask(ctx, &hubpb.GetTaskRequest{TaskId: m.TaskId})
	}
	kind := t.GetMetadata().GetFields()["task_type"].GetStringValue()
	if kind == "" {
		return
	}
	var input *hubpb.Message
	for _, m := range t.History {
		if m.TaskId == t.Id && m.Role != hubpb.Role_ROLE_UNSPECIFIED {
			input = m
			break
		}
	}
	state, artifact := hubpb.TaskState_TASK_STATE_FAILED, (*hubpb.Artifact)(nil)
	for _, s := range a.Skills {
		if s.Name == kind && input != nil {
			state, artifact = s.Do(ctx, t, input)
		}
	}
	routing := &hubpb.AgentEventMetadata{FromAgentId: a.ID, EventType: "task_completion", Priority: hubpb.Priority_PRIORITY_MEDIUM}
	now := timestamppb.Now()
	update := &hubpb.Message{
		MessageId: fmt.Sprintf("completion_%s_%d", t.Id, now.Seconds), ContextId: t.ContextId, TaskId: t.Id, Role: hubpb.Role_ROLE_AGENT,
		Content:  []*hubpb.Part{Text("Task completed with status: " + state.String())},
		Metadata: Metadata("executor_agent_id", a.ID, "status", state.String()),
	}
	_, _ = hub.PublishTaskUpdate(ctx, &hubpb.PublishTaskUpdateRequest{Routing: routing, Update: &hubpb.TaskStatusUpdateEvent{
		TaskId: t.Id, ContextId: t.ContextId, Status: &hubpb.TaskStatus{State: state, Update: update, Timestamp: now}, Final: true,
	}})
	if artifact == nil {
		return
	}
	routing = &hubpb.AgentEventMetadata{FromAgentId: a.ID, EventType: "task_artifact", Priority: hubpb.Priority_PRIORITY_MEDIUM}
	_, _ = hub.PublishTaskArtifact(ctx, &hubpb.PublishTaskArtifactRequest{Routing: routing, Artifact: &hubpb.TaskArtifactUpdateEvent{
		TaskId: t.Id, ContextId: t.ContextId, Artifact: artifact, LastChunk: true,
	}})
}

// Echo returns an agent as the program echo_agent is one.
func Echo() *SubAgent {
	return &SubAgent{ID: "agent_echo", Skills: []Skill{{Name: "Echo Messages", About: "Echoes back any text message", Do: EchoText}}}
}

// EchoText says the first text of its input again.
func EchoText(_ context.Context, t *hubpb.Task, input *hubpb.Message) (hubpb.TaskState, *hubpb.Artifact) {
	for _, p := range input.Content {
		if text := p.GetText(); text != "" {
			return hubpb.TaskState_TASK_STATE_COMPLETED, &hubpb.Artifact{
				ArtifactId: fmt.Sprintf("echo_%s_%d", t.Id, time.Now().Unix()), Name: "echo_response", Parts: []*hubpb.Part{Text("Echo: " + text)},
			}
		}
	}
	return hubpb.TaskState_TASK_STATE_FAILED, nil
}

// Subscriber returns an agent as the program subscriber is one.
func Subscriber(done func(kind string)) *SubAgent {
	a := &SubAgent{ID: "agent_demo_subscriber", Silent: true}
	for _, kind := range []string{"greeting", "math_calculation", "random_number"} {
		a.Skills = append(a.Skills, Skill{Name: kind, Do: func(context.Context, *hubpb.Task, *hubpb.Message) (hubpb.TaskState, *hubpb.Artifact) {
			done(kind)
			return hubpb.TaskState_TASK_STATE_COMPLETED, &hubpb.Artifact{ArtifactId: kind, Name: kind, Parts: []*hubpb.Part{Text("done")}}
		}})
	}
	return a
}

// Text returns a part with a text.
func Text(text string) *hubpb.Part { return &hubpb.Part{Part: &hubpb.Part_Text{Text: text}} }

// Metadata returns pairs of names and values.
func Metadata(pairs ...string) *structpb.Struct {
	s := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for i := 0; i < len(pairs); i += 2 {
		s.Fields[pairs[i]] = structpb.NewStringValue(pairs[i+1])
	}
	return s
}
