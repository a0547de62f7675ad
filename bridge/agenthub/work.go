package agenthub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/transport"
)

// work is a task that Cortex has given to an agent.
type work struct {
	agent string // its name
	task  *agents.Task
	over  context.Context //nolint:containedctx // ends when the task does, for whatever reason
	end   context.CancelFunc

	mu    sync.Mutex
	last  *hubpb.TaskStatus // the status that ends the task; nil while it has none
	begun map[string]bool   // artifacts, by id
	done  bool              // nothing is added any more

	refused error // why an artifact could not be taken

	whole    chan struct{} // closed when an artifact is complete
	complete func()
}

// works are the tasks that agents work on. They are safe for concurrent use.
type works struct {
	mu sync.Mutex
	by map[a2a.TaskID]*work
}

// begin adds a task, which ends with ctx or by a report.
func (w *works) begin(ctx context.Context, agent string, t *agents.Task) *work {
	one := &work{agent: agent, task: t, begun: map[string]bool{}, whole: make(chan struct{})}
	one.complete = sync.OnceFunc(func() { close(one.whole) })
	one.over, one.end = context.WithCancel(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = map[a2a.TaskID]*work{}
	}
	w.by[t.ID] = one
	return one
}

// close removes a task.
func (w *works) close(one *work) {
	one.end()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by[one.task.ID] == one {
		delete(w.by, one.task.ID)
	}
}

// of returns the task with this id that an agent works on, or nil. With "" it is anybody's.
func (w *works) of(id, agent string) *work {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.by[a2a.TaskID(id)]; one != nil && (agent == "" || agent == one.agent) {
		return one
	}
	return nil
}

// status takes what an agent reports. The first status that ends the task counts.
func (w *works) status(u *hubpb.TaskStatusUpdateEvent, from string) {
	one := w.of(u.TaskId, from)
	if one == nil || from == "" {
		return
	}
	if state := states[u.Status.GetState()]; !u.Final && (state == "" || state == a2a.TaskStateSubmitted || state == a2a.TaskStateWorking) {
		one.task.Progress(said(u.Status)) // also without words it is a sign of life
		return
	}
	one.settle(u.Status)
}

// settle ends the task with a status.
func (one *work) settle(s *hubpb.TaskStatus) {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.last == nil {
		if one.last = s; s == nil {
			one.last = &hubpb.TaskStatus{}
		}
		one.end()
	}
}

// artifact takes an output of a task, or a piece of one.
func (w *works) artifact(u *hubpb.TaskArtifactUpdateEvent, from string) error {
	one := w.of(u.TaskId, from)
	if one == nil || from == "" {
		return nil
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.done {
		return nil
	}
	// Programs may add to what they called complete, so it stays open.
	a := u.Artifact
	e := &a2a.TaskArtifactUpdateEvent{Append: u.Append && one.begun[a.ArtifactId], Artifact: &a2a.Artifact{
		ID: a2a.ArtifactID(a.ArtifactId), Name: a.Name, Description: a.Description, Parts: partsOf(a.Parts), Metadata: asMap(a.Metadata),
	}}
	if len(e.Artifact.Parts) > 0 {
		if err := one.task.Update(e); err != nil {
			one.refused = err // agents do not look what becomes of it
			one.complete()
			return err
		}
		one.begun[a.ArtifactId] = true
	}
	if u.LastChunk {
		one.complete()
	}
	return nil
}

// Execute implements [agents.Executor]: the agent does the task.
func (g *guest) Execute(ctx context.Context, t *agents.Task) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		s, err := g.do(ctx, t)
		if err != nil {
			yield(nil, err)
			return
		}
		yield(&a2a.TaskStatusUpdateEvent{TaskID: t.ID, ContextID: t.ContextID, Status: *s}, nil)
	}
}

// do gives a task to the agent, again if the agent may have lost it, until the agent has ended it.
func (g *guest) do(ctx context.Context, t *agents.Task) (*a2a.TaskStatus, error) {
	b := g.bridge
	task, err := g.request(ctx, t)
	if err != nil {
		return nil, agents.Rejected(err)
	}
	one := b.works.begin(ctx, g.name, t)
	defer b.works.close(one)
	for one.over.Err() == nil {
		lost, err := b.line.give(one.over, task, g.name)
		if err != nil && one.over.Err() == nil {
			return nil, err
		}
		select {
		case <-lost:
		case <-one.over.Done():
		}
	}
	one.mu.Lock()
	last := one.last
	one.mu.Unlock()
	if last == nil {
		cause := context.Cause(ctx)
		if !errors.Is(cause, agents.ErrStopping) {
			b.line.cancel(task, g.name, cause.Error())
		}
		return nil, cause
	}
	is := one.result(ctx, last, b.times.artifact)
	if !is.State.Terminal() {
		b.questions.put(t, words(task.History[0]))
	}
	return is, nil
}

// request returns a task as agents want it: in the metadata is the name of the skill, and the first message is what to work on.
func (g *guest) request(ctx context.Context, t *agents.Task) (*hubpb.Task, error) {
	kind, err := taskType(g.shown(), transport.MetaString(t.Message, transport.MetaTaskType))
	if err != nil {
		return nil, err
	}
	parts, err := given(ctx, t)
	if err != nil {
		return nil, err
	}
	replies := ""
	if t.Message.Metadata[transport.MetaContinued] == true { // the agent has forgotten what its question is about
		parts = slices.DeleteFunc(parts, func(p *hubpb.Part) bool { return p.GetText() != "" })
		parts = append([]*hubpb.Part{textPart(g.bridge.questions.first(t) + t.Text())}, parts...)
		replies = string(t.ID)
	}
	kind = kit.Valid(kind)
	now := timestamppb.New(g.bridge.now())
	m := &hubpb.Message{
		MessageId: kit.Valid(cmp.Or(t.Message.ID, string(t.ID))), ContextId: t.ContextID, TaskId: string(t.ID), Role: hubpb.Role_ROLE_USER, Content: parts,
		Metadata: metadata("task_type", kind),
	}
	return &hubpb.Task{
		Id: string(t.ID), ContextId: t.ContextID, Status: &hubpb.TaskStatus{State: hubpb.TaskState_TASK_STATE_SUBMITTED, Timestamp: now},
		History:  []*hubpb.Message{m},
		Metadata: metadata("task_type", kind, "from_agent", transport.Cortex, "original_message_id", m.MessageId, repliesTo, replies),
	}, nil
}

// repliesTo is the name of the metadata of a task that replies to the question of its agent.
const repliesTo = "replies_to"

// result returns how a task has ended. An agent sends its artifact after its status: result waits for it a little.
func (one *work) result(ctx context.Context, s *hubpb.TaskStatus, patience time.Duration) *a2a.TaskStatus {
	state, text := states[s.GetState()], said(s)
	switch state {
	case a2a.TaskStateFailed, a2a.TaskStateRejected, a2a.TaskStateCanceled:
		text = cmp.Or(text, "The agent gave no reason.")
	case a2a.TaskStateCompleted, a2a.TaskStateInputRequired, a2a.TaskStateAuthRequired:
		if text == "" {
			wait := time.NewTimer(patience)
			defer wait.Stop()
			select {
			case <-one.whole:
			case <-wait.C:
			case <-ctx.Done():
			}
		}
	default:
		text = fmt.Sprintf("The agent ended the task in the state %s, which is no end.", s.GetState())
		state = a2a.TaskStateFailed
	}
	one.mu.Lock()
	one.done = true
	refused := one.refused
	one.mu.Unlock()
	if refused != nil && state == a2a.TaskStateCompleted {
		state, text = a2a.TaskStateFailed, "What the agent has made cannot be taken: "+refused.Error()
	}
	if text == "" && state != a2a.TaskStateCompleted {
		text = cmp.Or(transport.Text(one.task.Whole(nil)), "The agent wants to know more, and does not say what.")
	}
	is := &a2a.TaskStatus{State: state}
	if text != "" {
		is.Message = &a2a.Message{Role: a2a.MessageRoleAgent, Parts: a2a.ContentParts{a2a.NewTextPart(text)}}
	}
	return is
}
