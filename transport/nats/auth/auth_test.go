package auth

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/cortex-orchestrator/cortex/transport"
)

// contents returns the content of every file of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestInitKeepsKeys calls Init again, also where some files are missing: existing files stay, and an interrupted Init is completed.
func TestInitKeepsKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*", "keys")
	if err := Init(dir, "", "acme"); err != nil {
		t.Fatal(err)
	}
	if _, err := AddAgent(dir, "acme", "weather"); err != nil {
		t.Fatal(err)
	}
	want := contents(t, dir)
	for _, again := range []func() error{
		func() error { return Init(dir) },
		func() error { return Init(dir, "acme") },
		func() error { return AddTenant(dir, "acme") },
		func() error { _, err := AddAgent(dir, "acme", "weather"); return err },
	} {
		if err := again(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, contents(t, dir)); diff != "" {
			t.Fatalf("another time (-want +got):\n%s", diff)
		}
	}
	t.Run("without the root", func(t *testing.T) {
		if err := os.Remove(filepath.Join(dir, operatorKey)); err != nil {
			t.Fatal(err)
		}
		if err := Init(dir, "new"); err != nil {
			t.Fatal(err)
		}
		got := contents(t, dir)
		if _, there := got[operatorKey]; there || got[operatorFile] != want[operatorFile] {
			t.Error("Init made a new operator")
		}
		if !strings.Contains(got[resolverFile], got["tenants/new/account.jwt"]) {
			t.Error("resolver.conf does not have the new tenant")
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		for name := range want {
			cut := t.TempDir()
			if err := os.CopyFS(cut, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			for key := range want { // the copy has lost the file modes
				if filepath.Ext(key) == ".nk" || filepath.Ext(key) == credsSuffix {
					if err := errors.Join(os.RemoveAll(filepath.Join(cut, key)), os.WriteFile(filepath.Join(cut, key), []byte(want[key]), 0o600)); err != nil {
						t.Fatal(err)
					}
				}
			}
			if filepath.Ext(name) == ".nk" || name == systemFile || name == lockFile || strings.Contains(name, "agents") {
				continue // keys are written before what they sign
			}
			if err := os.Remove(filepath.Join(cut, name)); err != nil {
				t.Fatal(err)
			}
			if err := Init(cut, "", "acme"); err != nil {
				t.Errorf("Init without %s: %v", name, err)
			}
			if _, err := Load(cut); err != nil {
				t.Errorf("Load after %s was made: %v", name, err)
			}
			if got := contents(t, cut)[name]; got == "" {
				t.Errorf("%s was not made", name)
			}
		}
	})
}

// TestInitAtOnce makes the same keys in several processes.
func TestInitAtOnce(t *testing.T) {
	dir := t.TempDir()
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = Init(dir, "acme") })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	trust, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(trust.Operator)
	if err != nil {
		t.Fatal(err)
	}
	operator, err := jwt.DecodeOperatorClaims(string(b))
	if err != nil {
		t.Fatal(err)
	}
	if operator.SystemAccount != trust.System || len(trust.Accounts) != 2 {
		t.Errorf("the operator's system account is %s, and that of the folder %s of %d accounts", operator.SystemAccount, trust.System, len(trust.Accounts))
	}
	for id, token := range trust.Accounts {
		c, err := jwt.DecodeAccountClaims(token)
		if err != nil {
			t.Fatal(err)
		}
		if !operator.DidSign(c) {
			t.Errorf("account %s is not signed by the operator", id)
		}
	}
}

// TestSecretsAreSecret checks the file modes, and that the servers' configuration contains no seeds.
func TestSecretsAreSecret(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir, "acme"); err != nil {
		t.Fatal(err)
	}
	if _, err := AddUser(dir, "acme", "ada"); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(Resolver(dir))
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range contents(t, dir) {
		if filepath.Ext(name) == ".nk" && strings.Contains(string(b), key) {
			t.Errorf("%s is in resolver.conf", name)
		}
	}
}

func TestWhoGetsCredentials(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		add  func(dir, tenant, id string) (string, error)
		id   string
		want string // in the error; empty: none
	}{
		{"agent", AddAgent, "Wetter_für.alle/*", ""},
		{"person", AddUser, "ada", ""},
		{"orchestrator as agent", AddAgent, transport.Cortex, "orchestrator's own"},
		{"people as agent", AddAgent, "user", "for people"},
		{"person as agent", AddAgent, "user:ada", "for people"},
		{"space", AddAgent, "a b", "space"},
		{"nobody", AddAgent, "", "empty"},
		{"no name", AddUser, "", "user"},
		{"long", AddAgent, strings.Repeat("ü", 100), "too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, err := c.add(dir, "", c.id)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("add %q = %v, want one line with %q", c.id, err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			i, err := Read(file)
			if err != nil || strings.TrimPrefix(i.ID, personPrefix) != c.id || i.File != file {
				t.Errorf("Read = %+v, %v, want %q", i, err, c.id)
			}
		})
	}
	if _, err := AddAgent(dir, "other", "a"); !errors.Is(err, ErrNoFolder) || !strings.Contains(err.Error(), "auth add tenant") {
		t.Errorf("AddAgent of an unknown tenant = %v", err)
	}
	empty := t.TempDir()
	if _, err := AddUser(empty, "", "a"); !errors.Is(err, ErrNoFolder) || !strings.Contains(err.Error(), "auth init") {
		t.Errorf("AddUser in an empty folder = %v", err)
	}
	if _, err := Load(empty); !errors.Is(err, ErrNoFolder) {
		t.Errorf("Load of an empty folder = %v", err)
	}
	if err := AddTenant(empty, "a"); !errors.Is(err, ErrNoFolder) {
		t.Errorf("AddTenant in an empty folder = %v", err)
	}
	if _, err := List(empty); !errors.Is(err, ErrNoFolder) {
		t.Errorf("List of an empty folder = %v", err)
	}
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir, "", "acme"); err != nil {
		t.Fatal(err)
	}
	for _, add := range []func() (string, error){
		func() (string, error) { return AddAgent(dir, "", "b") },
		func() (string, error) { return AddAgent(dir, "", "a") },
		func() (string, error) { return AddUser(dir, "acme", "ada") },
	} {
		if _, err := add(); err != nil {
			t.Fatal(err)
		}
	}
	all, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range all {
		got = append(got, i.Tenant+" "+string(i.Role)+" "+i.ID)
		if read, err := Read(i.File); err != nil || cmp.Diff(i, read) != "" {
			t.Errorf("Read(%s) = %+v, %v, want %+v", i.File, read, err, i)
		}
	}
	want := []string{
		" orchestrator cortex", " user user", " agent a", " agent b",
		"acme orchestrator cortex", "acme user user", "acme user user:ada",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir); err != nil {
		t.Fatal(err)
	}
	account, err := readKey(filepath.Join(tenantDir(dir, ""), accountKey))
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string, mode os.FileMode, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	creds := func(i *Identity, expires time.Time) []byte {
		b, err := issue(i, account, expires)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	weather := &Identity{Role: Agent, ID: "weather"}
	good := creds(weather, time.Time{})
	for _, c := range []struct{ name, path, want string }{
		{"missing", filepath.Join(dir, "none"), "file does not exist"},
		{"a folder", dir, "not a file"},
		{"open", file("open", 0o604, good), "chmod 600"},
		{"garbage", file("garbage", 0o600, []byte("hello")), "no NATS credentials"},
		{"without a key", file("nokey", 0o600, good[:len(good)/2]), "no NATS credentials"},
		{"large", file("large", 0o600, make([]byte, maxFile+1)), "no key"},
		{"expired", file("expired", 0o600, creds(weather, time.Now().Add(-time.Minute))), "make new ones"},
	} {
		if _, err := Read(c.path); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Read(%s) = %v, want one line with %q", c.name, err, c.want)
		}
	}
	if _, err := Read(filepath.Join(dir, "expired")); !errors.Is(err, ErrExpired) {
		t.Errorf("Read = %v, want ErrExpired", err)
	}
	if i, err := Read(file("group", 0o640, good)); err != nil || i.ID != "weather" || !i.Limited() {
		t.Errorf("Read = %+v, %v, want weather: a group may read it", i, err)
	}
	end := time.Now().Add(time.Hour)
	if i, err := Read(file("later", 0o600, creds(weather, end))); err != nil || i.Expires.Unix() != end.Unix() {
		t.Errorf("Read = %+v, %v, want that it ends in an hour", i, err)
	}

	// Credentials of another tool.
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, _ := user.PublicKey()
	seed, _ := user.Seed()
	claims := jwt.NewUserClaims(public)
	claims.Name = "cortex.agent.x"
	token, err := claims.Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	b, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		t.Fatal(err)
	}
	if i, err := Read(file("foreign", 0o600, b)); i != nil || err != nil || i.Limited() {
		t.Errorf("Read = %+v, %v, want nobody known", i, err)
	}
}

// TestPermissions lists what the server allows; an addition here must be harmless with any headers and any reply subject.
func TestPermissions(t *testing.T) {
	for _, c := range []struct {
		who      Identity
		pub, sub []string
	}{
		{Identity{Role: Orchestrator, Tenant: "acme", ID: transport.Cortex}, nil, nil},
		{
			Identity{Role: Agent, Tenant: "acme", ID: "a.b"},
			[]string{"cortex.v1.door.acme.agent.a=2Eb.>"},
			[]string{"_INBOX.agent.a=2Eb.>", "cortex.v1.live.acme.agent=3Aa=2Eb.*", "cortex.v1.peer.acme.a=2Eb"},
		},
		{
			Identity{Role: Person, ID: "user:ada"},
			[]string{"cortex.v1.door._.user.user=3Aada.>"},
			[]string{"_INBOX.user.user=3Aada.>", "cortex.v1.live._.>", "cortex.v1.cards._.*"},
		},
	} {
		var p jwt.Permissions
		permit(&p, &c.who)
		if !slices.Equal(p.Pub.Allow, c.pub) || !slices.Equal(p.Sub.Allow, c.sub) || p.Resp != nil {
			t.Errorf("%s may publish %q and subscribe %q, want %q and %q", &c.who, p.Pub.Allow, p.Sub.Allow, c.pub, c.sub)
		}
	}
}

func TestCaller(t *testing.T) {
	for _, i := range []*Identity{{Role: Agent, Tenant: "a.c", ID: "x y"}, {Role: Agent, ID: "=2E"}, {Role: Person, ID: "user:a.b"}, {Role: Person, ID: "user"}} {
		who, meant := Caller(i.Tenant, Gateway(i)+"a.b.c")
		if strings.Contains(i.ID, " ") {
			if who != nil {
				t.Errorf("Caller = %+v, want nobody for an id that cannot be", who)
			}
			continue
		}
		if who == nil || who.Role != i.Role || who.ID != i.ID || who.Tenant != i.Tenant || meant != "a.b.c" {
			t.Errorf("Caller = %+v, %q, want %+v", who, meant, i)
		}
	}
	for _, subject := range []string{
		"", "cortex.v1.door._", "cortex.v1.door._.agent.x", "cortex.v1.door._.agent.x.", "cortex.v1.door.acme.agent.x.a", "cortex.v1.door._.agent.cortex.a",
		"cortex.v1.door._.orchestrator.cortex.a", "cortex.v1.door._.agent.user.a", "cortex.v1.door._.user.x.a", "cortex.v1.door._.agent.=2e.a", "cortex.v1.door._.agent..a",
	} {
		if who, _ := Caller("", subject); who != nil {
			t.Errorf("Caller(%q) = %+v, want nobody", subject, who)
		}
	}
}

func TestSentence(t *testing.T) {
	for _, c := range []struct {
		who  Identity
		want string
	}{
		{Identity{Role: Agent, ID: "a"}, `agent "a"`},
		{Identity{Role: Person, ID: "user", Tenant: "acme"}, `user of tenant "acme"`},
		{Identity{Role: Person, ID: "user:ada"}, `user "ada"`},
		{Identity{Role: Orchestrator, ID: "cortex"}, "orchestrator"},
	} {
		if got := c.who.String(); got != c.want {
			t.Errorf("String = %s, want %s", got, c.want)
		}
	}
}
