package agents

import (
	"context"
	"log/slog"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// Tracer makes spans of what agents do. It must be safe for concurrent use.
type Tracer interface {
	// Begin begins a span below the W3C trace context that s has, and returns ctx with it, and the trace context for what is done within it. Begin and
	// end do no I/O. end is called once.
	Begin(ctx context.Context, s Span) (in context.Context, traceparent, tracestate string, end func(failure string, more ...slog.Attr))
}

// Span is a part of the work on a task: all of it, or a call that is made for it.
type Span struct {
	Name                    string
	Call                    bool   // of another program
	Key                     string // spans below the same one with this key are the same, even of several processes; "": each is another one
	Traceparent, Tracestate string // of the span above; invalid or empty: none
	Attributes              []slog.Attr
}

// Span begins a span of a call that the handler makes for the task. traceparent and tracestate are the W3C trace context for the call; without
// [Options].Tracer they are those of the task. end is called once with what came of it: the error.type of OpenTelemetry, or "".
func (t *Task) Span(ctx context.Context, name string, attrs ...slog.Attr) (traceparent, tracestate string, end func(failure string, more ...slog.Attr)) {
	if t.agent == nil || t.agent.o.Tracer == nil {
		return t.Traceparent, t.Tracestate, func(string, ...slog.Attr) {}
	}
	_, traceparent, tracestate, end = t.agent.o.Tracer.Begin(ctx, Span{
		Name: name, Call: true, Traceparent: t.Traceparent, Tracestate: t.Tracestate, Attributes: attrs,
	})
	return traceparent, tracestate, end
}

// traced begins the span of a task, which gets its trace context.
func (a *agent) traced(ctx context.Context, t *Task, attempt int) (context.Context, func(out outcome, ok bool)) {
	if a.o.Tracer == nil {
		return ctx, func(outcome, bool) {}
	}
	name := shorten.To(strings.ToValidUTF8(a.id, ""), 64)
	in, parent, state, end := a.o.Tracer.Begin(ctx, Span{
		Name: "invoke_agent " + name, Key: string(t.ID), Traceparent: t.Traceparent, Tracestate: t.Tracestate,
		Attributes: []slog.Attr{
			slog.String("gen_ai.operation.name", "invoke_agent"), slog.String("gen_ai.agent.name", name), slog.String("gen_ai.conversation.id", t.ContextID),
			slog.String("a2a.task.id", string(t.ID)), slog.Int("cortex.attempt", attempt), slog.Int("cortex.delivery", t.Delivery),
		},
	})
	t.Traceparent, t.Tracestate = parent, state
	return in, func(out outcome, ok bool) {
		if !ok {
			end("stopped")
			return
		}
		end(failures[out.state], slog.String("a2a.task.state", string(out.state)))
	}
}

// failures are the error.type of tasks that end in these states.
var failures = map[a2a.TaskState]string{
	a2a.TaskStateFailed: "failed", a2a.TaskStateRejected: "rejected", a2a.TaskStateCanceled: "canceled",
}
