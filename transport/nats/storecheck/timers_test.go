package storecheck

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestWipe checks that the bytes of a file are overwritten before its name is removed, which a second link shows, and that a huge sparse file takes
// no room.
func TestWipe(t *testing.T) {
	dir := t.TempDir()
	path, other, large := filepath.Join(dir, "sched.db"), filepath.Join(dir, "other"), filepath.Join(dir, "large")
	if err := errors.Join(os.WriteFile(path, bytes.Repeat([]byte("secret"), 1000), 0o600), os.Link(path, other), os.WriteFile(large, nil, 0o600), os.Truncate(large, 200<<30)); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{path, large, path} {
		if err := wipe(file); err != nil {
			t.Error(err)
		}
		if exists(file) {
			t.Errorf("%s is there", file)
		}
	}
	if b, err := os.ReadFile(other); err != nil || !bytes.Equal(b, make([]byte, 6000)) {
		t.Errorf("what was in the file is %.20q, %v, want 6000 zeros", b, err)
	}
}
