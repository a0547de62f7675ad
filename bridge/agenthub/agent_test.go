package agenthub

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubtest"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestEcho has Cortex give work to an agent as echo_agent is one: by the name of its skill, with the artifact after the status.
func TestEcho(t *testing.T) {
	w := newWorld(t)
	w.serve()
	w.join(hubtest.Echo())
	if got := w.ask("c", "agent_echo: say it back"); got != "TASK_STATE_COMPLETED: Echo: say it back" {
		t.Errorf("the answer is %q", got)
	}
	r, _ := w.Directory.Registry.Snapshot().Get("agent_echo")
	if s := r.Card.Skills[0]; s.ID != "echo-messages" || s.Name != "Echo Messages" {
		t.Errorf("the skill is %+v", s)
	}
	list, err := w.dial().ListTasks(t.Context(), &hubpb.ListTasksRequest{States: []hubpb.TaskState{hubpb.TaskState_TASK_STATE_COMPLETED}})
	if err != nil || len(list.Tasks) != 1 || len(list.Tasks[0].Artifacts) != 1 || list.Tasks[0].Metadata.Fields["task_type"].GetStringValue() != "Echo Messages" {
		t.Errorf("the book has %v, %v", list, err)
	}
}

// TestFailed checks that an agent that has no such skill fails, without the words that say nothing.
func TestFailed(t *testing.T) {
	w := newWorld(t)
	w.serve()
	a := hubtest.Echo()
	a.Skills[0].Do = func(context.Context, *hubpb.Task, *hubpb.Message) (hubpb.TaskState, *hubpb.Artifact) {
		return hubpb.TaskState_TASK_STATE_FAILED, nil
	}
	w.join(a)
	got := w.ask("c", "agent_echo: say it back")
	if !strings.Contains(got, "FAILED") || !strings.Contains(got, "no reason") || strings.Contains(got, doneWords) {
		t.Errorf("the answer is %q", got)
	}
}

// hand is an agent that a test moves by hand.
type hand struct {
	w      *world
	id     string
	hub    hubpb.AgentHubClient
	leave  func()
	events chan *hubpb.AgentEvent
}

// hand registers an agent with one skill, do, and subscribes.
func (w *world) hand(id string) *hand {
	w.T.Helper()
	h := &hand{w: w, id: id, hub: w.dial()}
	r, err := h.hub.RegisterAgent(w.T.Context(), &hubpb.RegisterAgentRequest{AgentCard: &hubpb.AgentCard{Name: id, Skills: []*hubpb.AgentSkill{{Id: "skill_0", Name: "Do It"}}}})
	if err != nil || !r.Success {
		w.T.Fatalf("%s is not registered: %v, %v", id, r, err)
	}
	h.subscribe()
	w.Until(id+" is there", func() bool { return w.Has(w.prefix + id) })
	return h
}

// subscribe opens another stream of tasks in place of the last one.
func (h *hand) subscribe() {
	h.w.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h.w.T.Cleanup(cancel)
	before := len(h.w.hub.exchange.to(tasks, h.id, ""))
	stream, err := h.hub.SubscribeToTasks(ctx, &hubpb.SubscribeToTasksRequest{AgentId: h.id})
	must(h.w.T, err)
	h.w.Until("it has subscribed", func() bool { return len(h.w.hub.exchange.to(tasks, h.id, "")) > before })
	h.events = make(chan *hubpb.AgentEvent, 100)
	events := h.events
	go func() {
		for {
			e, err := stream.Recv()
			if err != nil {
				return
			}
			events <- e
		}
	}()
	h.leave = func() {
		n := len(h.w.hub.exchange.to(tasks, h.id, ""))
		cancel()
		h.w.Until("it has left", func() bool { return len(h.w.hub.exchange.to(tasks, h.id, "")) < n })
	}
}

// task returns the next task that the agent is given.
func (h *hand) task() *hubpb.Task {
	h.w.T.Helper()
	for {
		if t := receive(h.w.T, "a task", h.events).GetTask(); t != nil {
			return t
		}
	}
}

// status reports a state.
func (h *hand) status(t *hubpb.Task, state hubpb.TaskState, final bool, text string) {
	h.w.T.Helper()
	r, err := h.hub.PublishTaskUpdate(h.w.T.Context(), &hubpb.PublishTaskUpdateRequest{
		Routing: &hubpb.AgentEventMetadata{FromAgentId: h.id, EventType: "task_completion"},
		Update: &hubpb.TaskStatusUpdateEvent{TaskId: t.Id, ContextId: t.ContextId, Final: final, Status: &hubpb.TaskStatus{
			State: state, Update: &hubpb.Message{Role: hubpb.Role_ROLE_AGENT, Content: []*hubpb.Part{hubtest.Text(text)}},
		}},
	})
	if err != nil || !r.Success {
		h.w.T.Errorf("status: %v, %v", r, err)
	}
}

// artifact sends a piece of an artifact.
func (h *hand) artifact(t *hubpb.Task, text string, add, last bool) {
	h.w.T.Helper()
	r, err := h.hub.PublishTaskArtifact(h.w.T.Context(), &hubpb.PublishTaskArtifactRequest{
		Routing: &hubpb.AgentEventMetadata{FromAgentId: h.id, EventType: "task_artifact"},
		Artifact: &hubpb.TaskArtifactUpdateEvent{TaskId: t.Id, ContextId: t.ContextId, Append: add, LastChunk: last, Artifact: &hubpb.Artifact{
			ArtifactId: "a", Name: "out", Parts: []*hubpb.Part{hubtest.Text(text)},
		}},
	})
	if err != nil || !r.Success {
		h.w.T.Errorf("artifact: %v, %v", r, err)
	}
}

// give has Cortex give work to an agent, and returns the channel on which its answer comes.
func (w *world) give(agent, text string) <-chan string {
	w.T.Helper()
	turn, err := w.Client.Send(w.T.Context(), client.Text("c-"+agent, agent+": "+text))
	must(w.T, err)
	answer := make(chan string, 1)
	go func() {
		if m, err := w.Client.Answer(w.T.Context(), turn); err == nil {
			answer <- transport.Text(m.Parts)
		}
	}()
	return answer
}

// wantAnswer waits for an answer.
func (w *world) wantAnswer(answer <-chan string, want string) {
	w.T.Helper()
	if got := receive(w.T, "the answer", answer); got != want {
		w.T.Errorf("the answer is %q, want %q", got, want)
	}
}

const (
	completed = hubpb.TaskState_TASK_STATE_COMPLETED
	working   = hubpb.TaskState_TASK_STATE_WORKING
	boiler    = doneWords + ": TASK_STATE_COMPLETED"
)

// TestTask checks what an agent is given.
func TestTask(t *testing.T) {
	w := newWorld(t)
	w.serve()
	h := w.hand("worker")
	answer := w.give("worker", "dig")
	e := receive(t, "the task", h.events)
	task := e.GetTask()
	m := task.GetHistory()[0]
	if task.Status.State != hubpb.TaskState_TASK_STATE_SUBMITTED || meta(task.Metadata, "task_type") != "Do It" || meta(task.Metadata, "from_agent") != "cortex" ||
		meta(m.Metadata, "task_type") != "Do It" || m.TaskId != task.Id || m.ContextId != task.ContextId || m.Role != hubpb.Role_ROLE_USER || m.Content[0].GetText() != "dig" ||
		e.Routing.FromAgentId != "cortex" || e.Routing.ToAgentId != "worker" || e.Routing.EventType != "a2a.task.Do It" || !strings.HasPrefix(e.EventId, "task_"+task.Id+"_") {
		t.Errorf("the event is %v", e)
	}
	if known, err := h.hub.GetTask(t.Context(), &hubpb.GetTaskRequest{TaskId: task.Id}); err != nil || known.History[0].MessageId != m.MessageId {
		t.Errorf("GetTask = %v, %v", known, err)
	}
	h.status(task, completed, true, "dug")
	w.wantAnswer(answer, "TASK_STATE_COMPLETED: dug")
}

// TestArtifacts checks that artifacts count in pieces, before and behind the status, and that what others say of the task counts for nothing.
func TestArtifacts(t *testing.T) {
	w := newWorld(t)
	w.times.artifact = time.Minute
	w.serve()
	h, other := w.hand("worker"), w.hand("other")
	answer := w.give("worker", "dig")
	task := h.task()
	h.status(task, working, false, "at it")
	other.status(task, hubpb.TaskState_TASK_STATE_FAILED, true, "I do not know this")
	other.artifact(task, "no", false, true)
	h.artifact(task, "a ho", false, false)
	h.artifact(task, "le", true, true)
	h.artifact(task, "!", true, true) // although it was complete
	h.status(task, completed, true, boiler)
	h.status(task, hubpb.TaskState_TASK_STATE_FAILED, true, "too late")
	w.wantAnswer(answer, "TASK_STATE_COMPLETED: a hole!")

	answer = w.give("worker", "dig")
	task = h.task()
	h.status(task, completed, true, boiler)
	h.artifact(task, "another", false, true)
	w.wantAnswer(answer, "TASK_STATE_COMPLETED: another")

	w.hub.times.artifact = time.Millisecond
	answer = w.give("worker", "dig")
	h.status(h.task(), completed, true, boiler)
	w.wantAnswer(answer, "TASK_STATE_COMPLETED: ")
}

// TestEnds checks how states that end a task arrive.
func TestEnds(t *testing.T) {
	w := newWorld(t)
	w.serve()
	h := w.hand("worker")
	for _, end := range []struct {
		state hubpb.TaskState
		final bool
		text  string
		want  string
	}{
		{hubpb.TaskState_TASK_STATE_REJECTED, false, "not me", "TASK_STATE_REJECTED: not me"},
		{hubpb.TaskState_TASK_STATE_CANCELLED, true, "enough", "TASK_STATE_CANCELED: enough"},
		{working, true, boiler, "TASK_STATE_FAILED: The agent ended the task in the state TASK_STATE_WORKING, which is no end."},
	} {
		answer := w.give("worker", "dig")
		h.status(h.task(), end.state, end.final, end.text)
		w.wantAnswer(answer, end.want)
	}
}

// TestQuestion checks that a reply comes to the agent with what it is about.
func TestQuestion(t *testing.T) {
	w := newWorld(t)
	w.serve()
	h := w.hand("worker")
	answer := w.give("worker", "dig")
	first := h.task()
	h.status(first, hubpb.TaskState_TASK_STATE_INPUT_REQUIRED, true, doneWords+": TASK_STATE_INPUT_REQUIRED")
	h.artifact(first, "How deep?", false, true)
	if got := receive(t, "the question", answer); !strings.Contains(got, "How deep?") {
		t.Errorf("the question is %q", got)
	}
	turn, err := w.Client.Send(t.Context(), client.Text("c-worker", "two metres"))
	must(t, err)
	task := h.task()
	if task.Id != first.Id || len(task.History) != 1 || words(task.History[0]) != "dig\ntwo metres" {
		t.Errorf("the reply is %v", task)
	}
	h.status(task, completed, true, "dug")
	if got := w.Answer(turn); got != "TASK_STATE_COMPLETED: dug" {
		t.Errorf("the answer is %q", got)
	}
}

// TestCanceled checks that an agent is told that nobody waits for its task any more, and that what it says later counts for nothing.
func TestCanceled(t *testing.T) {
	w := newWorld(t)
	w.serve()
	h := w.hand("worker")
	answer := w.give("worker", "dig")
	task := h.task()
	must(t, w.Client.Cancel(t.Context(), "c-worker", transport.Cancel{Reason: "by the user"}))
	u := receive(t, "the cancellation", h.events).GetStatusUpdate()
	if u.GetTaskId() != task.Id || !u.Final || u.Status.State != hubpb.TaskState_TASK_STATE_CANCELLED {
		t.Errorf("the agent is told %v", u)
	}
	receive(t, "the answer", answer)
	h.status(task, completed, true, "dug")
}

// TestCanceledByPeer checks that programs can cancel a task of Cortex.
func TestCanceledByPeer(t *testing.T) {
	w := newWorld(t)
	w.serve()
	h := w.hand("worker")
	answer := w.give("worker", "dig")
	_, err := h.hub.CancelTask(t.Context(), &hubpb.CancelTaskRequest{TaskId: h.task().Id, Reason: "no time"})
	must(t, err)
	w.wantAnswer(answer, "TASK_STATE_CANCELED: Task cancelled: no time")
}

// TestTwoStreams checks that one of the streams of an agent gets a task.
func TestTwoStreams(t *testing.T) {
	w := newWorld(t)
	w.serve()
	a := w.hand("worker")
	b := *a
	b.subscribe()
	seen := map[*hand]int{}
	for range 4 {
		answer := w.give("worker", "dig")
		var task *hubpb.Task
		for task == nil {
			select {
			case e := <-a.events:
				if task = e.GetTask(); task != nil {
					seen[a]++
				}
			case e := <-b.events:
				if task = e.GetTask(); task != nil {
					seen[&b]++
				}
			}
		}
		a.status(task, completed, true, "dug")
		w.wantAnswer(answer, "TASK_STATE_COMPLETED: dug")
	}
	if seen[a] != 2 || seen[&b] != 2 {
		t.Errorf("they got %d and %d", seen[a], seen[&b])
	}
}

// TestBroken checks that a task is given again when the stream broke that it was sent on, and that the agent is gone for Cortex only some time later.
func TestBroken(t *testing.T) {
	w := newWorld(t)
	w.times.grace = time.Minute
	w.serve()
	h := w.hand("worker")
	answer := w.give("worker", "dig")
	first := h.task()
	h.leave()
	if !w.Has("worker") {
		t.Error("the agent is gone at once")
	}
	h.subscribe()
	task := h.task()
	if task.Id != first.Id {
		t.Errorf("it is given %s in place of %s", task.Id, first.Id)
	}
	h.status(task, completed, true, "dug")
	w.wantAnswer(answer, "TASK_STATE_COMPLETED: dug")
}

// TestResultWithoutStream checks that an agent whose stream has broken can still end its task.
func TestResultWithoutStream(t *testing.T) {
	w := newWorld(t)
	w.times.grace = time.Minute
	w.serve()
	h := w.hand("worker")
	answer := w.give("worker", "dig")
	task := h.task()
	h.leave()
	h.status(task, completed, true, "dug")
	w.wantAnswer(answer, "TASK_STATE_COMPLETED: dug")
}

// TestGone checks that an agent without a stream is gone in the end, and that it can come again.
func TestGone(t *testing.T) {
	w := newWorld(t)
	w.serve()
	w.hand("worker").leave()
	w.Until("it is gone", func() bool { return !w.Has("worker") })
	w.Until("it is forgotten", func() bool { return !w.hub.guests.has("worker") })
	w.hand("worker")
}

// TestOnlyRegistered checks that an agent that never subscribes is none of Cortex's, and is forgotten.
func TestOnlyRegistered(t *testing.T) {
	w := newWorld(t)
	w.serve()
	_, err := w.dial().RegisterAgent(t.Context(), &hubpb.RegisterAgentRequest{AgentCard: &hubpb.AgentCard{Name: "idle"}})
	must(t, err)
	if !w.hub.guests.has("idle") || w.Has("idle") {
		t.Errorf("registered: %t, known: %t", w.hub.guests.has("idle"), w.Has("idle"))
	}
	w.Until("it is forgotten", func() bool { return !w.hub.guests.has("idle") })
}

// TestSubscribedFirst checks that an agent may subscribe before it registers.
func TestSubscribedFirst(t *testing.T) {
	w := newWorld(t)
	w.serve()
	h := &hand{w: w, id: "worker", hub: w.dial()}
	h.subscribe()
	_, err := h.hub.RegisterAgent(t.Context(), &hubpb.RegisterAgentRequest{AgentCard: &hubpb.AgentCard{Name: "worker"}})
	must(t, err)
	w.Until("it is there", func() bool { return w.Has("worker") })
}

// TestAnotherCard checks that an agent that registers again with another card keeps its task.
func TestAnotherCard(t *testing.T) {
	w := newWorld(t)
	w.serve()
	h := w.hand("worker")
	answer := w.give("worker", "dig")
	task := h.task()
	for range 2 {
		r, err := h.hub.RegisterAgent(t.Context(), &hubpb.RegisterAgentRequest{AgentCard: &hubpb.AgentCard{Name: "worker", Description: "Digs", Skills: []*hubpb.AgentSkill{{Name: "Do It"}}}})
		if err != nil || !r.Success {
			t.Errorf("RegisterAgent = %v, %v", r, err)
		}
	}
	w.Until("the card is another", func() bool {
		r, ok := w.Directory.Registry.Snapshot().Get("worker")
		return ok && r.Card.Description == "Digs"
	})
	h.status(task, completed, true, "dug")
	w.wantAnswer(answer, "TASK_STATE_COMPLETED: dug")
}

// TestNameIsTaken checks that an agent is left out while somebody else has its name, with words, and let in afterwards.
func TestNameIsTaken(t *testing.T) {
	w := newWorld(t)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		left <- agents.Serve(ctx, w.Bus, &a2a.AgentCard{Name: "agent_echo"}, agents.Handler(func(context.Context, *agents.Task) (*agents.Result, error) {
			return agents.Text("the other"), nil
		}), &agents.Options{Grace: -1})
	}()
	w.Until("the other is there", func() bool { return w.Has("agent_echo") })
	w.serve()
	a, refused := hubtest.Echo(), make(chan string, 1)
	a.Refused = func(why string) { refused <- why }
	w.run(a)
	select {
	case why := <-refused:
		t.Errorf("it is refused before it has subscribed: %s", why)
	default:
	}
	w.Until("it has subscribed", func() bool {
		gs := w.hub.guests
		gs.mu.Lock()
		defer gs.mu.Unlock()
		return gs.streams["agent_echo"] > 0
	})
	hub := w.dial()
	r, err := hub.RegisterAgent(t.Context(), &hubpb.RegisterAgentRequest{AgentCard: &hubpb.AgentCard{Name: "agent_echo", Skills: []*hubpb.AgentSkill{{Name: "Echo Messages"}}}})
	if err != nil || r.Success || !strings.Contains(r.Error, "another agent called agent_echo is there") || !strings.Contains(r.Error, "--agenthub-prefix") {
		t.Errorf("RegisterAgent = %v, %v", r, err)
	}
	if got := w.ask("c", "agent_echo: hi"); got != "TASK_STATE_COMPLETED: the other" {
		t.Errorf("the answer is %q", got)
	}
	leave()
	must(t, <-left)
	w.Until("it is let in", func() bool {
		g := w.hub.guests.by["agent_echo"]
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.known != nil
	})
	w.Until("Cortex knows", func() bool { return w.Has("agent_echo") && w.skill("agent_echo") == "echo-messages" })
	if got := w.ask("c", "agent_echo: hi"); got != "TASK_STATE_COMPLETED: Echo: hi" {
		t.Errorf("the answer is %q", got)
	}
}

// TestNameIsTakenLater checks that an agent gives way to one that comes later by its name and announces itself, and is let in again afterwards.
func TestNameIsTakenLater(t *testing.T) {
	w := newWorld(t)
	w.serve()
	w.run(hubtest.Echo())
	w.Until("Cortex knows", func() bool { return w.Has("agent_echo") && w.skill("agent_echo") == "echo-messages" })
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		left <- agents.Serve(ctx, w.Bus, &a2a.AgentCard{Name: "agent_echo"}, agents.Handler(func(context.Context, *agents.Task) (*agents.Result, error) {
			return agents.Text("the other"), nil
		}), &agents.Options{Grace: -1})
	}()
	known := func() bool {
		gs := w.hub.guests
		gs.mu.Lock()
		defer gs.mu.Unlock()
		g := gs.by["agent_echo"]
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.known != nil
	}
	w.Until("it gives way", func() bool { return !known() })
	for range 4 {
		if got := w.ask("c", "agent_echo: hi"); got != "TASK_STATE_COMPLETED: the other" {
			t.Errorf("the answer is %q", got)
		}
	}
	leave()
	must(t, <-left)
	w.Until("it is let in", known)
}

// TestPrefix checks that a prefix tells agents of one name apart.
func TestPrefix(t *testing.T) {
	w := newWorld(t)
	w.prefix = "hub."
	w.serve()
	h := w.hand("worker")
	answer := w.give("hub.worker", "dig")
	task := h.task()
	h.status(task, completed, true, "dug")
	w.wantAnswer(answer, "TASK_STATE_COMPLETED: dug")
}

// TestTooLarge checks that a task fails, with words, whose artifact Cortex does not take: agents do not look what becomes of it.
func TestTooLarge(t *testing.T) {
	w := newWorld(t)
	w.serve()
	h := w.hand("worker")
	answer := w.give("worker", "dig")
	task := h.task()
	_, err := h.hub.PublishTaskArtifact(t.Context(), &hubpb.PublishTaskArtifactRequest{
		Routing: &hubpb.AgentEventMetadata{FromAgentId: "worker"},
		Artifact: &hubpb.TaskArtifactUpdateEvent{TaskId: task.Id, Artifact: &hubpb.Artifact{
			ArtifactId: "a", Parts: []*hubpb.Part{hubtest.Text(strings.Repeat("x", agents.MaxArtifactBytes+1))},
		}},
	})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the error is %v", err)
	}
	h.status(task, completed, true, boiler)
	if got := receive(t, "the answer", answer); !strings.HasPrefix(got, "TASK_STATE_FAILED: What the agent has made cannot be taken: ") {
		t.Errorf("the answer is %q", got)
	}
}

// TestNoStatus checks that an agent that ends a task without saying how has failed.
func TestNoStatus(t *testing.T) {
	w := newWorld(t)
	w.serve()
	h := w.hand("worker")
	answer := w.give("worker", "dig")
	_, err := h.hub.PublishTaskUpdate(t.Context(), &hubpb.PublishTaskUpdateRequest{
		Routing: &hubpb.AgentEventMetadata{FromAgentId: "worker"}, Update: &hubpb.TaskStatusUpdateEvent{TaskId: h.task().Id, Final: true},
	})
	must(t, err)
	w.wantAnswer(answer, "TASK_STATE_FAILED: The agent ended the task in the state TASK_STATE_UNSPECIFIED, which is no end.")
}

// TestFirstEndCounts checks that a task has one end.
func TestFirstEndCounts(t *testing.T) {
	var w works
	one := w.begin(t.Context(), "worker", &agents.Task{ID: "t"})
	for _, state := range []hubpb.TaskState{completed, hubpb.TaskState_TASK_STATE_FAILED} {
		w.status(&hubpb.TaskStatusUpdateEvent{TaskId: "t", Status: &hubpb.TaskStatus{State: state}, Final: true}, "worker")
	}
	if one.over.Err() == nil || one.last.State != completed {
		t.Errorf("it ended as %v", one.last)
	}
	w.close(one)
	if w.of("t", "") != nil {
		t.Error("it is not closed")
	}
}
