package cli

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// TestSentences checks the sentences for log records.
func TestSentences(t *testing.T) {
	var said []string
	log := slog.New(sentences{level: slog.LevelWarn, say: func(line string) { said = append(said, line) }})
	log.Info("not this")
	log.With("agent", "weather").Warn("no answer", "err", errors.New("gone\x1b[2J"), "after_all", 3)
	log.Error("it is lost")
	log.Warn("the keys are not used", "advice", "--auth uses them", "of", "ada")
	want := []string{"warning: no answer: gone (agent weather, after all 3)", "error: it is lost", "warning: the keys are not used (of ada); --auth uses them"}
	if !slices.Equal(said, want) {
		t.Errorf("it says %q, want %q", said, want)
	}
}

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
