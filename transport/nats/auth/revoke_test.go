package auth_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
