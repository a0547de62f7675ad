package auth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

func TestBearer(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir, "", "acme"); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if err := Init(other); err != nil {
		t.Fatal(err)
	}
	file := func(path string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	ada := file(AddUser(dir, "", "ada"))
	token := func(path string) string {
		t.Helper()
		s, err := BearerToken(path)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := BearerToken(path); again != s || err != nil {
			t.Errorf("another token for the same credentials, %v", err)
		}
		return s
	}
	b, err := NewBearer(Admin(dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	weather := file(AddAgent(dir, "", "weather"))
	for path, want := range map[string]string{ada: "user:ada", People(dir, ""): "user", weather: "weather"} {
		if i, err := b.Identify(token(path)); err != nil || i.ID != want {
			t.Errorf("Identify = %v, %v, want %s", i, err, want)
		}
	}
	good := token(ada)
	cut := strings.LastIndexByte(good, '.')
	wrong := map[string]string{
		"nothing": "", "no token": "x", "no signature": good[:cut], "an empty signature": good[:cut+1], "no jwt": good[cut:],
		"another's signature": good[:cut] + token(People(dir, ""))[strings.LastIndexByte(token(People(dir, "")), '.'):],
		"another's agent":     token(file(AddAgent(other, "", "weather"))),
		"the orchestrator":    token(Admin(dir, "")),
		"another tenant":      token(People(dir, "acme")),
		"another folder":      token(file(AddUser(other, "", "ada"))),
		"too long":            strings.Repeat("x", maxBearer) + good,
	}
	for name, s := range wrong {
		if i, err := b.Identify(s); !errors.Is(err, ErrBearer) {
			t.Errorf("%s: Identify = %v, %v, want ErrBearer", name, i, err)
		}
	}
	for i := range good { // each character counts
		if at := []byte(good); at[i] != 'A' {
			at[i] = 'A'
			if who, err := b.Identify(string(at)); err == nil && i < len(good)-1 { // the last one has bits to spare
				t.Errorf("with another character at %d: %v", i, who)
			}
		}
	}
	account, err := readKey(filepath.Join(tenantDir(dir, ""), accountKey))
	if err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(t.TempDir(), "old.creds")
	creds, err := issue(&Identity{Role: Person, ID: "user:old"}, account, time.Now().Add(time.Hour))
	if err == nil {
		err = os.WriteFile(old, creds, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Identify(token(old)); err != nil {
		t.Errorf("before it expires: %v", err)
	}
}

// TestBearerIsNoText checks that what is signed in a token is no text, in Go or in C, since a NATS client signs any text that a server names, and that a token of such a text,
// which an earlier Cortex has made, is refused by its name.
func TestBearerIsNoText(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir); err != nil {
		t.Fatal(err)
	}
	b, err := NewBearer(Admin(dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	file, err := AddUser(dir, "", "ada")
	if err != nil {
		t.Fatal(err)
	}
	creds, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.ParseDecoratedJWT(creds)
	if err != nil {
		t.Fatal(err)
	}
	key, err := jwt.ParseDecoratedUserNKey(creds)
	if err != nil {
		t.Fatal(err)
	}
	// A server names its nonce in JSON, where a byte that is no text arrives as another one. A client in C may take it as it is, and reads up to a zero.
	for _, nonce := range []string{bearerPurpose + token, earlierPurpose + token} {
		info, err := json.Marshal(map[string]string{"nonce": nonce})
		if err != nil {
			t.Fatal(err)
		}
		raw := []byte(`{"nonce":"` + strings.NewReplacer("\n", `\n`, "\x00", `\u0000`).Replace(nonce) + `"}`)
		inC, _, _ := strings.Cut(nonce, "\x00")
		all := []string{inC}
		for _, said := range [][]byte{info, raw} {
			var heard struct {
				Nonce string `json:"nonce"`
			}
			if err := json.Unmarshal(said, &heard); err != nil {
				t.Fatal(err)
			}
			all = append(all, heard.Nonce)
		}
		for _, heard := range all {
			sig, err := key.Sign([]byte(heard))
			if err != nil {
				t.Fatal(err)
			}
			forged := token + "." + base64.RawURLEncoding.EncodeToString(sig)
			want := ErrBearer
			if nonce == earlierPurpose+token {
				want = ErrEarlier
			}
			if i, err := b.Identify(forged); i != nil || !errors.Is(err, ErrBearer) || err.Error() != want.Error() {
				t.Errorf("a signed nonce %.30q: Identify = %v, %v, want %v", heard, i, err, want)
			}
		}
	}
	if !strings.Contains(ErrEarlier.Error(), "cortex auth token NAME") {
		t.Errorf("%v", ErrEarlier)
	}
}

// TestHoldsUntilItExpires checks that a key that was stored before its credentials expired does not hold afterwards.
func TestHoldsUntilItExpires(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir); err != nil {
		t.Fatal(err)
	}
	b, err := NewBearer(Admin(dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for name, test := range map[string]struct {
		until time.Time
		want  bool
	}{"never": {time.Time{}, true}, "later": {now.Add(time.Hour), true}, "earlier": {now.Add(-time.Minute), false}} {
		creds, err := issue(&Identity{Role: Agent, ID: "weather"}, account, test.until)
		if err != nil {
			t.Fatal(err)
		}
		token, err := jwt.ParseDecoratedJWT(creds)
		if err != nil {
			t.Fatal(err)
		}
		key := b.Key(token + ".")
		if got := b.Holds(key, now.Add(-time.Hour)); got != test.want || key == "" {
			t.Errorf("%s: %q holds: %t, want %t", name, key, got, test.want)
		}
	}
}

// TestRevokedWhenTheClockWasAhead revokes credentials that were made, and used, while the clock was ahead.
func TestRevokedWhenTheClockWasAhead(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir); err != nil {
		t.Fatal(err)
	}
	b, err := NewBearer(Admin(dir, ""))
	if err != nil {
		t.Fatal(err)
	}
	account, err := readKey(filepath.Join(tenantDir(dir, ""), accountKey))
	if err != nil {
		t.Fatal(err)
	}
	creds, err := issue(&Identity{Role: Person, ID: "user:ada"}, account, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(24 * time.Hour)
	token, err := jwt.ParseDecoratedJWT(creds)
	if err != nil {
		t.Fatal(err)
	}
	part := strings.Split(token, ".")
	body, err := base64.RawURLEncoding.DecodeString(part[1])
	if err != nil {
		t.Fatal(err)
	}
	body = regexp.MustCompile(`"iat":\d+`).ReplaceAll(body, fmt.Appendf(nil, `"iat":%d`, later.Unix()))
	ahead := part[0] + "." + base64.RawURLEncoding.EncodeToString(body)
	sig, err := account.Sign([]byte(ahead))
	if err != nil {
		t.Fatal(err)
	}
	ahead += "." + base64.RawURLEncoding.EncodeToString(sig)
	file := filepath.Join(t.TempDir(), "ada.creds")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(creds), token, ahead)), 0o600); err != nil {
		t.Fatal(err)
	}
	bearer, err := BearerToken(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Identify(bearer); err != nil || !b.Holds(b.Key(bearer), later) {
		t.Fatalf("before: %v", err)
	}
	if _, err := Revoke(dir, file); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Identify(bearer); !errors.Is(err, ErrRevoked) {
		t.Errorf("the token: %v, want ErrRevoked", err)
	}
	if b.Holds(b.Key(bearer), later.Add(time.Hour)) {
		t.Error("what was asked for with it holds")
	}
	is, err := readAccount(filepath.Join(tenantDir(dir, ""), accountFile))
	if err != nil {
		t.Fatal(err)
	}
	claims, err := userClaims(file)
	if err != nil || !is.IsClaimRevoked(claims) { // as a server looks
		t.Errorf("a server lets them in: %v", err)
	}
}
