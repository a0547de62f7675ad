package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/screen"
	"github.com/cortex-orchestrator/cortex/repl"
)

// wantsLogs reports whether the user has configured logging. Otherwise commands for people print sentences instead of log lines.
func (s *settings) wantsLogs() bool { return s.given["log-format"] != 0 || s.given["log-level"] != 0 }

// sentencesOr returns a logger that passes sentences to say, or an ordinary logger when the user has configured logging.
func (e *env) sentencesOr(level slog.Level, say func(line string)) *slog.Logger {
	if e.settings.wantsLogs() {
		return e.settings.logger(e.stderr, level)
	}
	return slog.New(paced(boundedLog{sentences{level: level, say: say}}))
}

// sentences is a log handler that writes sentences: "warning: what: err (key value); advice".
type sentences struct {
	level slog.Level
	say   func(line string)
	hides func(message string, level slog.Level, attrs []slog.Attr) bool // nil: hides nothing
	attrs []slog.Attr
}

// Enabled implements [slog.Handler].
func (s sentences) Enabled(_ context.Context, level slog.Level) bool { return level >= s.level }

// Handle implements [slog.Handler].
func (s sentences) Handle(_ context.Context, r slog.Record) error {
	all := s.attrs[:len(s.attrs):len(s.attrs)]
	r.Attrs(func(a slog.Attr) bool {
		all = append(all, a)
		return true
	})
	if s.hides != nil && s.hides(r.Message, r.Level, all) {
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
	s.say(word + strings.Join(strings.Fields(repl.Sanitize(text)), " "))
	return nil
}

// WithAttrs implements [slog.Handler].
func (s sentences) WithAttrs(attrs []slog.Attr) slog.Handler {
	s.attrs = append(s.attrs[:len(s.attrs):len(s.attrs)], attrs...)
	return s
}

// WithGroup implements [slog.Handler].
func (s sentences) WithGroup(string) slog.Handler { return s }

// speaker returns a function that prints sentences on standard error, or log lines when the user has configured logging.
func (e *env) speaker() func(format string, args ...any) {
	if e.settings.wantsLogs() {
		log := e.settings.logger(e.stderr, slog.LevelInfo)
		return func(format string, args ...any) { log.Info(fmt.Sprintf(format, args...)) }
	}
	return func(format string, args ...any) { screen.Print(e.stderr, format, args...) }
}
