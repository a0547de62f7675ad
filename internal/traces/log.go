package traces

import (
	"context"
	"log/slog"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
)

// Names of attributes of log lines; those of the trace are as OpenTelemetry has them in JSON.
const (
	logTrace   = "trace_id"
	logSpan    = "span_id"
	logContext = "context_id"
	logTask    = "task_id"
)

// logHandler adds to each line the trace of its context.
type logHandler struct {
	slog.Handler
	has []string // which of logContext and logTask the logger adds itself
}

// LogHandler returns a handler that adds trace_id and span_id to the lines of a turn or a task before next handles them, and context_id and task_id where
// they are missing. Lines without a trace stay as they are.
func LogHandler(next slog.Handler) slog.Handler { return logHandler{Handler: next} }

// Handle implements [slog.Handler].
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return h.Handler.Handle(ctx, r)
	}
	r = r.Clone()
	of, _ := ctx.Value(workKey{}).(work)
	for _, known := range []slog.Attr{slog.String(logContext, of.contextID), slog.String(logTask, of.taskID)} {
		if known.Value.String() != "" && !slices.Contains(h.has, known.Key) && !has(r, known.Key) {
			r.AddAttrs(known)
		}
	}
	r.AddAttrs(slog.String(logTrace, sc.TraceID().String()), slog.String(logSpan, sc.SpanID().String()))
	return h.Handler.Handle(ctx, r)
}

func has(r slog.Record, key string) (found bool) {
	r.Attrs(func(a slog.Attr) bool {
		found = a.Key == key
		return !found
	})
	return found
}

// WithAttrs implements [slog.Handler].
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	known := slices.Clone(h.has)
	for _, a := range attrs {
		if a.Key == logContext || a.Key == logTask {
			known = append(known, a.Key)
		}
	}
	return logHandler{h.Handler.WithAttrs(attrs), known}
}

// WithGroup implements [slog.Handler].
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name), h.has}
}

// workKey is the key of what a context is about.
type workKey struct{}

type work struct{ contextID, taskID string }

// Within implements cortex.Tracer.
func (t *Traces) Within(ctx context.Context, conv *conversation.Conversation, turn *conversation.Turn, task *conversation.Task) context.Context {
	at := placeOf(conv, turn)
	of := at.parent.TraceID()
	span, about := rootID(of, turn.ID), work{contextID: conv.ContextID}
	if task != nil {
		about.taskID = string(task.ID)
		if task.SentSeq != 0 {
			span = attemptOf(task).id(of)
		}
	}
	sc := within(at.parent, of, span)
	sc = sc.WithTraceFlags(sc.TraceFlags().WithSampled(t.sampled(at)))
	return context.WithValue(trace.ContextWithSpanContext(ctx, sc), workKey{}, about)
}
