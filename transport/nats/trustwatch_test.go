package nats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUntrusted damages the folder of keys of a server that runs, and mends it again.
func TestUntrusted(t *testing.T) {
	trust := keys(t)
	srv, err := StartServer(t.Context(), &ServerOptions{Dir: t.TempDir(), Auth: trust})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	if err := srv.Untrusted(); err != nil {
		t.Errorf("with good keys: %v", err)
	}
	path := filepath.Join(trust, "tenants", "_", "account.jwt")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, good[:len(good)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "half of the account's file is an error that names it", func() bool {
		err := srv.Untrusted()
		return err != nil && strings.Contains(err.Error(), path)
	})
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the good keys are noticed", func() bool { return srv.Untrusted() == nil })
}
