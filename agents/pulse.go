package agents

import (
	"context"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// pulse reports to Cortex that a task is being worked on, so that its deadline moves. It reports only if the handler has shown something since
// the last report, and as often as the deadline requires.
type pulse struct {
	a        *agent
	task     *transport.Event
	run      *run
	progress chan struct{} // receives when the handler has shown something
}

// beat notes that the handler has shown something. It does not block.
func (p *pulse) beat() {
	select {
	case p.progress <- struct{}{}:
	default:
	}
}

// reportLoop sends reports until ctx ends.
func (p *pulse) reportLoop(ctx context.Context) {
	for {
		select {
		case <-p.progress:
		case <-ctx.Done():
			return
		}
		if !p.wait(ctx) {
			continue
		}
		select {
		case <-p.progress: // included in this report
		default:
		}
		at := time.Now()
		if err := p.a.publish(ctx, transport.Inbox(p.a.o.Tenant, transport.Cortex), p.event(at)); err != nil {
			p.a.log.Debug("progress not told", "task_id", p.task.TaskID, "err", err)
			continue
		}
		p.run.time.move(at)
	}
}

// wait waits until a report is due, and returns true; false when a report would be useless, or ctx has ended.
func (p *pulse) wait(ctx context.Context) bool {
	for {
		d, ok := p.run.time.due()
		if !ok || d <= 0 {
			return ok
		}
		if rest.For(ctx, d) != nil {
			return false
		} // another attempt may have begun meanwhile: check again
	}
}

// event returns the event that reports that the task is being worked on. Its id is random: when another process starts the task again, Cortex
// would take an event with a derived id for a repeated one.
func (p *pulse) event(now time.Time) *transport.Event {
	m := p.a.newest(p.run)
	id := taskID(p.task, m)
	u := &a2a.TaskStatusUpdateEvent{
		TaskID: id, ContextID: p.task.ContextID, Status: a2a.TaskStatus{State: a2a.TaskStateWorking, Timestamp: &now},
		Metadata: map[string]any{transport.MetaAgentID: p.a.id, transport.MetaTaskID: string(id)},
	}
	for _, k := range []string{transport.MetaAttempt, transport.MetaTurn} {
		if v, ok := m.Metadata[k]; ok {
			u.SetMeta(k, v)
		}
	}
	return &transport.Event{
		ID: uuid.NewString(), Time: now, From: p.a.id, To: transport.Cortex, Tenant: p.a.o.Tenant, ContextID: p.task.ContextID, TaskID: id,
		Traceparent: p.task.Traceparent, Tracestate: p.task.Tracestate, Payload: u,
	}
}
