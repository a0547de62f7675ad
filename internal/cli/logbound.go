package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cortex-orchestrator/cortex/repl"
)

// Bounds of the log, in bytes. It contains external input of any length.
const (
	maxLogText = 1 << 10 // of a message or a value
	maxLogLine = 8 << 10 // of all texts of a line together; after that, only the beginning of each is written
	minLogText = 64
)

// boundedLog is a handler that bounds the length of lines and removes terminal control characters.
type boundedLog struct{ slog.Handler }

// Handle implements [slog.Handler].
func (b boundedLog) Handle(ctx context.Context, r slog.Record) error {
	left := maxLogLine
	short := slog.NewRecord(r.Time, r.Level, logText(r.Message, &left), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		short.AddAttrs(logAttr(a, &left))
		return true
	})
	return b.Handler.Handle(ctx, short)
}

// WithAttrs implements [slog.Handler].
func (b boundedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	short, left := make([]slog.Attr, len(attrs)), maxLogLine
	for i, a := range attrs {
		short[i] = logAttr(a, &left)
	}
	return boundedLog{b.Handler.WithAttrs(short)}
}

// WithGroup implements [slog.Handler].
func (b boundedLog) WithGroup(name string) slog.Handler {
	return boundedLog{b.Handler.WithGroup(name)}
}

// logAttr returns a with its texts shortened. left is the room that remains in the line, in bytes.
func logAttr(a slog.Attr, left *int) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, logText(v.String(), left))
	case slog.KindGroup:
		group := make([]slog.Attr, 0, len(v.Group()))
		for _, member := range v.Group() {
			group = append(group, logAttr(member, left))
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(group...)}
	case slog.KindAny:
		return slog.Attr{Key: a.Key, Value: logAny(v.Any(), left)}
	}
	return slog.Attr{Key: a.Key, Value: v} // a number, a time
}

func logAny(v any, left *int) slog.Value {
	switch v := v.(type) {
	case nil, *slog.Source, time.Duration:
		return slog.AnyValue(v)
	case error:
		return slog.StringValue(logText(v.Error(), left))
	case []string:
		short := make([]string, 0, min(len(v), maxLogLine))
		for i, s := range v {
			if *left < minLogText {
				short = append(short, fmt.Sprintf("… %d more", len(v)-i))
				break
			}
			short = append(short, logText(s, left))
		}
		return slog.AnyValue(short)
	}
	text := fmt.Sprintf("%+v", v)
	if short := logText(text, left); short != text {
		return slog.StringValue(short)
	}
	return slog.AnyValue(v)
}

// logText returns s, shortened to the room that is left. A shortened text ends with its original length.
func logText(s string, left *int) string {
	most := max(min(maxLogText, *left), minLogText)
	if len(s) > most {
		s = repl.Sanitize(s[:most]) + fmt.Sprintf("… (%d bytes)", len(s))
	} else {
		s = repl.Sanitize(s)
	}
	*left -= len(s)
	return s
}
