package auth_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/jwt/v2"

	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// What is known and what an account says are united, with the later time of each, and kept in a file.
func TestRevocations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "revoked.json")
	known, err := auth.ReadRevocations(path)
	if err != nil {
		t.Fatal(err)
	}
	account := jwt.NewAccountClaims("A")
	meet := func(lacks int, changes bool, revoked jwt.RevocationList) {
		t.Helper()
		account.Revocations = revoked
		if lacked, changed := known.Meet(account); lacked != lacks || changed != changes {
			t.Errorf("with %v: Meet() = %d, %v, want %d, %v", revoked, lacked, changed, lacks, changes)
		}
	}
	meet(0, false, nil)
	meet(0, true, jwt.RevocationList{"ada": 1, "bob": 2})
	meet(1, true, jwt.RevocationList{"ada": 3, "carl": 4})
	want := jwt.RevocationList{"ada": 3, "bob": 2, "carl": 4}
	if d := cmp.Diff(want, account.Revocations); d != "" {
		t.Errorf("the account has (-want +got):\n%s", d)
	}
	if _, err := known.Write(path); err != nil {
		t.Fatal(err)
	}
	if known, err = auth.ReadRevocations(path); err != nil {
		t.Fatal(err)
	}
	meet(3, false, nil)
	if d := cmp.Diff(want, account.Revocations); d != "" {
		t.Errorf("the account has (-want +got):\n%s", d)
	}
}

// A file that was damaged is an error, and what is returned can be used.
func TestDamagedRevocations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "revoked.json")
	for _, text := range []string{"", "null", "[]", `{"A":1}`, `{"A":{"ada":"x"}}`, `{"A":{"ada":1}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		known, err := auth.ReadRevocations(path)
		if err == nil {
			t.Errorf("%q is read as %v", text, known)
		}
		account := jwt.NewAccountClaims("A")
		account.Revocations = jwt.RevocationList{"ada": 1}
		if lacked, changed := known.Meet(account); lacked != 0 || !changed {
			t.Errorf("after %q: Meet() = %d, %v", text, lacked, changed)
		}
	}
	if err := os.WriteFile(path, []byte(`{"A":null}`), 0o600); err != nil {
		t.Fatal(err)
	}
	known, err := auth.ReadRevocations(path)
	if err != nil {
		t.Fatal(err)
	}
	account := jwt.NewAccountClaims("A")
	account.Revocations = jwt.RevocationList{"ada": 1}
	if lacked, changed := known.Meet(account); lacked != 0 || !changed {
		t.Errorf("Meet() = %d, %v", lacked, changed)
	}
}
