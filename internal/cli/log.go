package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/cortex-orchestrator/cortex/internal/logs"
	"github.com/cortex-orchestrator/cortex/internal/traces"
)

// logger returns a logger that writes to w, from level on unless --log-level says otherwise. It bounds the length and the rate of lines, since
// external input can cause them.
func (s *settings) logger(w io.Writer, level slog.Level) *slog.Logger {
	l, _ := parseLevel(s.logLevel, level) // checked when the settings were read
	o := &slog.HandlerOptions{Level: l}
	var h slog.Handler = slog.NewTextHandler(w, o)
	if s.logFormat == "json" {
		h = slog.NewJSONHandler(w, o)
	}
	if traces.Wanted(os.Getenv) {
		h = traces.LogHandler(h)
	}
	return logs.New(h)
}

// logTo returns what a log is written to.
func (e *env) logTo() io.Writer {
	if e.log == nil { // in a test
		return e.stderr
	}
	return e.log
}

func parseLevel(s string, fallback slog.Level) (slog.Level, error) {
	if s == "" {
		return fallback, nil
	}
	var l slog.Level
	if err := l.UnmarshalText([]byte(s)); err != nil {
		return 0, fmt.Errorf("%q: it is debug, info, warn or error", s)
	}
	return l, nil
}
