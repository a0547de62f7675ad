package cli

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/screen"
)

// TestNoticesAreSaid checks that all notices during a question are printed, to the last one.
func TestNoticesAreSaid(t *testing.T) {
	var errs strings.Builder
	notices := make(chan string, 8)
	end := (&env{stderr: &errs}).sayNotices(notices)
	for _, line := range []string{"one", "two", "three"} {
		notices <- line
	}
	end()
	if want := "cortex: one\ncortex: two\ncortex: three\n"; errs.String() != want {
		t.Errorf("it says %q, want %q", &errs, want)
	}
}

// TestCommandLog checks that who looks at a terminal gets sentences, in the width of it, and that everybody else gets log lines.
func TestCommandLog(t *testing.T) {
	warn := func(e *env) {
		e.commandLog(slog.LevelWarn).Warn("the list cannot be read", "err", "entry 2:\n\tno name")
	}
	for _, wrap := range []func(io.Writer) io.Writer{func(w io.Writer) io.Writer { return w }, screen.OneAtATime} {
		got := onScreen(t, 40, func(tty *os.File) { warn(&env{stderr: wrap(tty)}) })
		if want := "warning: the list cannot be read: entry\n2: no name\n"; got != want {
			t.Errorf("on a terminal it says %q, want %q", got, want)
		}
	}
	got := onScreen(t, 200, func(tty *os.File) {
		warn(&env{stderr: tty, settings: settings{given: map[string]source{"log-level": 1}}})
	})
	var piped strings.Builder
	warn(&env{stderr: &piped})
	for _, line := range []string{got, piped.String()} {
		if !strings.Contains(line, `level=WARN msg="the list cannot be read" err="entry 2:`) {
			t.Errorf("it logs %q", line)
		}
	}
}
