package auth

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
)

// TestUnreadable has a folder of tenants, or that of one tenant, which cannot be read: that is an error everywhere, and not a folder with fewer tenants.
// What is written of it stays as it was.
func TestUnreadable(t *testing.T) {
	loop := func(path string) error { return errors.Join(os.Rename(path, path+".away"), os.Symlink(path, path)) }
	for what, spoil := range map[string]func(dir string) error{
		"tenants":         func(dir string) error { return loop(filepath.Join(dir, tenantsDir)) },
		"tenants missing": func(dir string) error { return os.Rename(filepath.Join(dir, tenantsDir), filepath.Join(dir, "away")) },
		"a tenant":        func(dir string) error { return loop(tenantDir(dir, "acme")) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			if err := Init(dir, "", "acme"); err != nil {
				t.Fatal(err)
			}
			ada, err := AddUser(dir, "", "ada")
			if err != nil {
				t.Fatal(err)
			}
			copied := filepath.Join(t.TempDir(), "ada.creds")
			if b, err := os.ReadFile(ada); err != nil || os.WriteFile(copied, b, 0o600) != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(Resolver(dir))
			if err != nil {
				t.Fatal(err)
			}
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			for name, f := range map[string]func() error{
				"Load":    func() error { _, err := Load(dir); return err },
				"Tenants": func() error { _, err := Tenants(dir); return err },
				"Admins":  func() error { _, err := Admins(dir); return err },
				"List":    func() error { _, err := List(dir); return err },
				"Check":   func() error { return Check(dir) },
				"PutBack": func() error { return Revocations{"A": jwt.RevocationList{"U": 1}}.PutBack(dir) },
				"Revoke":  func() error { _, err := Revoke(dir, copied); return err },
			} {
				if err := f(); err == nil || !strings.Contains(err.Error(), dir) {
					t.Errorf("%s: %v, want an error that names what cannot be read", name, err)
				}
			}
			if after, err := os.ReadFile(Resolver(dir)); err != nil || string(after) != string(before) {
				t.Errorf("%s has changed, %v:\n%s", resolverFile, err, after)
			}
		})
	}
}

// TestTenantIsWhole interrupts what makes a tenant: there is none then, the folder is good, and what a killed process has left is neither listed nor kept.
func TestTenantIsWhole(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir); err != nil {
		t.Fatal(err)
	}
	good := func(want int) {
		t.Helper()
		tenants, err := Tenants(dir)
		if all, lerr := List(dir); errors.Join(err, lerr, Check(dir)) != nil || len(tenants) != want || len(all) != 2*want {
			t.Errorf("there are tenants %v with credentials %v, want %d with two each: %v", tenants, all, want, errors.Join(err, lerr, Check(dir)))
		}
	}
	signing, away := filepath.Join(dir, signingKey), filepath.Join(dir, "away")
	if err := os.Rename(signing, away); err != nil {
		t.Fatal(err)
	}
	if err := AddTenant(dir, "acme"); err == nil {
		t.Error("a tenant was made without a key that signs")
	}
	if _, err := os.Stat(tenantDir(dir, "acme")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a tenant is there: %v", err)
	}
	good(1)
	killed, at := filepath.Join(dir, tenantsDir, tempPrefix+"1"), time.Now().Add(-2*tempAfter)
	if err := errors.Join(os.Rename(away, signing), os.CopyFS(killed, os.DirFS(tenantDir(dir, ""))), os.Chtimes(killed, at, at)); err != nil {
		t.Fatal(err)
	}
	good(1)
	if err := AddTenant(dir, "acme"); err != nil {
		t.Fatal(err)
	}
	good(2)
	if _, err := os.Stat(killed); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the killed one has left is still there: %v", err)
	}
	if err := os.Remove(filepath.Join(tenantDir(dir, "acme"), accountFile)); err != nil {
		t.Fatal(err)
	}
	if err := AddTenant(dir, "acme"); err != nil {
		t.Fatal(err)
	}
	good(2)
}

// TestLeftovers has files of processes that were killed while they wrote: the next one that writes removes them, and leaves those that somebody may be
// writing. Nobody is listed for them.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir); err != nil {
		t.Fatal(err)
	}
	ada, err := AddAgent(dir, "", "ada")
	if err != nil {
		t.Fatal(err)
	}
	folders := []string{dir, tenantDir(dir, ""), filepath.Dir(ada)}
	leave := func(name string, age time.Duration) {
		t.Helper()
		for _, folder := range folders {
			path, at := filepath.Join(folder, name), time.Now().Add(-age)
			if err := errors.Join(os.WriteFile(path, []byte("SUA"), 0o600), os.Chtimes(path, at, at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	left := func() (names []string) {
		t.Helper()
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if strings.HasPrefix(filepath.Base(path), tempPrefix) {
				names = append(names, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	for what, write := range map[string]func() error{
		"made again": func() error { _, err := AddAgent(dir, "", "ada"); return errors.Join(Init(dir), err) },
		"revoked":    func() error { _, err := Revoke(dir, ada); return err },
	} {
		leave(tempPrefix+"1"+credsSuffix, 2*tempAfter)
		if err := write(); err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(left(), func(path string) bool { return what == "revoked" && filepath.Dir(path) == filepath.Dir(ada) })
		if len(got) > 0 { // to revoke writes nothing beside the credentials
			t.Errorf("%s: %v are left", what, got)
		}
	}
	leave(tempPrefix+"2"+credsSuffix, 0)
	if err := Init(dir); err != nil {
		t.Fatal(err)
	}
	if got := left(); len(got) < len(folders) {
		t.Errorf("of what is being written, only %v is left", got)
	}
	if err := Check(dir); err != nil {
		t.Errorf("Check: %v", err)
	}
}

// TestAddRevoked makes credentials for an agent whose revoked ones are still in the folder: new ones.
func TestAddRevoked(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir); err != nil {
		t.Fatal(err)
	}
	file, err := AddAgent(dir, "", "ada")
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Revoke(dir, file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, before, 0o600); err != nil { // as if it had not been removed any more
		t.Fatal(err)
	}
	if _, err := AddAgent(dir, "", "ada"); err != nil {
		t.Fatal(err)
	}
	bearer, err := NewBearer(Admin(dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	token, err := BearerToken(file)
	if err != nil {
		t.Fatal(err)
	}
	if who, err := bearer.Identify(token); err != nil || who.ID != "ada" {
		t.Errorf("with the credentials that were made again: %v, %v", who, err)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := AddAgent(dir, "", "ada"); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(file); err != nil || string(again) != string(good) {
		t.Errorf("good credentials were made anew, %v", err)
	}
}

// TestFileOfAnother finds the credentials of somebody else where a person's, an agent's or a tenant's are to be made, as on a disk that does not tell large
// letters from small ones: nobody gets them.
func TestFileOfAnother(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir, "", "acme"); err != nil {
		t.Fatal(err)
	}
	ada, err := AddUser(dir, "", "ada")
	if err != nil {
		t.Fatal(err)
	}
	put := func(from, to string) {
		t.Helper()
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o700)
		}
		if err == nil {
			err = os.WriteFile(to, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put(ada, UserFile(dir, "", "Ada"))
	put(ada, AgentFile(dir, "", "weather"))
	put(Admin(dir, "acme"), Admin(dir, "Acme"))
	for name, add := range map[string]func() error{
		"a person": func() error { _, err := AddUser(dir, "", "Ada"); return err },
		"an agent": func() error { _, err := AddAgent(dir, "", "weather"); return err },
		"a tenant": func() error { return AddTenant(dir, "Acme") },
	} {
		if err := add(); err == nil || !strings.Contains(err.Error(), "somebody else") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := AddUser(dir, "", "ada"); err != nil {
		t.Errorf("her own: %v", err)
	}
}
