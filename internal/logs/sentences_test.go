package logs

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
)

// TestSentences checks the sentences for log records.
func TestSentences(t *testing.T) {
	var said []string
	log := slog.New(Sentences{Level: slog.LevelWarn, Say: func(line string) { said = append(said, line) }})
	log.Info("not this")
	log.With("agent", "weather").Warn("no answer", "err", errors.New("gone\x1b[2J"), "after_all", 3)
	log.Error("it is lost")
	log.Warn("the keys are not used", "advice", "--auth uses them", "of", "ada")
	want := []string{"warning: no answer: gone (agent weather, after all 3)", "error: it is lost", "warning: the keys are not used (of ada); --auth uses them"}
	if !slices.Equal(said, want) {
		t.Errorf("it says %q, want %q", said, want)
	}
}
