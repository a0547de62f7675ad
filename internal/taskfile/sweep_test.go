package taskfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestWritingDoesNotWaitForSweep has a sweep go on, as one that reads the owners of 10,000 files: other files are written meanwhile, also those that would have
// the folder swept, which the next one then does.
func TestWritingDoesNotWaitForSweep(t *testing.T) {
	f := &Folder{Dir: t.TempDir(), Age: time.Hour, Most: 10}
	f.sweeps.Lock()
	written := make(chan error, 1)
	go func() { written <- f.Write(filepath.Join(f.Dir, "a"), []byte("x")) }() // the first one is due
	select {
	case err := <-written:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for the sweep")
	}
	f.sweeps.Unlock()
	old, was := filepath.Join(f.Dir, "old"), time.Now().Add(-2*time.Hour)
	if err := errors.Join(os.WriteFile(old, nil, 0o600), os.Chtimes(old, was, was), f.Write(filepath.Join(f.Dir, "b"), []byte("x"))); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the sweep that was due is forgotten: %v", err)
	}
}
