package auth_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// TestRevoke revokes the credentials of one person: their token is worth nothing from then on, in any copy, that of another person stays, and new
// credentials of the same name are good.
func TestRevoke(t *testing.T) {
	dir := t.TempDir()
	if err := auth.Init(dir); err != nil {
		t.Fatal(err)
	}
	token := func(file string) string {
		t.Helper()
		text, err := auth.BearerToken(file)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	ada, err := auth.AddUser(dir, "", "ada")
	if err != nil {
		t.Fatal(err)
	}
	bob, err := auth.AddAgent(dir, "", "bob")
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy.creds")
	if b, err := os.ReadFile(ada); err != nil || os.WriteFile(copied, b, 0o600) != nil {
		t.Fatal(err)
	}
	bearer, err := auth.NewBearer(auth.Admin(dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	is := func(what, token string, want error) {
		t.Helper()
		if _, err := bearer.Identify(token); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	hers, his := token(ada), token(bob)
	is("before", hers, nil)
	before := time.Now()
	if key := bearer.Key(hers); key == "" || key == bearer.Key(his) || bearer.Key("x") != "" || !bearer.Holds(key, before) {
		t.Errorf("Key = %q, and of another one %q", key, bearer.Key(his))
	}
	who, err := auth.Revoke(dir, copied)
	if err != nil || who.ID != "user:ada" {
		t.Fatalf("Revoke = %v, %v", who, err)
	}
	is("revoked", hers, auth.ErrRevoked)
	if bearer.Holds(bearer.Key(hers), before) || !bearer.Holds(bearer.Key(his), before) {
		t.Error("Holds: hers hold, or his do not")
	}
	is("another one", his, nil)
	if _, err := os.Stat(ada); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the credentials are still in the folder: %v", err)
	}
	if ada, err = auth.AddUser(dir, "", "ada"); err != nil {
		t.Fatal(err)
	}
	is("new ones", token(ada), nil)
	if _, err := auth.Revoke(dir, copied); err != nil {
		t.Errorf("again: %v", err)
	}
	is("new ones, after the old ones were revoked again", token(ada), nil)
	if _, err := auth.Revoke(dir, bob); err != nil {
		t.Error(err)
	}
	is("both", his, auth.ErrRevoked)
	is("both", hers, auth.ErrRevoked)

	other := t.TempDir()
	if err := auth.Init(other); err != nil {
		t.Fatal(err)
	}
	for what, file := range map[string]string{"of another folder": ada, "of an orchestrator": auth.Admin(other, ""), "not there": filepath.Join(dir, "none")} {
		if _, err := auth.Revoke(other, file); err == nil {
			t.Errorf("credentials %s were revoked", what)
		}
	}
}

// TestRevokeAtOnce revokes the credentials of several people at the same time, while tenants are made: all are worthless from then on, and other
// servers are told of each tenant.
func TestRevokeAtOnce(t *testing.T) {
	dir := t.TempDir()
	if err := auth.Init(dir); err != nil {
		t.Fatal(err)
	}
	const people = 8
	var tokens, files []string
	for i := range people {
		file, err := auth.AddUser(dir, "", fmt.Sprint("u", i))
		if err != nil {
			t.Fatal(err)
		}
		token, err := auth.BearerToken(file)
		if err != nil {
			t.Fatal(err)
		}
		tokens, files = append(tokens, token), append(files, file)
	}
	var all sync.WaitGroup
	for i, file := range files {
		all.Go(func() {
			if _, err := auth.Revoke(dir, file); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			if err := auth.AddTenant(dir, fmt.Sprint("t", i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	bearer, err := auth.NewBearer(auth.Admin(dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	for i, token := range tokens {
		if _, err := bearer.Identify(token); !errors.Is(err, auth.ErrRevoked) {
			t.Errorf("the token of person %d: %v, want that it was revoked", i, err)
		}
	}
	conf, err := os.ReadFile(auth.Resolver(dir))
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := auth.Tenants(dir)
	if err != nil {
		t.Fatal(err)
	}
	for id, tenant := range accounts {
		if !strings.Contains(string(conf), id) {
			t.Errorf("other servers are not told of tenant %q", tenant)
		}
	}
}

// TestRevokedWithoutAccount removes the file of an account, and puts that of another tenant in its place: what was revoked stays revoked.
func TestRevokedWithoutAccount(t *testing.T) {
	dir := t.TempDir()
	if err := auth.Init(dir, "", "acme"); err != nil {
		t.Fatal(err)
	}
	file, err := auth.AddUser(dir, "", "ada")
	if err != nil {
		t.Fatal(err)
	}
	token, err := auth.BearerToken(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := auth.Revoke(dir, file); err != nil {
		t.Fatal(err)
	}
	bearer, err := auth.NewBearer(auth.Admin(dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "tenants", "_", "account.jwt")
	other, err := os.ReadFile(filepath.Join(dir, "tenants", "acme", "account.jwt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		damage func() error
	}{
		{"removed", func() error { return os.Remove(path) }},
		{"that of another tenant", func() error { return os.WriteFile(path, other, 0o600) }},
	} {
		if err := c.damage(); err != nil {
			t.Fatal(err)
		}
		if _, err := bearer.Identify(token); !errors.Is(err, auth.ErrRevoked) {
			t.Errorf("the account's file is %s: %v, want that the token was revoked", c.name, err)
		}
	}
}
