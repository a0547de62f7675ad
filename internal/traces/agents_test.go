package traces

import (
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
)

// TestAgents has an agent that is killed at a task, and started again. What it asked for before the kill is below a span that is there.
func TestAgents(t *testing.T) {
	const parent = "00-" + parentTrace + "-" + parentSpan + "-01"
	task := agents.Span{Name: "invoke_agent a", Key: "task", Traceparent: parent, Tracestate: "k=v", Attributes: []slog.Attr{slog.Int("cortex.attempt", 1)}}
	killed := newAgents(sdktrace.WithSyncer(tracetest.NewInMemoryExporter()))
	_, before, state, _ := killed.Begin(t.Context(), task)
	if state != "k=v" {
		t.Errorf("the tracestate %q became %q", "k=v", state)
	}

	exporter := tracetest.NewInMemoryExporter()
	a := newAgents(sdktrace.WithSyncer(exporter))
	in, again, _, end := a.Begin(t.Context(), task)
	if again != before {
		t.Errorf("the task has the trace context %q, and %q before its agent was killed", again, before)
	}
	if sc := trace.SpanContextFromContext(in); format(sc).Parent != again {
		t.Errorf("the context has %v, want %s", sc, again)
	}
	_, one, _, done := a.Begin(in, agents.Span{Name: "call", Call: true, Traceparent: again})
	done("")
	_, two, _, done := a.Begin(in, agents.Span{Name: "call", Call: true, Traceparent: again})
	done("tool_error")
	if one == two {
		t.Errorf("two calls have the trace context %s", one)
	}
	end("failed", slog.String("a2a.task.state", "x"))
	spans := exporter.GetSpans()
	want := []string{parentSpan + " > invoke_agent a (failed)", "invoke_agent a > call", "invoke_agent a > call (tool_error)"}
	if diff := cmp.Diff(want, shape(spans)); diff != "" {
		t.Fatalf("spans (-want +got):\n%s", diff)
	}
	for _, s := range spans {
		if kind := map[bool]trace.SpanKind{true: trace.SpanKindClient, false: trace.SpanKindInternal}[s.Name == "call"]; s.SpanKind != kind {
			t.Errorf("%s has the kind %v", s.Name, s.SpanKind)
		}
	}
	if n := len(spans[2].Attributes); n != 3 { // with error.type
		t.Errorf("the task has %d attributes: %v", n, spans[2].Attributes)
	}
}

// TestUnsampled has no span of an agent between a task that is not sampled and what comes of it.
func TestUnsampled(t *testing.T) {
	const parent = "00-" + parentTrace + "-" + parentSpan + "-00"
	exporter := tracetest.NewInMemoryExporter()
	a := newAgents(sdktrace.WithSyncer(exporter))
	_, got, _, end := a.Begin(t.Context(), agents.Span{Name: "invoke_agent a", Key: "task", Traceparent: parent})
	end("")
	if got != parent || len(exporter.GetSpans()) != 0 {
		t.Errorf("%d spans and the trace context %s, want none and %s", len(exporter.GetSpans()), got, parent)
	}
}

// TestAlone begins a trace for a task that has none.
func TestAlone(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	a := newAgents(sdktrace.WithSyncer(exporter))
	ids := map[trace.TraceID]bool{}
	for range 2 {
		_, own, _, end := a.Begin(t.Context(), agents.Span{Name: "invoke_agent a", Key: "task"})
		end("")
		sc, ok := parse(conversation.Trace{Parent: own})
		if ok {
			ids[sc.TraceID()] = true
		}
	}
	if len(ids) != 2 || len(exporter.GetSpans()) != 2 {
		t.Errorf("traces %v, want one for each task", ids)
	}
}
