package a2a

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/agents"
)

// TestRecordsWithoutFolder removes the folder of an agent that runs: its further tasks are kept as before.
func TestRecordsWithoutFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "peer")
	r, err := openJournal(dir, time.Now())
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
