package agents

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Executor does one task, and yields what happens meanwhile as A2A events. It is the general way to make an agent; a [Handler] is the
// short one, and an Executor itself.
//
// Exactly one of these events ends the task, and must be the last: a Message, which is the result of completed work; a TaskStatusUpdateEvent or
// a Task whose state is terminal, INPUT_REQUIRED or AUTH_REQUIRED; or an error, which fails the task or, if it is [Rejected], refuses it.
// Any number of others may come before: a TaskStatusUpdateEvent or a Task in another state shows its text as [Task.Progress] does, and a
// TaskArtifactUpdateEvent is an output as with [Task.Update]. Events may omit the task's id.
// An Executor that ends without such an event, or yields another event after it, has failed.
//
// The rules of [Handler] about the context, panics and repeated tasks apply.
type Executor interface {
	Execute(ctx context.Context, t *Task) iter.Seq2[a2a.Event, error]
}

// Canceler is implemented by an Executor that keeps something of a task that has asked and waits for the reply, such as a task of somebody else.
type Canceler interface {
	// Canceled is called when a task is canceled that is not worked on: its context cannot tell. It is not called when the agent was away at that time,
	// unless it is a [Keeper], and may be called again. It must return at once, and be safe for concurrent use.
	Canceled(tenant, contextID string, id a2a.TaskID)
}

// Keeper is a Canceler that knows the tasks of which it keeps something while it does not work on them. When it begins to be served, and now and then,
// Cortex is asked whether they are still wanted, and Canceled is called for those that are not: they may have been canceled while the agent or Cortex was
// away.
type Keeper interface {
	Canceler
	// Kept returns the tasks, in any order. It must be safe for concurrent use.
	Kept() []KeptTask
}

// KeptTask is a task of which something is kept.
type KeptTask struct {
	Tenant, ContextID string
	ID                a2a.TaskID
}

// Execute makes h an [Executor].
func (h Handler) Execute(ctx context.Context, t *Task) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		r, err := h(ctx, t)
		if err != nil {
			yield(nil, err)
			return
		}
		yield(r.event(t), nil)
	}
}

// event returns the event that ends a task with r.
func (r *Result) event(t *Task) a2a.Event {
	e := &a2a.TaskStatusUpdateEvent{TaskID: t.ID, ContextID: t.ContextID, Status: a2a.TaskStatus{State: a2a.TaskStateCompleted}}
	if r == nil {
		return e
	}
	switch {
	case r.AuthRequired:
		e.Status.State = a2a.TaskStateAuthRequired
	case r.InputRequired:
		e.Status.State = a2a.TaskStateInputRequired
	}
	e.Status.Message = &a2a.Message{Role: a2a.MessageRoleAgent, Parts: r.Parts}
	return e
}

// ending is how an Executor ended a task.
type ending struct {
	state a2a.TaskState
	parts a2a.ContentParts
}

// execute runs the Executor for a task, and turns a panic into an error.
func (a *agent) execute(ctx context.Context, t *Task) (end *ending, err error) {
	defer func() {
		if p := recover(); p != nil {
			a.log.ErrorContext(ctx, "handler panicked", "task_id", t.ID, "panic", p, "stack", string(debug.Stack()))
			end, err = nil, errors.New("the agent crashed while working on this")
		}
	}()
	for e, err := range a.x.Execute(ctx, t) {
		switch {
		case end != nil:
			return nil, fmt.Errorf("the agent is broken: it went on after it had ended the task as %s", stateName(end.state))
		case err != nil:
			return nil, err
		}
		if end, err = t.handleEvent(e); err != nil {
			return nil, fmt.Errorf("the agent is broken: %w", err)
		}
	}
	switch {
	case end != nil:
		return end, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, errors.New("the agent is broken: it stopped without a result, a question or a failure")
}

// handleEvent handles an event that an Executor has yielded, and returns how the task ended, or nil when it goes on.
func (t *Task) handleEvent(e a2a.Event) (*ending, error) {
	if e == nil {
		return nil, errors.New("it yielded nothing")
	}
	if id := e.TaskInfo().TaskID; id != "" && id != t.ID {
		return nil, fmt.Errorf("it spoke of task %q while it worked on %q", shorten.Line(string(id), 64), t.ID)
	}
	switch e := e.(type) {
	case *a2a.Message:
		return &ending{a2a.TaskStateCompleted, e.Parts}, nil
	case *a2a.TaskArtifactUpdateEvent:
		return nil, t.Update(e)
	case *a2a.TaskStatusUpdateEvent:
		return t.state(e.Status)
	case *a2a.Task:
		for _, artifact := range e.Artifacts {
			if err := t.Update(&a2a.TaskArtifactUpdateEvent{Artifact: artifact, LastChunk: true}); err != nil {
				return nil, err
			}
		}
		return t.state(e.Status)
	}
	return nil, fmt.Errorf("it yielded a %T, which is no event of a task", e)
}

// state handles a state that an Executor reports.
func (t *Task) state(s a2a.TaskStatus) (*ending, error) {
	var parts a2a.ContentParts
	if s.Message != nil {
		parts = s.Message.Parts
	}
	switch {
	case s.State.Terminal(), s.State == a2a.TaskStateInputRequired, s.State == a2a.TaskStateAuthRequired:
		return &ending{s.State, parts}, nil
	case s.State == a2a.TaskStateSubmitted, s.State == a2a.TaskStateWorking:
		t.Progress(transport.Text(parts))
		return nil, nil
	}
	return nil, fmt.Errorf("it named the state %q, which does not exist", shorten.Line(string(s.State), 64))
}
