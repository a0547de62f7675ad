package mcp

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
)

// The journal removes old records, and the oldest ones when they are too large.
func TestSweep(t *testing.T) {
	folder, now := t.TempDir(), time.Now()
	j, err := openJournal(folder, now)
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	for name, file := range map[string]struct {
		age  time.Duration
		size int64
	}{
		"old.json": {recordAge + time.Hour, 10}, "large.json": {3 * time.Hour, maxJournal / 2}, "larger.json": {2 * time.Hour, maxJournal / 2}, "new.json": {time.Hour, 10},
	} {
		path := filepath.Join(j.dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, file.size); err != nil {
			t.Fatal(err)
		}
		at := now.Add(-file.age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.sweep(now); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(j.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if got, want := fmt.Sprint(names), "[larger.json new.json]"; got != want {
		t.Errorf("left %s, want %s", got, want)
	}
}

// A record that cannot be read stops its task: nothing is called without knowing what was called before.
func TestDamagedRecord(t *testing.T) {
	j, err := openJournal(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	task := &agents.Task{ID: "1", ContextID: "c", Message: &a2a.Message{ID: "m"}}
	if r, err := j.read(task); r != nil || err != nil {
		t.Errorf("before: %v, %v", r, err)
	}
	if err := j.write(task, &record{Message: "m", State: sent, Tool: "note"}); err != nil {
		t.Fatal(err)
	}
	if r, err := j.read(task); err != nil || r.State != sent || r.Tool != "note" {
		t.Errorf("read %+v, %v", r, err)
	}
	if err := os.WriteFile(j.path(task), []byte(`{"state`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := j.read(task); err == nil {
		t.Errorf("a damaged record is read as %+v", r)
	}
}
