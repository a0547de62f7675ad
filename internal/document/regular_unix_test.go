//go:build unix

package document

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOpenRegularWaitsForNoPipe opens a pipe without a writer, also one that has replaced a file.
func TestOpenRegularWaitsForNoPipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	_, byPath := OpenRegular(t.Context(), filepath.Join(dir, "pipe"))
	_, device := OpenRegular(t.Context(), "/dev/zero")
	_, inRoot := OpenRegularIn(t.Context(), root, "pipe")
	for _, err := range []error{byPath, device, inRoot} {
		if err == nil || !strings.Contains(err.Error(), " is no file but a pipe, a socket or a device: name a file") {
			t.Errorf("OpenRegular = %v, want what is there", err)
		}
	}
}
