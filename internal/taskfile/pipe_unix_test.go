//go:build unix

package taskfile_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/taskfile"
)

// TestPipes puts pipes in the places of files: nothing waits for their other ends.
func TestPipes(t *testing.T) {
	f := &taskfile.Folder{Dir: t.TempDir(), Most: 10, Age: 1 << 62}
	pipe := func(name string) string {
		path := filepath.Join(f.Dir, name)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := f.Mark(pipe("mark.json"), taskfile.Owner("", "user:ada")); err == nil {
		t.Error("a pipe was marked")
	}
	path, got := pipe("record.json"), ""
	if _, err := taskfile.ReadRecord(path, 100, &got); err == nil {
		t.Errorf("a pipe was read: %q", got)
	}
	if err := f.WriteRecord(path, taskfile.Owner("", "user:ada"), 100, "a record"); err != nil {
		t.Errorf("a record cannot replace a pipe: %v", err)
	}
	if ok, err := taskfile.ReadRecord(path, 100, &got); !ok || err != nil || got != "a record" {
		t.Errorf("the record is %q, %t, %v", got, ok, err)
	}
}
