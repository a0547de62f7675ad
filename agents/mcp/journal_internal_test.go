package mcp

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/internal/records"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
	"github.com/cortex-orchestrator/cortex/transport"
)

// A journal that is opened removes old records.
func TestJournalSweeps(t *testing.T) {
	folder, now := t.TempDir(), time.Now()
	old := (&taskfile.Folder{Dir: filepath.Join(folder, callsDir)}).Path("", "context", "old")
	if err := errors.Join(os.MkdirAll(filepath.Dir(old), 0o700), os.WriteFile(old, nil, 0o600), os.Chtimes(old, now, now.Add(-records.Age))); err != nil {
		t.Fatal(err)
	}
	j, err := openJournal(folder, now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an old record is left: %v", err)
	}
}

// TestJournalLosesOpenTasks has the clock set forward: the log says how many tasks lose their records before they are done, and what becomes of them.
func TestJournalLosesOpenTasks(t *testing.T) {
	folder, now := t.TempDir(), time.Now()
	j, err := openJournal(folder, now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for id, state := range map[a2a.TaskID]string{"1": taken, "2": sent, "3": done, "4": asking} {
		if err := j.Write(&agents.Task{ID: id, ContextID: "c"}, &record{State: state}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if j, err = openJournal(folder, now.Add(records.Age+time.Hour), slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, " tasks=3 ") || !strings.Contains(got, "ask again for it") {
		t.Errorf("the log has %s, want one warning about 3 tasks", got)
	}
}

// The records of somebody who has many make room, and not those of others.
func TestJournalShares(t *testing.T) {
	j, err := openJournal(t.TempDir(), time.Now(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	j.Most = 5
	write := func(from, contextID string) *agents.Task {
		t.Helper()
		task := &agents.Task{ID: "1", ContextID: contextID, Message: &a2a.Message{ID: "m", Metadata: map[string]any{transport.MetaRequester: from}}}
		if err := errors.Join(j.Write(task, &record{Message: "m", State: asking}), j.Sweep(time.Now())); err != nil {
			t.Fatal(err)
		}
		return task
	}
	task := write("ada", "c")
	for n := range 8 {
		write("mallory", strconv.Itoa(n))
	}
	if r, err := j.Read(task); r == nil || err != nil {
		t.Errorf("the record of the other one: %v, %v", r, err)
	}
}

// What is forgotten of a conversation is that of all agents, and nothing else.
func TestForget(t *testing.T) {
	dir := t.TempDir()
	if err := Forget(filepath.Join(dir, "none"), "", "gone"); err != nil {
		t.Errorf("without a folder: %v", err)
	}
	left := map[string]*agents.Task{}
	for _, agent := range []string{"mcp_a", "mcp_b"} {
		j, err := openJournal(filepath.Join(dir, agent), time.Now(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		for _, contextID := range []string{"gone", "kept"} {
			task := &agents.Task{ID: "1", ContextID: contextID, Message: &a2a.Message{ID: "m"}}
			if err := j.Write(task, &record{Message: "m", State: sent}); err != nil {
				t.Fatal(err)
			}
			left[j.File(task)] = task
		}
	}
	if err := Forget(dir, "", "gone"); err != nil {
		t.Fatal(err)
	}
	for path, task := range left {
		if _, err := os.Stat(path); (err == nil) != (task.ContextID == "kept") {
			t.Errorf("the record of %s: %v", task.ContextID, err)
		}
	}
}

// A record that cannot be read stops its task: nothing is called without knowing what was called before.
func TestDamagedRecord(t *testing.T) {
	var log bytes.Buffer
	j, err := openJournal(t.TempDir(), time.Now(), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	task := &agents.Task{ID: "1", ContextID: "c", Message: &a2a.Message{ID: "m"}}
	if r, err := j.Read(task); r != nil || err != nil {
		t.Errorf("before: %v, %v", r, err)
	}
	if err := j.Write(task, &record{Message: "m", State: sent, Tool: "note"}); err != nil {
		t.Fatal(err)
	}
	if r, err := j.Read(task); err != nil || r.State != sent || r.Tool != "note" {
		t.Errorf("read %+v, %v", r, err)
	}
	if err := os.WriteFile(j.File(task), []byte(`{"state`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := j.Read(task); err == nil {
		t.Errorf("a damaged record is read as %+v", r)
	}
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "file="+j.File(task)) {
		t.Errorf("the log has %s, want the file of the record", got)
	}
}
