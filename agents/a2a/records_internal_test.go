package a2a

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/internal/records"
)

// TestRecordsWithoutFolder removes the folder of an agent that runs: its further tasks are kept as before.
func TestRecordsWithoutFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "peer")
	r, err := openJournal(dir, time.Now(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // it was removed
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	task := &agents.Task{ContextID: "c", ID: "t"}
	if err := r.opened(task); err != nil {
		t.Errorf("opened = %v", err)
	}
	if err := r.Write(task, &record{Sent: "m"}); err != nil {
		t.Errorf("write = %v", err)
	}
	if err := r.setContext(task, "theirs"); err != nil {
		t.Errorf("setContext = %v", err)
	}
	if is, err := r.Read(task); err != nil || is == nil || is.Sent != "m" {
		t.Errorf("read = %v, %v", is, err)
	}
}

// TestOpenTasksAreLost has the records of tasks be too old, as when the clock is set forward: the log says once how many the peer may be at work on.
func TestOpenTasksAreLost(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	text := slog.New(slog.NewTextHandler(&log, nil))
	r, err := openJournal(dir, time.Now(), text)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []a2a.TaskID{"1", "2", "3"} {
		task := &agents.Task{ID: id, ContextID: "c"}
		if err := errors.Join(r.opened(task), r.Write(task, &record{})); err != nil {
			t.Fatal(err)
		}
		if id == "3" {
			r.closed(task)
		}
	}
	want := func(when string) {
		t.Helper()
		if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, " tasks=2 ") || !strings.Contains(got, then) {
			t.Errorf("%s, the log has %s, want one warning about 2 tasks", when, got)
		}
	}
	later := time.Now().Add(records.Age + time.Hour)
	if err := r.Sweep(later); err != nil {
		t.Fatal(err)
	}
	want("in a sweep")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	log.Reset()
	if r, err = openJournal(dir, later, text); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want("at the start")
}
