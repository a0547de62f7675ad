package traces

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"
)

// TestLogHandler has ids on the lines of a trace, each of them once.
func TestLogHandler(t *testing.T) {
	sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	plain := context.Background()
	traced := context.WithValue(trace.ContextWithSpanContext(plain, sc), workKey{}, work{"c", "t"})
	const ids = "trace_id=01000000000000000000000000000000 span_id=0200000000000000"
	for name, c := range map[string]struct {
		ctx  context.Context
		with []any
		args []any
		want string
	}{
		"no trace":      {ctx: plain, args: []any{"a", 1}, want: "msg=m a=1"},
		"a trace":       {ctx: traced, args: []any{"a", 1}, want: "msg=m a=1 context_id=c task_id=t " + ids},
		"ids in a line": {ctx: traced, args: []any{"task_id", "u"}, want: "msg=m task_id=u context_id=c " + ids},
		"of the logger": {ctx: traced, with: []any{"context_id", "d"}, want: "context_id=d msg=m task_id=t " + ids},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			log := slog.New(LogHandler(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
					return slog.Attr{}
				}
				return a
			}})))
			log.With(c.with...).InfoContext(c.ctx, "m", c.args...)
			got, want := strings.Fields(b.String()), strings.Fields(c.want)
			slices.Sort(got)
			slices.Sort(want)
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("line %q, want %q", got, want)
			}
		})
	}
}
