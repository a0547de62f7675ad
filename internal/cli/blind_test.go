package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// TestRevokedUnnoticed runs a service with a copy of its credentials alone: it warns that it does not know what is revoked, and not once the account's file
// lies beside the copy.
func TestRevokedUnnoticed(t *testing.T) {
	k := newKeyed(t)
	dir := t.TempDir()
	copied := func(name string) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(filepath.Dir(auth.Admin(k.keys, "")), name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const warning = "not noticed whose credentials were revoked"
	for _, c := range []struct {
		file  string
		warns int
	}{{filepath.Base(auth.Admin(k.keys, "")), 1}, {"account.jwt", 0}} {
		copied(c.file)
		stderr, stop := serveWith(t, nil, "--nats", k.url, "--creds", filepath.Join(dir, "orchestrator.creds"), "--agents", "none", "--a2a", "127.0.0.1:0")
		eventually(t, "it is ready", func() bool { return strings.Contains(stderr.String(), "cortex is ready") })
		stop()
		if n := strings.Count(stderr.String(), warning); n != c.warns {
			t.Errorf("with %s it warns %d times, want %d: %s", c.file, n, c.warns, stderr.String())
		}
	}
}
