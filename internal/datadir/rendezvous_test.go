package datadir

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestPortIsDamaged checks that a file of the port with something else in it costs the port, and not the start.
func TestPortIsDamaged(t *testing.T) {
	for _, text := range []string{"", "\n", "0", "-1", "http", "70000", "\x00\x00"} {
		data := t.TempDir()
		if err := os.WriteFile(portFile(data), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := SameListen(t.Context(), data, "127.0.0.1:0"); got != "127.0.0.1:0" {
			t.Errorf("with %q in the file, sameListen() = %s, want a free port", text, got)
		}
	}
}

// TestLeaveReplacesAnything has files of the data folder written where something else is: a folder is kept under another name.
func TestLeaveReplacesAnything(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a folder": func(path string) error { return os.MkdirAll(filepath.Join(path, "inside"), 0o700) },
		"a folder in place of the new file": func(path string) error {
			return os.MkdirAll(filepath.Join(path+".new", "inside"), 0o700)
		},
		"a loop": func(path string) error { return os.Symlink(filepath.Base(path), path) },
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			if err := put(AddressFile(data)); err != nil {
				t.Fatal(err)
			}
			if err := LeaveAddress(data, Address{URL: "nats://here"}); err != nil {
				t.Fatal(err)
			}
			if b, err := Read(AddressFile(data)); err != nil || !strings.Contains(string(b), "nats://here") {
				t.Errorf("the file has %q, %v", b, err)
			}
			kept, err := filepath.Glob(filepath.Join(data, "*", "inside"))
			if want := strings.Count(name, "folder"); err != nil || len(kept) != want {
				t.Errorf("%q are kept, %v, want %d folder", kept, err, want)
			}
		})
	}
}

// TestAddressIsKept damages and removes the address of a running process: it is there again. In a folder that another process has by now nothing is
// written.
func TestAddressIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := filepath.Join(t.TempDir(), "data")
		c, err := Take(t.Context(), data)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer c.close()
		defer running.Wait()
		defer cancel()
		want := Address{URL: "nats://here"}
		if err := LeaveAddress(data, want); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var log bytes.Buffer
		text := func() string {
			mu.Lock()
			defer mu.Unlock()
			return log.String()
		}
		running.Go(func() { c.KeepAddress(ctx, want, slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))) })
		there := func() bool {
			time.Sleep(2 * lookEvery)
			synctest.Wait()
			b, err := Read(AddressFile(data))
			return err == nil && strings.Contains(string(b), want.URL)
		}
		if !there() || text() != "" {
			t.Errorf("an address that nobody touches is written again: %s", text())
		}
		for _, damage := range []func(path string) error{
			os.Remove,
			func(path string) error { return os.Truncate(path, 5) },
			func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
			func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path)) },
		} {
			if err := damage(AddressFile(data)); err != nil {
				t.Fatal(err)
			}
			if !there() {
				t.Error("the address is not written again")
			}
		}
		if n := strings.Count(text(), "level=WARN"); n != 4 {
			t.Errorf("%d warnings, want 4: %s", n, text())
		}
		if err := errors.Join(os.Rename(data, data+".old"), os.Mkdir(data, 0o700)); err != nil {
			t.Fatal(err)
		}
		if there() {
			t.Error("the address is written to a folder that is somebody else's")
		}
	})
}

// lockedWriter writes under a lock.
type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
