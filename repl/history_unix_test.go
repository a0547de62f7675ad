//go:build unix

package repl

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestHistoryIsAPipe checks that a chat does not wait for a history file that is a pipe.
func TestHistoryIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	loaded := make(chan error, 1)
	go func() {
		_, err := (&history{path: path}).load()
		loaded <- err
	}()
	select {
	case err := <-loaded:
		if err == nil || !strings.Contains(err.Error(), "history is not a regular file") {
			t.Errorf("load of a pipe = %v, want that it is none", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("load waits at the pipe")
	}
}
