package agents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// run is a task that is being worked on.
type run struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	time   *allowance
	done   chan struct{} // closed when it is no longer in agent.running

	event *transport.Event // of the newest attempt that it works for; guarded by agent.mu
	task  *a2a.Message     // its payload; guarded by agent.mu
}

// outcome is the result of a task, or of one round of a task with a question.
type outcome struct {
	messageID string
	attempt   int // the newest attempt that it is for
	state     a2a.TaskState
	parts     a2a.ContentParts
	artifacts []*a2a.Artifact
	worked    time.Duration // 0: unknown
	refused   bool          // the transport does not take it: parts say why, and that is sent as a failure
	whole     *a2a.Part     // a file with the text of parts, which is cut; nil: it is not, or the transport stores no files
}

// alsoAnswers reports whether the outcome also answers the later message m of its task. Completed work is not done again. Failed work is, when Cortex
// tries again. A question continues with another message.
func (o *outcome) alsoAnswers(m *a2a.Message) bool {
	return o.messageID == m.ID || o.state == a2a.TaskStateCompleted || o.state.Terminal() && attemptOf(m) <= o.attempt
}

// cancellation is a Cancel for a task that was not being worked on.
type cancellation struct {
	contextID string
	reason    string
	sent      time.Time
}

// receive handles one event of the inbox. It acknowledges a task when its result is stored.
func (a *agent) receive(ctx context.Context, e *transport.Event) error {
	m, ok := e.Payload.(*a2a.Message)
	if !ok {
		return transport.Permanent(fmt.Errorf("a %T is not a task for an agent", e.Payload))
	}
	if m.Role == a2a.MessageRoleAgent && e.From == transport.Cortex {
		a.answered(m)
		return nil
	}
	id := taskID(e, m)
	if id == "" {
		return transport.Permanent(errors.New("the task has no id"))
	}
	for {
		r, mine, known := a.begin(id, e, m)
		switch {
		case mine:
			// The transport's context also ends when the agent takes no more tasks, which must not end this task. If it ends for another
			// reason, the transport is gone, and the result could not be sent.
			stop := context.AfterFunc(ctx, func() {
				if a.take.Err() == nil {
					r.cancel(ErrStopping)
				}
			})
			began := time.Now()
			out, ok := a.do(r, e, m)
			out.worked = time.Since(began)
			stop()
			out = a.end(id, r, out, ok)
			if !ok {
				return transport.Temporary(fmt.Errorf("%s did not finish task %s: %w", a.id, id, ErrStopping))
			}
			return a.answer(e, m, out)
		case r != nil: // another attempt is being worked on: wait for its outcome
			<-r.done
		case known != nil:
			return a.answer(e, m, *known)
		default:
			return transport.Temporary(ErrStopping)
		}
	}
}

// begin decides what to do with a task: work on it (a run, mine), wait for the run that already works on it, send its known outcome (no run),
// or nothing, because the agent is stopping.
func (a *agent) begin(id a2a.TaskID, e *transport.Event, m *a2a.Message) (r *run, mine bool, known *outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r, ok := a.running[id]; ok {
		// A further attempt at a running task continues it, with its own time.
		if attemptOf(m) > attemptOf(r.task) && r.ctx.Err() == nil {
			r.event, r.task = e, m
			a.allow(r)
		}
		return r, false, nil
	}
	if f, ok := a.finished.get(id); ok && f.alsoAnswers(m) {
		return nil, false, &f
	}
	if c, ok := a.canceled.get(id); ok && c.contextID == e.ContextID && !isOlder(c.sent, e, m) {
		return nil, false, &outcome{messageID: m.ID, attempt: attemptOf(m), state: a2a.TaskStateCanceled, parts: words(c.reason)}
	}
	if a.work.Err() != nil {
		return nil, false, nil
	}
	r = &run{event: e, task: m, done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancelCause(a.work)
	r.time = &allowance{expire: func() { r.cancel(context.DeadlineExceeded) }}
	a.allow(r)
	a.running[id] = r
	return r, true, nil
}

// allow gives a run the time of its newest attempt.
func (a *agent) allow(r *run) {
	// Without a readable deadline only the orchestrator enforces one.
	deadline, err := time.Parse(time.RFC3339Nano, transport.MetaString(r.task, transport.MetaDeadline))
	if err != nil {
		return
	}
	sent := r.event.Time
	if sent.IsZero() {
		sent = time.Now()
	}
	left, latest := a.clocks.left(sent, deadline), time.Duration(0)
	if t, err := time.Parse(time.RFC3339Nano, transport.MetaString(r.task, transport.MetaLatest)); err == nil {
		latest = left + t.Sub(deadline)
	}
	r.time.give(left, deadline.Sub(sent), latest)
}

// isOlder reports whether a Cancel is older than a later attempt, and so was meant for the one before.
func isOlder(cancel time.Time, e *transport.Event, m *a2a.Message) bool {
	return attemptOf(m) > 1 && !cancel.After(e.Time)
}

// newest returns the message of the newest attempt that r works for.
func (a *agent) newest(r *run) *a2a.Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	return r.task
}

// end removes a run, and remembers and returns its outcome.
func (a *agent) end(id a2a.TaskID, r *run, out outcome, ok bool) outcome {
	weight := out.weight()
	a.mu.Lock()
	defer a.mu.Unlock()
	out.messageID, out.attempt = strings.Clone(r.task.ID), attemptOf(r.task) // a copy, since the id may be a piece of the event
	if ok {
		a.finished.put(id, out, weight)
	}
	delete(a.running, id)
	r.time.stop()
	r.cancel(nil)
	close(r.done)
	return out
}

// do works on a task. It returns false when the agent stopped before the task was done.
func (a *agent) do(r *run, e *transport.Event, m *a2a.Message) (out outcome, ok bool) {
	t := newTask(e, m)
	t.Deadline = r.time.deadline()
	ctx, end := a.traced(r.ctx, t, attemptOf(m))
	defer func() { end(out, ok) }()
	started := time.Now()
	log := a.log.With("task_id", t.ID, "context_id", t.ContextID)
	failed := func(state a2a.TaskState, text string) (outcome, bool) {
		log.InfoContext(ctx, "task not started", "state", state, "reason", text)
		return outcome{state: state, parts: words(text)}, true
	}
	if most := a.o.Deliveries; most > 0 && t.Delivery > most {
		return failed(a2a.TaskStateFailed, fmt.Sprintf("the agent stopped %d times while working on this", most))
	}
	if !t.Deadline.IsZero() && !t.Deadline.After(started) {
		return failed(a2a.TaskStateFailed, "the deadline passed before the agent could start")
	}
	if a.host != nil {
		requester := transport.MetaString(m, transport.MetaRequester)
		if !a.host.places.begin(a.id, requester, t.Delivery > 1 || attemptOf(m) > 1 || m.Metadata[transport.MetaContinued] == true) {
			return failed(a2a.TaskStateRejected, "too many agents here work for the same requester already: nothing was done")
		}
		defer a.host.places.end(a.id, requester)
	}
	t.agent, t.run = a, r
	t.live = &live{a: a, task: e, turn: m.Metadata[transport.MetaTurn], id: taskID(e, m), ended: make(chan struct{})}
	t.pulse = &pulse{a: a, task: e, run: r, progress: make(chan struct{}, 1)}
	telling, stop := context.WithCancel(r.ctx)
	var teller sync.WaitGroup
	teller.Go(func() { t.pulse.reportLoop(telling) })
	log.DebugContext(ctx, "task started", "skill", t.Skill, "delivery", t.Delivery, "attempt", attemptOf(m))
	ended, err := a.execute(ctx, t)
	stop()
	t.live.close()
	teller.Wait()

	cause := context.Cause(r.ctx)
	if errors.Is(cause, ErrStopping) && err != nil {
		log.InfoContext(ctx, "task handed back", "after", time.Since(started))
		return outcome{}, false
	}
	out = outcome{artifacts: t.outputs()}
	switch {
	case errors.Is(cause, ErrCanceled):
		out.state, out.parts = a2a.TaskStateCanceled, words(cause.Error())
		if x, is := a.x.(Canceler); is && err == nil && ended.state == a2a.TaskStateInputRequired { // it had asked just before
			x.Canceled(t.Tenant, t.ContextID, t.ID)
		}
	case errors.As(err, new(*rejectedError)):
		out.state, out.parts = a2a.TaskStateRejected, words(errorText(err))
	case errors.Is(cause, context.DeadlineExceeded) && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		out.state, out.parts = a2a.TaskStateFailed, words("the agent was not done at the deadline")
	case err != nil:
		out.state, out.parts = a2a.TaskStateFailed, words(errorText(err))
	default:
		out.state = ended.state
		if out.parts = cleanParts(ended.parts, MaxResultText); len(out.parts) == 0 {
			out.parts = t.streamed()
		}
		if t.store() != nil {
			out.whole = whole(ended.parts)
		}
		if len(out.parts) == 0 && (out.state == a2a.TaskStateFailed || out.state == a2a.TaskStateRejected) {
			out.parts = words("the agent gave no reason")
		}
	}
	if out, ok = a.stored(r, t.ContextID, out); !ok {
		return outcome{}, false
	}
	log.InfoContext(ctx, "task done", "state", out.state, "after", time.Since(started))
	return out, true
}

// control handles one event of the agent's control topic.
func (a *agent) control(_ context.Context, e *transport.Event) error {
	if e.From == transport.Cortex && !e.Time.IsZero() {
		a.clocks.observe(e.Time)
	}
	if m, ok := e.Payload.(*a2a.Message); ok && m.Role == a2a.MessageRoleAgent && e.From == transport.Cortex && e.Tenant == a.o.Tenant {
		a.answered(m)
		return nil
	}
	if f, ok := e.Payload.(*transport.Forget); ok && f.AgentID == "" && a.o.Forget != nil && e.From == transport.Cortex && e.Tenant == a.o.Tenant {
		if err := a.o.Forget(e.Tenant, e.ContextID); err != nil {
			a.log.Warn("what is kept of an erased conversation is not erased", "context_id", e.ContextID, "err", err)
		}
		return nil
	}
	if b, ok := e.Payload.(*transport.Board); ok && e.From == transport.Cortex && e.Tenant == a.o.Tenant {
		a.board(e.TaskID, b)
		return nil
	}
	if t, ok := e.Payload.(*transport.Tender); ok && e.From == transport.Cortex && e.Tenant == a.o.Tenant {
		a.tender(e, t)
		return nil
	}
	c, ok := e.Payload.(*transport.Cancel)
	if !ok {
		return nil
	}
	if e.From != transport.Cortex || e.Tenant != a.o.Tenant {
		a.log.Info("cancellation ignored: it is not from Cortex", "from", shorten.Line(e.From, 64), "task_id", c.TaskID)
		return nil
	}
	cause := ErrCanceled
	if reason := shorten.Line(c.Reason, 256); reason != "" {
		cause = fmt.Errorf("%w: %s", ErrCanceled, reason)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.TaskID != "" {
		switch r, ok := a.running[c.TaskID]; {
		case !ok || r.ctx.Err() != nil: // it has asked, or an attempt may still arrive, or waits for the end of the one before
			a.canceled.put(c.TaskID, cancellation{e.ContextID, cause.Error(), e.Time}, len(e.ContextID)+len(cause.Error()))
			if x, is := a.x.(Canceler); is && !ok {
				a.tellCanceled(x, e, c.TaskID)
			}
		case r.event.ContextID == e.ContextID && !isOlder(e.Time, r.event, r.task):
			r.cancel(cause)
		}
		return nil
	}
	for _, r := range a.running {
		if e.ContextID != "" && r.event.ContextID == e.ContextID && (c.Turn == "" || c.Turn == transport.MetaString(r.task, transport.MetaTurn)) {
			r.cancel(cause)
		}
	}
	return nil
}

// tellCanceled tells the executor that a task is canceled that is not worked on. a.mu is held, but not meanwhile: the executor may write to a disk or a network.
// The task counts as one that is worked on, so that no later attempt at it begins before.
func (a *agent) tellCanceled(x Canceler, e *transport.Event, id a2a.TaskID) {
	r := &run{event: e, task: &a2a.Message{}, done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancelCause(a.work)
	r.cancel(ErrCanceled)
	a.running[id] = r
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.running, id)
		close(r.done)
	}()
	x.Canceled(e.Tenant, e.ContextID, id)
}
