//go:build unix

package document

import (
	"errors"
	"fmt"
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

// TestWaitingIsTold reads a pipe of which nothing comes for a while, as without a writer: that is told, once, and what comes then is read. What comes at once, and
// plain files, are nothing to tell of.
func TestWaitingIsTold(t *testing.T) {
	dir := t.TempDir()
	pipe, plain := filepath.Join(dir, "pipe"), filepath.Join(dir, "plain")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(plain, []byte("some"), 0o600)); err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 10)
	ctx := Telling(t.Context(), func(text string) { told <- text })
	read := make(chan string, 1)
	go func() {
		b, err := Read(ctx, pipe, 100)
		read <- fmt.Sprint(string(b), err)
	}()
	select {
	case text := <-told:
		if !strings.Contains(text, "waiting for "+pipe) {
			t.Errorf("it tells %q", text)
		}
	case got := <-read:
		t.Fatalf("without a writer: %s", got)
	}
	if err := os.WriteFile(pipe, []byte("late"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "late<nil>" {
		t.Errorf("read after waiting: %s", got)
	}
	if b, err := Read(ctx, plain, 100); string(b) != "some" || err != nil {
		t.Errorf("a plain file: %q, %v", b, err)
	}
	select {
	case text := <-told:
		t.Errorf("it tells %q as well", text)
	default:
	}
}
