package cli

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// TestMarkStore tells another store from the one that was there before.
func TestMarkStore(t *testing.T) {
	var log bytes.Buffer
	data := t.TempDir()
	mark := func() {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(storeDir(data), "jetstream"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := missingStore(data); err != nil {
			t.Fatal(err)
		}
		markStore(data, slog.New(slog.NewTextHandler(&log, nil)))
	}
	mark()
	mark()
	if log.Len() > 0 {
		t.Errorf("the log has %s, want nothing", &log)
	}
	if err := os.RemoveAll(storeDir(data)); err != nil {
		t.Fatal(err)
	}
	if err := missingStore(data); err == nil || !strings.Contains(err.Error(), "is not there") {
		t.Errorf("missingStore = %v, want that it is not there", err)
	}
	mark()
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "is another one than the last time") {
		t.Errorf("the log has %s, want that it is another one", got)
	}
}

// TestPortTaken has the port of the last time taken just before it is used.
func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	srv, err := startServer(t.Context(), &nats.ServerOptions{Dir: t.TempDir(), Listen: l.Addr().String()}, "127.0.0.1:0")
	if err != nil {
		t.Fatalf("startServer = %v, want another port", err)
	}
	if strings.HasSuffix(srv.URL(), l.Addr().String()) {
		t.Errorf("URL = %s, which is taken", srv.URL())
	}
	srv.Shutdown()
	if _, err := startServer(t.Context(), &nats.ServerOptions{Dir: t.TempDir(), Listen: l.Addr().String()}, l.Addr().String()); err == nil {
		t.Error("startServer takes another port than the one that was asked for")
	}
	if err := missingStore(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Errorf("missingStore of a new folder = %v", err)
	}
}
