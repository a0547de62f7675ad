package agenthub

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubtest"
)

func wantError(t *testing.T, what string, err error, code codes.Code, text string) {
	t.Helper()
	if s := status.Convert(err); s.Code() != code || s.Message() != text {
		t.Errorf("%s: %v %q, want %v %q", what, s.Code(), s.Message(), code, text)
	}
}

// TestErrors checks what the hub refuses, by code and words, and what it only stores.
func TestErrors(t *testing.T) {
	w := newWorld(t)
	w.serve()
	hub, ctx := w.dial(), t.Context()
	const unrouted = "routing metadata is required"
	routing := &hubpb.AgentEventMetadata{FromAgentId: "a"}
	task := func(id string) *hubpb.Message {
		return &hubpb.Message{MessageId: "m-" + id, TaskId: id, ContextId: "c", Role: hubpb.Role_ROLE_USER, Content: []*hubpb.Part{hubtest.Text("do")}, Metadata: hubtest.Metadata("task_type", "x")}
	}
	wantSaid := func(what string, r *hubpb.PublishResponse, err error, said string) {
		t.Helper()
		if err != nil || r.Success != (said == "") || r.Error != said {
			t.Errorf("%s: %v, %v", what, r, err)
		}
	}

	_, err := hub.PublishMessage(ctx, &hubpb.PublishMessageRequest{Routing: routing})
	wantError(t, "no message", err, codes.InvalidArgument, "message cannot be nil")
	_, err = hub.PublishMessage(ctx, &hubpb.PublishMessageRequest{Message: &hubpb.Message{}, Routing: routing})
	wantError(t, "no id", err, codes.InvalidArgument, "message_id cannot be empty")
	r, err := hub.PublishMessage(ctx, &hubpb.PublishMessageRequest{Message: task("t1")})
	wantSaid("a message without routing", r, err, unrouted)
	r, err = hub.PublishMessage(ctx, &hubpb.PublishMessageRequest{Message: task("t2"), Routing: routing})
	wantSaid("a message for nobody", r, err, "")
	if !strings.HasPrefix(r.EventId, "evt_m-t2_") {
		t.Errorf("event_id %q", r.EventId)
	}
	_, err = hub.PublishMessage(ctx, &hubpb.PublishMessageRequest{Message: &hubpb.Message{MessageId: "m", Role: hubpb.Role_ROLE_USER, Content: []*hubpb.Part{hubtest.Text("hi")}}, Routing: &hubpb.AgentEventMetadata{ToAgentId: "cortex"}})
	wantError(t, "a chat of nobody", err, codes.InvalidArgument, "from_agent_id cannot be empty: Cortex would not know whom to answer")

	_, err = hub.PublishTaskUpdate(ctx, &hubpb.PublishTaskUpdateRequest{Routing: routing})
	wantError(t, "no update", err, codes.InvalidArgument, "update cannot be nil")
	update := &hubpb.TaskStatusUpdateEvent{TaskId: "t1", Status: &hubpb.TaskStatus{State: hubpb.TaskState_TASK_STATE_WORKING}}
	r, err = hub.PublishTaskUpdate(ctx, &hubpb.PublishTaskUpdateRequest{Update: update})
	wantSaid("an update without routing", r, err, unrouted)
	r, err = hub.PublishTaskUpdate(ctx, &hubpb.PublishTaskUpdateRequest{Update: &hubpb.TaskStatusUpdateEvent{TaskId: "new", Status: update.Status}, Routing: routing})
	wantSaid("an update of a task that is not known", r, err, "")
	if !strings.HasPrefix(r.EventId, "status_new_") {
		t.Errorf("event_id %q", r.EventId)
	}

	_, err = hub.PublishTaskArtifact(ctx, &hubpb.PublishTaskArtifactRequest{Routing: routing})
	wantError(t, "no artifact", err, codes.InvalidArgument, "artifact cannot be nil")
	for _, piece := range []struct {
		text string
		add  bool
	}{{"lost", false}, {"one ", false}, {"two", true}} {
		r, err = hub.PublishTaskArtifact(ctx, &hubpb.PublishTaskArtifactRequest{Routing: routing, Artifact: &hubpb.TaskArtifactUpdateEvent{
			TaskId: "t1", Append: piece.add, Artifact: &hubpb.Artifact{ArtifactId: "a", Parts: []*hubpb.Part{hubtest.Text(piece.text)}},
		}})
		wantSaid("an artifact", r, err, "")
	}

	_, err = hub.GetTask(ctx, &hubpb.GetTaskRequest{TaskId: "none"})
	wantError(t, "GetTask", err, codes.NotFound, "task not found")
	_, err = hub.CancelTask(ctx, &hubpb.CancelTaskRequest{TaskId: "none"})
	wantError(t, "CancelTask", err, codes.NotFound, "task not found")
	again := task("t1")
	again.MessageId = "m-again"
	_, err = hub.PublishMessage(ctx, &hubpb.PublishMessageRequest{Message: again, Routing: routing})
	must(t, err)
	got, err := hub.GetTask(ctx, &hubpb.GetTaskRequest{TaskId: "t1", HistoryLength: 1})
	must(t, err)
	if got.Status.State != hubpb.TaskState_TASK_STATE_WORKING || got.Status.Update.GetMessageId() != "m-again" || len(got.History) != 1 || got.History[0].MessageId != "m-again" ||
		len(got.Artifacts) != 1 || len(got.Artifacts[0].Parts) != 2 || got.Artifacts[0].Parts[0].GetText() != "one " || meta(got.Metadata, "task_type") != "x" {
		t.Errorf("the task is %v", got)
	}
	got, err = hub.CancelTask(ctx, &hubpb.CancelTaskRequest{TaskId: "t1", Reason: "enough"})
	if err != nil || got.Status.State != hubpb.TaskState_TASK_STATE_CANCELLED || words(got.Status.Update) != "Task cancelled: enough" || len(got.History) != 2 {
		t.Errorf("CancelTask = %v, %v", got, err)
	}
	_, err = hub.CancelTask(ctx, &hubpb.CancelTaskRequest{TaskId: "t1"})
	wantError(t, "CancelTask again", err, codes.FailedPrecondition, "task cannot be cancelled in current state")
	list, err := hub.ListTasks(ctx, &hubpb.ListTasksRequest{ContextId: "c"})
	if err != nil || len(list.Tasks) != 2 || list.NextPageToken != "" {
		t.Errorf("ListTasks = %v, %v", list, err)
	}
	list, err = hub.ListTasks(ctx, &hubpb.ListTasksRequest{PageSize: 1})
	must(t, err)
	first := list.Tasks[0].Id
	list, err = hub.ListTasks(ctx, &hubpb.ListTasksRequest{PageToken: list.NextPageToken})
	if err != nil || first != "new" || len(list.Tasks) != 2 || list.Tasks[0].Id != "t2" {
		t.Errorf("after %s: %v, %v", first, list, err)
	}

	for what, subscribe := range map[string]func(id string) error{
		"messages": func(id string) error {
			s, err := hub.SubscribeToMessages(ctx, &hubpb.SubscribeToMessagesRequest{AgentId: id})
			must(t, err)
			_, err = s.Recv()
			return err
		},
		"tasks": func(id string) error {
			s, err := hub.SubscribeToTasks(ctx, &hubpb.SubscribeToTasksRequest{AgentId: id})
			must(t, err)
			_, err = s.Recv()
			return err
		},
		"events": func(id string) error {
			s, err := hub.SubscribeToAgentEvents(ctx, &hubpb.SubscribeToAgentEventsRequest{AgentId: id})
			must(t, err)
			_, err = s.Recv()
			return err
		},
	} {
		wantError(t, what, subscribe(""), codes.InvalidArgument, "agent_id cannot be empty")
		wantError(t, what, subscribe("cortex"), codes.AlreadyExists, "cortex is this hub itself: subscribe with another agent_id")
		if err := subscribe(strings.Repeat("x", maxName+1)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s with a long name: %v", what, err)
		}
	}

	for _, want := range []struct {
		card *hubpb.AgentCard
		said string
	}{
		{nil, "agent_card is required"},
		{&hubpb.AgentCard{}, "agent name is required"},
		{&hubpb.AgentCard{Name: "cortex"}, "the name cortex is Cortex's own: choose another, or start Cortex with --agenthub-prefix"},
		{&hubpb.AgentCard{Name: "user:ada"}, `card: "user:ada" is kept for people`},
		{&hubpb.AgentCard{Name: "rtfs:anonymous"}, `card: "rtfs:anonymous": an agent's own name does not begin with "rtfs:", by which ids are told apart`},
	} {
		r, err := hub.RegisterAgent(ctx, &hubpb.RegisterAgentRequest{AgentCard: want.card})
		if err != nil || r.Success || r.Error != want.said {
			t.Errorf("RegisterAgent(%v) = %v, %v", want.card, r, err)
		}
	}
	reg, err := hub.RegisterAgent(ctx, &hubpb.RegisterAgentRequest{AgentCard: &hubpb.AgentCard{Name: "a b"}})
	if err != nil || !reg.Success || reg.AgentId != "a b" {
		t.Errorf("RegisterAgent = %v, %v", reg, err)
	}
	card, err := hub.GetAgentCard(ctx, &emptypb.Empty{})
	if err != nil || card.ProtocolVersion != "0.2.9" || card.PreferredTransport != "GRPC" || len(card.Skills) != 2 || card.Skills[0].Id != "message-routing" || card.Skills[1].Id != "task-coordination" {
		t.Errorf("the hub's card is %v, %v", card, err)
	}
}
