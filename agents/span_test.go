package agents_test

import (
	"context"
	"errors"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/agentstest"
)

// TestSpans makes a span of each task, whose trace context the handler and its calls have.
func TestSpans(t *testing.T) {
	for name, c := range map[string]struct {
		result  *agents.Result
		err     error
		failure string
		state   a2a.TaskState
	}{
		"done":     {agents.Text("yes"), nil, "", a2a.TaskStateCompleted},
		"asks":     {agents.InputRequired("how many?"), nil, "", a2a.TaskStateInputRequired},
		"failed":   {nil, errors.New("no"), "failed", a2a.TaskStateFailed},
		"rejected": {nil, agents.Rejected(errors.New("no")), "rejected", a2a.TaskStateRejected},
	} {
		t.Run(name, func(t *testing.T) {
			var spans agentstest.Spans
			var told, below string
			served := agentstest.ServeWith(t, agents.Handler(func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
				told = task.Traceparent
				parent, _, end := task.Span(ctx, "call")
				below = parent
				end("")
				return c.result, c.err
			}), nil, &agents.Options{Tracer: &spans})
			served.Do("go")
			all := spans.Take()
			if len(all) != 2 {
				t.Fatalf("%d spans, want a call and a task: %+v", len(all), all)
			}
			call, task := all[0], all[1]
			if task.Own != told || call.Traceparent != told || call.Own != below || !call.Call || task.Call {
				t.Errorf("the handler was told %q and %q, the spans are %+v", told, below, all)
			}
			if task.Failure != c.failure || task.More["a2a.task.state"] != string(c.state) || task.More["gen_ai.operation.name"] != "invoke_agent" || task.Key == "" {
				t.Errorf("%+v, want one of a task that is %s", task, c.state)
			}
		})
	}
}

// TestNoSpans checks that a task keeps its own trace context without a Tracer.
func TestNoSpans(t *testing.T) {
	task := &agents.Task{Traceparent: "p", Tracestate: "s"}
	parent, state, end := task.Span(t.Context(), "call")
	end("")
	if parent != "p" || state != "s" {
		t.Errorf("the call has the trace context %q, %q, want that of the task", parent, state)
	}
}
