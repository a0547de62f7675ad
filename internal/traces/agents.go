package traces

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
)

// Agents makes spans of what agents do, in the process where they do it and while they do it. It is an [agents.Tracer]. A span that is not sampled does
// not exist for what is done within it, so that a turn which is kept in spite of that has no hole above it.
type Agents struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
}

var _ agents.Tracer = (*Agents)(nil)

func newAgents(options ...sdktrace.TracerProviderOption) *Agents {
	p := sdktrace.NewTracerProvider(append(options, sdktrace.WithIDGenerator(generator{}))...)
	return &Agents{p.Tracer(scope), p}
}

// Begin implements [agents.Tracer].
func (a *Agents) Begin(ctx context.Context, s agents.Span) (in context.Context, traceparent, tracestate string, end func(string, ...slog.Attr)) {
	parent, _ := parse(conversation.Trace{Parent: s.Traceparent, State: s.Tracestate})
	var id planned // random
	if s.Key != "" && parent.IsValid() {
		above := parent.SpanID()
		id = planned{parent.TraceID(), spanID(parent.TraceID(), "agent", string(above[:]), s.Key)}
	}
	kind := trace.SpanKindInternal
	if s.Call {
		kind = trace.SpanKindClient
	}
	ctx = context.WithValue(trace.ContextWithRemoteSpanContext(ctx, parent), plannedKey{}, id)
	in, span := a.tracer.Start(ctx, s.Name, trace.WithSpanKind(kind), trace.WithAttributes(attributes(s.Attributes)...))
	sc := span.SpanContext()
	if !sc.IsSampled() {
		in, sc = trace.ContextWithRemoteSpanContext(ctx, parent), parent
	}
	of := format(sc)
	return in, of.Parent, of.State, func(failure string, more ...slog.Attr) {
		span.SetAttributes(attributes(more)...)
		if failure != "" {
			span.SetAttributes(attribute.String(errorType, failure))
			span.SetStatus(codes.Error, failure)
		}
		span.End()
	}
}

func attributes(of []slog.Attr) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, len(of))
	for _, a := range of {
		switch v := a.Value.Resolve(); v.Kind() {
		case slog.KindInt64:
			all = append(all, attribute.Int64(a.Key, v.Int64()))
		case slog.KindBool:
			all = append(all, attribute.Bool(a.Key, v.Bool()))
		default:
			all = append(all, attribute.String(a.Key, v.String()))
		}
	}
	return all
}
