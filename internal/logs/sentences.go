package logs

import (
	"context"
	"log/slog"
	"strings"

	"github.com/cortex-orchestrator/cortex/repl"
)

// Sentences is a log handler that writes sentences: "warning: what: err (key value); advice".
type Sentences struct {
	Level slog.Level
	Say   func(line string)
	Hides func(message string, level slog.Level, attrs []slog.Attr) bool // nil: hides nothing
	attrs []slog.Attr
}

// Enabled implements [slog.Handler].
func (s Sentences) Enabled(_ context.Context, level slog.Level) bool { return level >= s.Level }

// Handle implements [slog.Handler].
func (s Sentences) Handle(_ context.Context, r slog.Record) error {
	all := s.attrs[:len(s.attrs):len(s.attrs)]
	r.Attrs(func(a slog.Attr) bool {
		all = append(all, a)
		return true
	})
	if s.Hides != nil && s.Hides(r.Message, r.Level, all) {
		return nil
	}
	text, advice, more := r.Message, "", []string{}
	for _, a := range all {
		switch {
		case a.Key == "err":
			text += ": " + a.Value.String()
		case a.Value.String() == "":
		case a.Key == "advice":
			advice = "; " + a.Value.String()
		default:
			more = append(more, strings.ReplaceAll(a.Key, "_", " ")+" "+a.Value.String())
		}
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	text += advice
	word := ""
	switch {
	case r.Level >= slog.LevelError:
		word = "error: "
	case r.Level >= slog.LevelWarn:
		word = "warning: "
	}
	s.Say(word + strings.Join(strings.Fields(repl.Sanitize(text)), " "))
	return nil
}

// WithAttrs implements [slog.Handler].
func (s Sentences) WithAttrs(attrs []slog.Attr) slog.Handler {
	s.attrs = append(s.attrs[:len(s.attrs):len(s.attrs)], attrs...)
	return s
}

// WithGroup implements [slog.Handler].
func (s Sentences) WithGroup(string) slog.Handler { return s }
