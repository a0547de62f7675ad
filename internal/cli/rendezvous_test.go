package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/home"
	"github.com/cortex-orchestrator/cortex/internal/home/nats"
)

// TestPortIsKept starts a server after another one on the same data folder, with and without TLS, in which the URL's scheme differs: it has the same
// port.
func TestPortIsKept(t *testing.T) {
	own := certify(t, "server")
	for name, tls := range map[string]home.TLS{"plain": {}, "TLS": {Cert: own.Cert, Key: own.Key}} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			server, err := nats.Home{}.Start(t.Context(), &home.ServerOptions{Dir: storeDir(data), Listen: sameListen(t.Context(), data, "127.0.0.1:0"), TLS: tls})
			if err != nil {
				t.Fatal(err)
			}
			keepPort(data, server.URL())
			server.Shutdown()
			u, err := url.Parse(server.URL())
			if err != nil {
				t.Fatal(err)
			}
			if got := sameListen(t.Context(), data, "127.0.0.1:0"); got != u.Host {
				t.Errorf("sameListen() = %s, want %s", got, u.Host)
			}
		})
	}
}

// TestPortIsDamaged checks that a file of the port with something else in it costs the port, and not the start.
func TestPortIsDamaged(t *testing.T) {
	for _, text := range []string{"", "\n", "0", "-1", "http", "70000", "\x00\x00"} {
		data := t.TempDir()
		if err := os.WriteFile(portFile(data), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := sameListen(t.Context(), data, "127.0.0.1:0"); got != "127.0.0.1:0" {
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
			if err := put(addressFile(data)); err != nil {
				t.Fatal(err)
			}
			if err := leaveAddress(data, address{URL: "nats://here"}); err != nil {
				t.Fatal(err)
			}
			if b, err := readLeft(addressFile(data)); err != nil || !strings.Contains(string(b), "nats://here") {
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
		c, err := claimData(t.Context(), data)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer c.close()
		defer running.Wait()
		defer cancel()
		want := address{URL: "nats://here"}
		if err := leaveAddress(data, want); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var log bytes.Buffer
		text := func() string {
			mu.Lock()
			defer mu.Unlock()
			return log.String()
		}
		running.Go(func() { c.keepAddress(ctx, want, slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))) })
		there := func() bool {
			time.Sleep(2 * lookEvery)
			synctest.Wait()
			b, err := readLeft(addressFile(data))
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
			if err := damage(addressFile(data)); err != nil {
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
