package cli

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/agentstest"
)

// The amount of a task or a result counts its data.
func TestBytesText(t *testing.T) {
	data := a2a.NewDataPart(map[string]any{"sum": 5})
	for want, parts := range map[string]a2a.ContentParts{
		"0 bytes": nil, "1 byte": {a2a.NewTextPart("x")}, "9 bytes": {nil, data}, "12 bytes": {a2a.NewTextPart("and"), data},
	} {
		if got := bytesText(parts); got != want {
			t.Errorf("bytesText(%v) = %q, want %q", parts, got, want)
		}
	}
}

// The log says the amount of all that a task resulted in, however its agent gives it.
func TestWorklogEnds(t *testing.T) {
	for name, test := range map[string]struct {
		x    agents.Executor
		want string
	}{
		"data": {agents.Handler(func(context.Context, *agents.Task) (*agents.Result, error) {
			return &agents.Result{Parts: a2a.ContentParts{a2a.NewDataPart(map[string]any{"sum": 5})}}, nil
		}), "completed, 9 bytes"},
		"a file": {agents.Handler(func(ctx context.Context, t *agents.Task) (*agents.Result, error) {
			return nil, t.AddFile(ctx, "a.txt", "text/plain", strings.NewReader("x"))
		}), "completed, 0 bytes and a file"},
		"streamed": {agents.Handler(func(_ context.Context, t *agents.Task) (*agents.Result, error) {
			t.Stream("hello")
			return nil, nil
		}), "completed, 5 bytes"},
		"a message": {events{a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("hello"))}, "completed, 5 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var said []string
			agentstest.Serve(t, newWorklog(test.x, "agent", func(format string, args ...any) {
				mu.Lock()
				defer mu.Unlock()
				said = append(said, fmt.Sprintf(format, args...))
			})).Do("do it")
			mu.Lock()
			defer mu.Unlock()
			if len(said) != 2 || !strings.HasSuffix(said[1], " s, "+test.want) {
				t.Errorf("said %q, want the end %q", said, test.want)
			}
		})
	}
}

// events is an Executor that yields what it has.
type events []a2a.Event

func (all events) Execute(context.Context, *agents.Task) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// TestWorklogLeaving checks that an agent that is interrupted in a task says what becomes of it, and says nothing without one.
func TestWorklogLeaving(t *testing.T) {
	var said []string
	w := newWorklog(events{a2a.NewMessage(a2a.MessageRoleAgent)}, "agent", func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	for range w.Execute(t.Context(), &agents.Task{ID: "t", Message: &a2a.Message{}}) {
		w.leaving(time.Second)
	}
	w.leaving(time.Second)
	if len(said) != 3 || !strings.HasPrefix(said[1], "agent leaves when its task is done; after 1s it is given back") {
		t.Errorf("said %q, want once that it leaves", said)
	}
}

// TestLogLine checks that a line of a program keeps its indentation, and nothing that a terminal would obey.
func TestLogLine(t *testing.T) {
	for line, want := range map[string]string{
		"  File \"a.py\", line 3":     "  File \"a.py\", line 3",
		"\tat \x1b[2Jx  y":            "    at x y",
		strings.Repeat(" ", 99) + "z": strings.Repeat(" ", maxIndent) + "z",
		"":                            "",
	} {
		if got := logLine(line); got != want {
			t.Errorf("logLine(%q) = %q, want %q", line, got, want)
		}
	}
}
