package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestLogIsBounded logs external input: a number of a megabyte, an error with it, long lists, and terminal sequences.
func TestLogIsBounded(t *testing.T) {
	long := strings.Repeat("7", 1<<20)
	list := make([]string, 100_000)
	for i := range list {
		list[i] = "agent"
	}
	evil := "a\x1b]0;title\x07b\x1b[31mred\x00\u202eback"
	for _, format := range []string{"text", "json"} {
		var log bytes.Buffer
		var h slog.Handler = slog.NewTextHandler(&log, nil)
		if format == "json" {
			h = slog.NewJSONHandler(&log, nil)
		}
		l := New(h).With("who", long)
		l.Warn("number "+long, "text", long, "err", fmt.Errorf("bad: %w", errors.New(long)), "number", json.Number(long), "list", list,
			"any", map[string]string{"x": long}, "bytes", []byte(long), "evil", evil, "n", 3, "took", time.Second, slog.Group("g", "x", long))
		l.WithGroup("group").Info("hello", "evil", evil)
		l.Debug("not shown")
		text := log.String()
		if n := strings.Count(text, "\n"); n != 2 {
			t.Errorf("%s: %d lines, want 2", format, n)
		}
		if len(text) > 2*16<<10 {
			t.Errorf("%s: %d bytes", format, len(text))
		}
		for _, want := range []string{"(1048576 bytes)", "… 9", "abredback", "hello"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the log lacks %q:\n%.3000s", format, want, text)
			}
		}
		if strings.ContainsAny(text, "\x1b\x00\x07\u202e") || strings.Contains(text, "x1b") || strings.Contains(text, "u001b") {
			t.Errorf("%s: the log acts on a terminal:\n%.3000q", format, text)
		}
		if format == "json" {
			for line := range strings.Lines(text) {
				var v map[string]any
				if err := json.Unmarshal([]byte(line), &v); err != nil {
					t.Errorf("%v: %.200s", err, line)
				}
			}
		}
	}
}

// TestLogIsAsItWas checks that short lines are unchanged.
func TestLogIsAsItWas(t *testing.T) {
	var log, plain bytes.Buffer
	noTime := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	for _, l := range []*slog.Logger{slog.New(bounded{slog.NewJSONHandler(&log, noTime)}), slog.New(slog.NewJSONHandler(&plain, noTime))} {
		l.With("a", 1).WithGroup("g").Info("decided", "kind", "respond", "agents", []string{"a", "b"}, "none", []string{}, "took", 3*time.Millisecond,
			"err", errors.New("x: y"), "at", time.Unix(1, 0).UTC(), "ok", true, "map", map[string]int{"x": 1}, "nil", nil)
	}
	if log.String() != plain.String() {
		t.Errorf("got  %swant %s", &log, &plain)
	}
}
