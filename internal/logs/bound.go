package logs

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cortex-orchestrator/cortex/repl"
)

// Bounds of the log, in bytes. It contains external input of any length.
const (
	maxText = 1 << 10 // of a message or a value
	maxLine = 8 << 10 // of all texts of a line together; after that, only the beginning of each is written
	minText = 64
)

// bounded is a handler that bounds the length of lines and removes terminal control characters.
type bounded struct{ slog.Handler }

// Handle implements [slog.Handler].
func (b bounded) Handle(ctx context.Context, r slog.Record) error {
	left := maxLine
	short := slog.NewRecord(r.Time, r.Level, textOf(r.Message, &left), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		short.AddAttrs(attrOf(a, &left))
		return true
	})
	return b.Handler.Handle(ctx, short)
}

// WithAttrs implements [slog.Handler].
func (b bounded) WithAttrs(attrs []slog.Attr) slog.Handler {
	short, left := make([]slog.Attr, len(attrs)), maxLine
	for i, a := range attrs {
		short[i] = attrOf(a, &left)
	}
	return bounded{b.Handler.WithAttrs(short)}
}

// WithGroup implements [slog.Handler].
func (b bounded) WithGroup(name string) slog.Handler {
	return bounded{b.Handler.WithGroup(name)}
}

// attrOf returns a with its texts shortened. left is the room that remains in the line, in bytes.
func attrOf(a slog.Attr, left *int) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, textOf(v.String(), left))
	case slog.KindGroup:
		group := make([]slog.Attr, 0, len(v.Group()))
		for _, member := range v.Group() {
			group = append(group, attrOf(member, left))
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(group...)}
	case slog.KindAny:
		return slog.Attr{Key: a.Key, Value: anyOf(v.Any(), left)}
	}
	return slog.Attr{Key: a.Key, Value: v} // a number, a time
}

func anyOf(v any, left *int) slog.Value {
	switch v := v.(type) {
	case nil, *slog.Source, time.Duration:
		return slog.AnyValue(v)
	case error:
		return slog.StringValue(textOf(v.Error(), left))
	case []string:
		short := make([]string, 0, min(len(v), maxLine))
		for i, s := range v {
			if *left < minText {
				short = append(short, fmt.Sprintf("… %d more", len(v)-i))
				break
			}
			short = append(short, textOf(s, left))
		}
		return slog.AnyValue(short)
	}
	text := fmt.Sprintf("%+v", v)
	if short := textOf(text, left); short != text {
		return slog.StringValue(short)
	}
	return slog.AnyValue(v)
}

// textOf returns s, shortened to the room that is left. A shortened text ends with its original length.
func textOf(s string, left *int) string {
	most := max(min(maxText, *left), minText)
	if len(s) > most {
		s = repl.Sanitize(s[:most]) + fmt.Sprintf("… (%d bytes)", len(s))
	} else {
		s = repl.Sanitize(s)
	}
	*left -= len(s)
	return s
}
