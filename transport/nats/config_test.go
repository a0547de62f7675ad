package nats

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStartConfig starts a server from the reference configuration, and checks the errors of wrong ones.
func TestStartConfig(t *testing.T) {
	for _, name := range []string{"NATS_CLUSTER_LISTEN", "NATS_MONITOR"} {
		t.Setenv(name, "127.0.0.1:-1")
	}
	t.Setenv("NATS_NAME", "alone")
	t.Setenv("NATS_STORE", t.TempDir())
	t.Setenv("NATS_ROUTES", "[nats://127.0.0.1:1]")
	t.Setenv("NATS_LISTEN", "127.0.0.1:-1")
	srv, err := StartConfig(t.Context(), referenceConfig, nil)
	if err != nil {
		t.Fatal(err)
	}
	srv.Shutdown()
	if !strings.HasPrefix(srv.URL(), "nats://127.0.0.1:") {
		t.Errorf("URL = %q, want where it listens", srv.URL())
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	t.Setenv("NATS_LISTEN", l.Addr().String())
	if _, err := StartConfig(t.Context(), referenceConfig, nil); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("StartConfig on a port in use = %v, want an error that says so", err)
	}

	bad := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(bad, []byte("listen: $NOT_THERE\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := StartConfig(t.Context(), bad, nil); err == nil || !strings.Contains(err.Error(), "NOT_THERE") {
		t.Errorf("StartConfig = %v, want an error that names the variable", err)
	}
}
