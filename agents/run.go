package agents

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/transport"
)

// run is a task that is being worked on.
type run struct {
	messageID string
	contextID string
	turn      string
	cancel    context.CancelCauseFunc
	done      chan struct{} // closed when it is no longer in agent.running
}

// outcome is what became of a task, or of one round of it.
type outcome struct {
	messageID string
	state     a2a.TaskState
	parts     a2a.ContentParts
	artifacts []*a2a.Artifact
}

// receive handles one event of the inbox. Work is acknowledged when its result is stored.
func (a *agent) receive(ctx context.Context, e *transport.Event) error {
	m, ok := e.Payload.(*a2a.Message)
	if !ok {
		return transport.Permanent(fmt.Errorf("a %T is no task for an agent", e.Payload))
	}
	id := taskID(e, m)
	if id == "" {
		return transport.Permanent(errors.New("the task has no id"))
	}
	for {
		taskCtx, r, known := a.begin(id, e, m)
		switch {
		case taskCtx != nil:
			// The transport's context ends when the agent takes no more tasks, which does not end this one. When it
			// ends without that, the transport is gone, and the result with it.
			stop := context.AfterFunc(ctx, func() {
				if a.take.Err() == nil {
					r.cancel(ErrStopping)
				}
			})
			out, ok := a.do(taskCtx, e, m)
			stop()
			a.end(id, r, out, ok)
			if !ok {
				return fmt.Errorf("%s did not finish task %s: %w", a.id, id, ErrStopping)
			}
			return a.answer(e, m, out)
		case r != nil: // it is being worked on: wait what comes of it
			<-r.done
		case known != nil:
			return a.answer(e, m, *known)
		default:
			return ErrStopping
		}
	}
}

// begin decides what to do with a task: work on it (a context and its run), wait for the run that works on it already (no
// context), send what is known to have come of it (no run), or nothing, because the agent stops.
func (a *agent) begin(id a2a.TaskID, e *transport.Event, m *a2a.Message) (context.Context, *run, *outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r, ok := a.running[id]; ok {
		return nil, r, nil
	}
	// A finished task stays finished; one that asked something goes on with another message.
	if f, ok := a.finished.get(id); ok && (f.state.Terminal() || f.messageID == m.ID) {
		return nil, nil, &f
	}
	if reason, ok := a.canceled.get(id); ok {
		return nil, nil, &outcome{messageID: m.ID, state: a2a.TaskStateCanceled, parts: words(reason)}
	}
	if a.work.Err() != nil {
		return nil, nil, nil
	}
	ctx, cancel := context.WithCancelCause(a.work)
	r := &run{messageID: m.ID, contextID: e.ContextID, turn: transport.MetaString(m, transport.MetaTurn), cancel: cancel, done: make(chan struct{})}
	a.running[id] = r
	return ctx, r, nil
}

// end removes a run, and remembers what came of it.
func (a *agent) end(id a2a.TaskID, r *run, out outcome, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ok {
		size := sizeOf(out.parts)
		for _, f := range out.artifacts {
			size += sizeOf(f.Parts)
		}
		a.finished.put(id, out, size)
	}
	delete(a.running, id)
	r.cancel(nil)
	close(r.done)
}

// do works on a task. It returns false when the agent stopped before the task was done.
func (a *agent) do(ctx context.Context, e *transport.Event, m *a2a.Message) (outcome, bool) {
	t := newTask(e, m)
	started := time.Now()
	log := a.log.With("task_id", t.ID, "context_id", t.ContextID)
	failed := func(state a2a.TaskState, text string) (outcome, bool) {
		log.Info("task not started", "state", state, "reason", text)
		return outcome{messageID: m.ID, state: state, parts: words(text)}, true
	}
	if t.Delivery > MaxDeliveries {
		return failed(a2a.TaskStateFailed, fmt.Sprintf("the agent stopped %d times while working on this", MaxDeliveries))
	}
	if !t.Deadline.IsZero() {
		if !t.Deadline.After(started) {
			return failed(a2a.TaskStateFailed, "the deadline passed before the agent could start")
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, t.Deadline)
		defer cancel()
	}
	t.live = newLive(a, e, m)
	log.Debug("task started", "skill", t.Skill, "delivery", t.Delivery)
	result, err := a.call(ctx, t)
	t.live.close()

	cause := context.Cause(ctx)
	if errors.Is(cause, ErrStopping) && err != nil {
		log.Info("task handed back", "after", time.Since(started))
		return outcome{}, false
	}
	out := outcome{messageID: m.ID, artifacts: t.outputs()}
	switch {
	case errors.Is(cause, ErrCanceled):
		out.state, out.parts = a2a.TaskStateCanceled, words(cause.Error())
	case err != nil && isRejected(err):
		out.state, out.parts = a2a.TaskStateRejected, words(errorText(err))
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		out.state, out.parts = a2a.TaskStateFailed, words("the agent was not done at the deadline")
	case err != nil:
		out.state, out.parts = a2a.TaskStateFailed, words(errorText(err))
	case result != nil && result.InputRequired:
		out.state = a2a.TaskStateInputRequired
		out.parts, _ = cleanParts(result.Parts, MaxResultText)
	default:
		out.state = a2a.TaskStateCompleted
		if result != nil {
			out.parts, _ = cleanParts(result.Parts, MaxResultText)
		}
	}
	log.Info("task done", "state", out.state, "after", time.Since(started))
	return out, true
}

// call calls the handler; a panic becomes an error.
func (a *agent) call(ctx context.Context, t *Task) (r *Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			a.log.Error("handler panicked", "task_id", t.ID, "panic", p, "stack", string(debug.Stack()))
			r, err = nil, errors.New("the agent crashed while working on this")
		}
	}()
	return a.h(ctx, t)
}

// answer sends the result of a task, and returns nil once it is stored.
func (a *agent) answer(e *transport.Event, m *a2a.Message, out outcome) error {
	inbox := transport.Inbox(a.o.Tenant, transport.Cortex)
	err := a.publish(a.sending, inbox, a.resultEvent(e, m, out))
	if errors.Is(err, transport.ErrInvalid) {
		a.log.Warn("result refused by the transport", "task_id", taskID(e, m), "err", err)
		out = outcome{messageID: m.ID, state: a2a.TaskStateFailed, parts: words("the agent's result cannot be sent: " + errorText(err))}
		err = a.publish(a.sending, inbox, a.resultEvent(e, m, out))
	}
	if err != nil {
		return fmt.Errorf("send the result of task %s: %w", taskID(e, m), err)
	}
	return nil
}

// resultNamespace is for the ids of results, which are derived so that sending one again is harmless.
var resultNamespace = uuid.MustParse("5b0e2d9c-6f6c-4f0e-9b1f-0d6f4a1c7e55")

func (a *agent) resultEvent(e *transport.Event, m *a2a.Message, out outcome) *transport.Event {
	now, id := time.Now(), taskID(e, m)
	round := "result"
	if !out.state.Terminal() {
		round = "question " + out.messageID
	}
	eventID := uuid.NewSHA1(resultNamespace, []byte(strings.Join([]string{a.o.Tenant, a.id, string(id), round}, "\x00"))).String()
	meta := map[string]any{
		transport.MetaTaskType: a.resultType(m), transport.MetaAgentID: a.id, transport.MetaTaskID: string(id),
		transport.MetaOriginalMessage: m.ID, transport.MetaCreatedAt: now.Format(time.RFC3339),
	}
	t := &a2a.Task{
		ID: id, ContextID: e.ContextID, Status: a2a.TaskStatus{State: out.state, Timestamp: &now}, Artifacts: out.artifacts, Metadata: meta,
	}
	if len(out.parts) > 0 {
		t.Status.Message = &a2a.Message{
			ID: eventID, ContextID: e.ContextID, TaskID: id, Role: a2a.MessageRoleAgent, Parts: out.parts, Metadata: maps.Clone(meta),
		}
	}
	return &transport.Event{
		ID: eventID, Time: now, From: a.id, To: transport.Cortex, Tenant: a.o.Tenant, ContextID: e.ContextID, TaskID: id,
		Traceparent: e.Traceparent, Payload: t,
	}
}

// resultType is the task_type of a result: "echo_result" for an "echo_request" or a task for the skill "echo".
func (a *agent) resultType(m *a2a.Message) string {
	skill := strings.TrimSuffix(transport.MetaString(m, transport.MetaTaskType), "_request")
	if skill == "" && len(a.card.Skills) == 1 {
		skill = a.card.Skills[0].ID
	}
	if skill == "" {
		skill = "task"
	}
	return skill + "_result"
}

// control handles one event of the agent's control topic.
func (a *agent) control(_ context.Context, e *transport.Event) error {
	c, ok := e.Payload.(*transport.Cancel)
	if !ok {
		return nil
	}
	cause := ErrCanceled
	if reason := line(c.Reason, 256); reason != "" {
		cause = fmt.Errorf("%w: %s", ErrCanceled, reason)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.TaskID != "" {
		if r, ok := a.running[c.TaskID]; ok {
			r.cancel(cause)
		} else { // it may still be on its way
			a.canceled.put(c.TaskID, cause.Error(), len(cause.Error()))
		}
		return nil
	}
	for _, r := range a.running {
		if e.ContextID != "" && r.contextID == e.ContextID && (c.Turn == "" || c.Turn == r.turn) {
			r.cancel(cause)
		}
	}
	return nil
}

func words(text string) a2a.ContentParts { return a2a.ContentParts{a2a.NewTextPart(text)} }
