package cli_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
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

// TestRevokedAndRemoved removes the file of the account before anybody has asked over HTTP: what was revoked then is known from the start on.
func TestRevokedAndRemoved(t *testing.T) {
	keys := t.TempDir()
	if err := auth.Init(keys); err != nil {
		t.Fatal(err)
	}
	file, err := auth.AddUser(keys, "", "ada")
	if err != nil {
		t.Fatal(err)
	}
	token, err := auth.BearerToken(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := auth.Revoke(keys, file); err != nil {
		t.Fatal(err)
	}
	stderr, stop := serveWith(t, nil, "--auth", keys, "--agents", "none")
	defer stop()
	ready := regexp.MustCompile(`(http://\S+)/readyz`)
	eventually(t, "it is ready", func() bool {
		return strings.Contains(stderr.String(), "cortex is ready") && ready.MatchString(stderr.String())
	})
	if err := os.Remove(filepath.Join(filepath.Dir(auth.Admin(keys, "")), "account.jwt")); err != nil {
		t.Fatal(err)
	}
	ask, err := http.NewRequestWithContext(t.Context(), http.MethodPost, ready.FindStringSubmatch(stderr.String())[1]+"/mcp", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	ask.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was read only
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("a revoked token gets %s, want that it is not let in", answer.Status)
	}
}
