package traces

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
)

// parse reads a W3C trace context.
func parse(t conversation.Trace) (trace.SpanContext, bool) {
	if t.Parent == "" {
		return trace.SpanContext{}, false
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": t.Parent, "tracestate": t.State})
	sc := trace.SpanContextFromContext(ctx)
	return sc, sc.IsValid()
}

// format is the reverse of parse.
func format(sc trace.SpanContext) conversation.Trace {
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), sc), c)
	return conversation.Trace{Parent: c["traceparent"], State: c["tracestate"]}
}
