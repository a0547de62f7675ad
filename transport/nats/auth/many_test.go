package auth

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestManyRevoked revokes credentials where thousands were revoked before: a server still reads the account, and so do all that change it. At the bound one
// revocation more is refused, and the account stays as it was.
func TestManyRevoked(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(tenantDir(dir, ""), accountFile)
	revoked := func(n int) {
		t.Helper()
		account, err := readAccount(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			account.RevokeAt(fmt.Sprintf("U%055d", i), time.Now())
		}
		signing, err := readKey(filepath.Join(dir, signingKey))
		if err != nil {
			t.Fatal(err)
		}
		b, err := encode(account, signing)
		if err != nil {
			t.Fatal(err)
		}
		if err := replace(path, b); err != nil {
			t.Fatal(err)
		}
	}
	revoke := func(name string) (string, error) {
		t.Helper()
		file, err := AddAgent(dir, "", name)
		if err != nil {
			t.Fatal(err)
		}
		token, err := BearerToken(file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Revoke(dir, file)
		return token, err
	}
	revoked(5000)
	token, err := revoke("weather")
	if err != nil {
		t.Fatal(err)
	}
	bearer, err := NewBearer(Admin(dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bearer.Identify(token); err == nil {
		t.Error("a token of revoked credentials is taken")
	}
	if trust, err := Load(dir); err != nil || len(trust.Accounts) != 2 {
		t.Errorf("a server: %v", err)
	}
	if err := Check(dir); err != nil {
		t.Error(err)
	}

	const each = len(`"":,`) + 56 + 10 // of a revocation, in the JSON of the account
	size := func() int {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return int(info.Size())
	}
	revoked(10_000)
	revoked(10_000 + (maxAccount-size())*3/4/each)
	for n := 0; err == nil; n++ {
		if _, err = revoke(fmt.Sprintf("more-%d", n)); n > 3 {
			t.Fatalf("with %d bytes more is revoked", size())
		}
	}
	if !strings.Contains(err.Error(), path) || size() > maxAccount {
		t.Errorf("with %d bytes: %v", size(), err)
	}
	if err := Check(dir); err != nil {
		t.Error(err)
	}
}

// TestAddBesideDamage makes credentials where a file of the folder is damaged: that is said, and nobody gets what nobody is let in with.
func TestAddBesideDamage(t *testing.T) {
	for what, spoil := range map[string]func(dir string) error{
		"empty credentials": func(dir string) error { return os.WriteFile(UserFile(dir, "", "ada"), nil, 0o600) },
		"cut credentials":   func(dir string) error { return os.Truncate(UserFile(dir, "", "ada"), 300) },
		"a folder":          func(dir string) error { return os.Mkdir(UserFile(dir, "", "bob"), 0o700) },
		"no key":            func(dir string) error { return os.Remove(filepath.Join(tenantDir(dir, ""), accountKey)) },
		"the key of another": func(dir string) error {
			return os.Rename(filepath.Join(tenantDir(dir, "acme"), accountKey), filepath.Join(tenantDir(dir, ""), accountKey))
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			if err := Init(dir, "", "acme"); err != nil {
				t.Fatal(err)
			}
			if _, err := AddUser(dir, "", "ada"); err != nil {
				t.Fatal(err)
			}
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			if what == "no key" { // which may be elsewhere
				if err := Init(dir); err != nil {
					t.Error(err)
				}
			}
			_, ada := AddUser(dir, "", "ada")
			_, bob := AddUser(dir, "", "bob")
			if ada == nil && bob == nil {
				t.Error("it is not said")
			}
			for _, err := range []error{ada, bob} {
				if err != nil && !strings.Contains(err.Error(), dir) {
					t.Errorf("%v: it does not name the file", err)
				}
			}
		})
	}
}
