package document_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/document"
)

// TestReadDevices reads devices, some of them endless.
func TestReadDevices(t *testing.T) {
	if _, err := document.Read(t.Context(), "/dev/zero", 1<<20); !errors.Is(err, document.ErrTooLarge) {
		t.Errorf("Read(/dev/zero) = %v, want too large", err)
	}
	if _, _, err := document.ReadRegular("/dev/zero", 1<<20); err == nil || err.Error() != "/dev/zero is no file but a pipe, a socket or a device: name a file" {
		t.Errorf("ReadRegular(/dev/zero) = %v", err)
	}
	if b, err := document.Read(t.Context(), "/dev/null", 10); err != nil || len(b) > 0 {
		t.Errorf("Read(/dev/null) = %q, %v, want nothing", b, err)
	}
}

// TestReadPipe reads a pipe that provides some bytes and then blocks.
func TestReadPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	path := fmt.Sprintf("/proc/self/fd/%d", r.Fd())
	if _, err := w.WriteString("name: w"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f, err := document.Open(ctx, path, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 7)
	if _, err := io.ReadFull(f, b); err != nil || string(b) != "name: w" {
		t.Fatalf("Read() = %q, %v", b, err)
	}
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := f.Read(b); !errors.Is(err, context.Canceled) {
		t.Errorf("Read() when ctx ends = %v", err)
	}
	if _, err := document.Read(ctx, path, 100); !errors.Is(err, context.Canceled) {
		t.Errorf("Read() after ctx = %v", err)
	}
}

// TestReadNoWriter reads a pipe without a writer.
func TestReadNoWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := document.Read(ctx, path, 100); !errors.Is(err, context.Canceled) {
		t.Errorf("Read() when ctx ends = %v", err)
	}
	if _, _, err := document.ReadRegular(path, 100); err == nil || err.Error() != path+" is no file but a pipe, a socket or a device: name a file" {
		t.Errorf("ReadRegular() = %v", err)
	}
}
