//go:build unix

package document

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOpenWaitsForNoPipeForEver opens a pipe without a writer, and reads one whose writer says nothing, or nothing more.
func TestOpenWaitsForNoPipeForEver(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	const patience = 50 * time.Millisecond
	if _, err := openFor(t.Context(), pipe, 100, patience); err == nil || !strings.Contains(err.Error(), pipe+" is a pipe of which nothing has come for 50ms") {
		t.Errorf("open without a writer: %v", err)
	}
	w, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close() //nolint:errcheck // of a test
	for _, said := range []string{"", "some"} {
		f, err := openFor(t.Context(), pipe, 100, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteString(said); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(said))
		if _, err := io.ReadFull(f, got); err != nil || string(got) != said {
			t.Errorf("read of %q = %q, %v", said, got, err)
		}
		f.wait = patience // for more than that
		if got, err := io.ReadAll(f); len(got) > 0 || err == nil || !strings.Contains(err.Error(), "nothing has come") {
			t.Errorf("read of a silent writer = %q, %v", got, err)
		}
	}
}
