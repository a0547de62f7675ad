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
		f, err := openFor(t.Context(), pipe, 100, patience)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteString(said); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(f)
		if string(got) != said || err == nil || !strings.Contains(err.Error(), "nothing has come") {
			t.Errorf("read of a silent writer = %q, %v", got, err)
		}
	}
	done := make(chan error, 1)
	go func() {
		_, _, err := readRegular(pipe, 100)
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || !strings.HasSuffix(err.Error(), "is not a file") {
			t.Errorf("a pipe instead of a file: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a pipe instead of a file is waited for")
	}
}
