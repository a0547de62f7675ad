//go:build unix

package repl

import (
	"errors"
	"os"
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
	case <-time.After(time.Minute):
		t.Error("load waits at the pipe")
	}
}

// TestHistoryBecomesAPipe checks that a chat does not wait for a history file in whose place a pipe has come since it was read.
func TestHistoryBecomesAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	h := &history{path: path}
	if _, err := h.add("before"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	add := func(text, want string) {
		t.Helper()
		added := make(chan error, 1)
		go func() {
			_, err := h.add(text)
			added <- err
		}()
		select {
		case err := <-added:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("add to a pipe = %v, want %q", err, want)
			}
		case <-time.After(time.Minute):
			t.Fatal("add waits at the pipe")
		}
	}
	add("nobody reads", "history")
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	add("somebody reads", "history is not a regular file")
}
