package nats

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

func TestServerListens(t *testing.T) {
	srv, err := StartServer(t.Context(), &ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	if !strings.HasPrefix(srv.URL(), "nats://127.0.0.1:") {
		t.Errorf("URL = %q, want nats://127.0.0.1:…", srv.URL())
	}
	b, err := Dial(t.Context(), &Options{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	if err := b.Healthy(t.Context()); err != nil {
		t.Errorf("Healthy = %v, want nil", err)
	}
	srv.Shutdown()
	srv.Shutdown()
	if _, err := Dial(t.Context(), &Options{URL: srv.URL()}); !errors.Is(err, transport.ErrUnavailable) || !strings.Contains(err.Error(), "cortex serve") {
		t.Errorf("Dial = %v after the server's end, want ErrUnavailable with advice", err)
	}
}

func TestServerInProcessOnly(t *testing.T) {
	srv, err := StartServer(t.Context(), &ServerOptions{Dir: t.TempDir(), Sync: "always"})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	if srv.URL() != "" {
		t.Errorf("URL = %q, want none", srv.URL())
	}
}

// TestServerRefuses checks that a server that cannot start returns an error of one line, and does not end the process.
func TestServerRefuses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	taken := l.Addr().String()

	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	occupied := filepath.Join(dir, "occupied")
	if err := os.MkdirAll(occupied, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(occupied, "jetstream"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		opts  *ServerOptions
		want  string
		cause error
	}{
		{"no options", nil, "no folder", nil},
		{"no folder", &ServerOptions{}, "no folder", nil},
		{"folder below a file", &ServerOptions{Dir: filepath.Join(file, "x")}, "choose another with --data", syscall.ENOTDIR},
		{"store is a file", &ServerOptions{Dir: occupied}, "it is not a folder", nil},
		{"port in use", &ServerOptions{Dir: dir, Listen: taken}, "listen on " + taken + ": address already in use; choose another with --listen", syscall.EADDRINUSE},
		{"no port", &ServerOptions{Dir: dir, Listen: "localhost"}, "want host:port", nil},
		{"bad port", &ServerOptions{Dir: dir, Listen: "127.0.0.1:99999"}, "want host:port", nil},
		{"not our address", &ServerOptions{Dir: dir, Listen: "192.0.2.1:0"}, "listen on 192.0.2.1:0", nil},
		{"bad sync", &ServerOptions{Dir: dir, Sync: "often"}, `sync "often"`, nil},
		{"negative sync", &ServerOptions{Dir: dir, Sync: "-1s"}, `sync "-1s"`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv, err := StartServer(t.Context(), c.opts)
			if err == nil {
				srv.Shutdown()
				t.Fatal("StartServer = nil, want an error")
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("StartServer = %q, want one line with %q", err, c.want)
			}
			if c.cause != nil && !errors.Is(err, c.cause) {
				t.Errorf("StartServer = %v, want %v in it", err, c.cause)
			}
		})
	}
}

func TestServerStartEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	srv, err := StartServer(ctx, &ServerOptions{Dir: t.TempDir()})
	if err == nil { // the start was faster
		srv.Shutdown()
	} else if !errors.Is(err, context.Canceled) {
		t.Errorf("StartServer = %v with an ended context, want context.Canceled", err)
	}
}
