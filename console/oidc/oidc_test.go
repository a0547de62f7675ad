package oidc_test

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/console/oidc"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// site is a console that lets people of an identity provider in.
type site struct {
	*httptest.Server
	t     *testing.T
	idp   *idp
	store *memstore.Store
	bus   *memory.Bus
	now   atomic.Int64 // what its clock is ahead, in nanoseconds
}

func newSite(t *testing.T, cfg oidc.Config) *site {
	t.Helper()
	s := &site{t: t, idp: newIDP(t), store: memstore.New(), bus: memory.New(nil)}
	t.Cleanup(func() { s.bus.Close() })
	cfg.Issuer, cfg.Client, cfg.Secret = s.idp.URL, clientID, clientSecret
	s.Server = s.replica(cfg, "")
	return s
}

// replica serves the console once more, as another process does, at a URL for browsers.
func (s *site) replica(cfg oidc.Config, url string) *httptest.Server {
	s.t.Helper()
	p, err := oidc.New(cfg)
	must(s.t, err)
	agents := registry.New(registry.Config{})
	c := console.New(console.Config{
		Client: &client.Client{Transport: s.bus, Log: client.ReadLog(s.store, "")}, Store: s.store, Agents: agents.Snapshot, Login: p, URL: url,
		Identify: func(string) (console.Person, error) { return console.Person{}, errors.New("no token is valid here") },
		Now:      func() time.Time { return time.Now().Add(time.Duration(s.now.Load())) },
	})
	web := httptest.NewServer(c.Handler())
	s.t.Cleanup(web.Close)
	return web
}

// browser returns a browser that follows redirects until stop says that it is to stay, which may be nil.
func browser(t *testing.T, stop func(*http.Request) bool) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	return &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if stop != nil && stop(r) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
}

// get returns the status, the body, and where the browser is.
func get(t *testing.T, c *http.Client, url string) (code int, text string, at *url.URL) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	answer, err := c.Do(r)
	must(t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, string(b), answer.Request.URL
}

var ada = map[string]any{"email": "Ada@Example.com", "email_verified": true, "groups": []string{"staff"}}

// isOut checks that a browser is not logged in.
func (s *site) isOut(b *http.Client) {
	s.t.Helper()
	if _, _, at := get(s.t, b, s.URL+"/agents"); at.Path != "/login" {
		s.t.Errorf("the browser is in, at %s", at)
	}
}

// TestLogin logs in, goes on at another replica, speaks in its own name, and logs out: a copy of the cookie is worthless then.
func TestLogin(t *testing.T) {
	s := newSite(t, oidc.Config{Scopes: []string{"email"}})
	s.idp.is(ada)
	b := browser(t, nil)
	if code, text, _ := get(t, b, s.URL+"/agents"); code != 200 || !strings.Contains(text, "Log in with") {
		t.Fatalf("the page to log in is %d:\n%s", code, text)
	}
	code, text, at := get(t, b, s.URL+"/login/provider?to="+url.QueryEscape("/agents?text=x"))
	if code != 200 || at.RequestURI() != "/agents?text=x" || !strings.Contains(text, "Log out <bdi>ada@example.com</bdi>") {
		t.Fatalf("after the login there is %d at %s:\n%s", code, at, text)
	}
	inbox, err := s.bus.Subscribe(t.Context(), transport.Inbox("", transport.Cortex), nil)
	must(t, err)
	from := make(chan string, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		_ = inbox.Serve(ctx, func(_ context.Context, e *transport.Event) error {
			from <- e.From
			return nil
		})
	}()
	answer, err := b.PostForm(s.URL+"/c/x/say", url.Values{"text": {"hello"}, "message": {"m1"}})
	must(t, err)
	answer.Body.Close()
	if got := <-from; got != "user:ada@example.com" {
		t.Errorf("the message is from %q", got)
	}
	if code, _, _ := get(t, b, s.URL+"/dead"); code != http.StatusForbidden {
		t.Errorf("dead letters are shown to a person: %d", code)
	}
	cookies := b.Jar.Cookies(must1(url.Parse(s.URL))(t))
	for n := range s.store.Notes(t.Context(), "", storage.NoteLogin) {
		for _, c := range cookies {
			if strings.Contains(string(n.Value)+n.Key, strings.TrimPrefix(c.Value, "o.")) {
				t.Error("the store has the cookie of a session, which people could read there")
			}
		}
	}
	other := s.replica(oidc.Config{Issuer: s.idp.URL, Client: clientID}, "")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, other.URL+"/agents", nil)
	must(t, err)
	_, port, _ := strings.Cut(strings.TrimPrefix(other.URL, "http://"), ":")
	for _, c := range cookies {
		r.AddCookie(&http.Cookie{Name: "cortex_" + port, Value: c.Value})
	}
	answer, err = http.DefaultTransport.RoundTrip(r)
	must(t, err)
	answer.Body.Close()
	if answer.StatusCode != 200 {
		t.Errorf("another replica answers %s", answer.Status)
	}
	answer, err = b.PostForm(s.URL+"/logout", nil)
	must(t, err)
	answer.Body.Close()
	s.isOut(b)
	b.Jar.SetCookies(must1(url.Parse(s.URL))(t), cookies)
	s.isOut(b)
}

func must1[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// TestForgedTokens has the provider, or whoever speaks in its place, send what must not be believed.
func TestForgedTokens(t *testing.T) {
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	set := func(key string, value any) func(header, claims map[string]any) {
		return func(_, claims map[string]any) { claims[key] = value }
	}
	alg := func(name string) func(header, claims map[string]any) {
		return func(header, _ map[string]any) { header["alg"] = name }
	}
	for name, one := range map[string]struct {
		forge func(header, claims map[string]any)
		sign  func(string) []byte
		key   *rsa.PrivateKey
		says  string
	}{
		"wrong nonce":           {forge: set("nonce", "x"), says: "another login"},
		"no nonce":              {forge: set("nonce", ""), says: "another login"},
		"expired":               {forge: set("exp", time.Now().Add(-time.Minute).Unix()), says: "expired"},
		"other audience":        {forge: set("aud", "another-client"), says: "audience"},
		"issued to another":     {forge: set("azp", "another-client"), says: "another client"},
		"several audiences":     {forge: set("aud", []string{clientID, "another-client"}), says: "another client"},
		"other issuer":          {forge: set("iss", "https://evil.example"), says: "issue"},
		"not yet":               {forge: set("nbf", time.Now().Add(time.Hour).Unix()), says: "before the nbf"},
		"none":                  {forge: alg("none"), sign: func(string) []byte { return nil }, says: "not valid"},
		"signed by the secret":  {forge: alg("HS256"), sign: signedBy(clientSecret), says: "not valid"},
		"another key":           {key: stranger, says: "verify"},
		"no signature":          {sign: func(string) []byte { return nil }, says: "verify"},
		"email not verified":    {forge: set("email_verified", false), says: "not verified"},
		"nothing of the email":  {forge: func(_, c map[string]any) { delete(c, "email_verified") }, says: "not verified"},
		"no email":              {forge: func(_, c map[string]any) { delete(c, "email") }, says: "does not say your email"},
		"a peer of AgentHub":    {forge: set("email", "agenthub/ada@example.com"), says: "cannot be a name"},
		"a name that is no id":  {forge: set("email", "ada\n@example.com"), says: "cannot be a name"},
		"an email that is none": {forge: set("email", 7), says: "does not say your email"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, oidc.Config{})
			s.idp.is(ada)
			s.idp.forge, s.idp.sign = one.forge, one.sign
			if one.key != nil {
				s.idp.sign = func(input string) []byte { return must1(signRSA(one.key, input))(t) }
			}
			b := browser(t, nil)
			code, text, _ := get(t, b, s.URL+"/login/provider")
			if code != http.StatusForbidden || !strings.Contains(text, one.says) {
				t.Errorf("the answer is %d, want 403 and %q:\n%s", code, one.says, text)
			}
			s.isOut(b)
		})
	}
}

func signedBy(secret string) func(string) []byte {
	return func(input string) []byte {
		m := hmac.New(sha256.New, []byte(secret))
		m.Write([]byte(input))
		return m.Sum(nil)
	}
}

// TestForeignBrowsers uses the way back of one login elsewhere, again, and too late.
func TestForeignBrowsers(t *testing.T) {
	s := newSite(t, oidc.Config{})
	s.idp.is(ada)
	s.idp.again = true // not even a provider that is careless helps
	back := func(r *http.Request) bool { return r.URL.Path == "/login/callback" }
	begin := func(b *http.Client) string {
		t.Helper()
		r, err := b.Get(s.URL + "/login/provider")
		must(t, err)
		r.Body.Close()
		return r.Header.Get("Location")
	}
	mallory, victim := browser(t, back), browser(t, back)
	link := begin(mallory)
	refused := func(who string, b *http.Client, link string) {
		t.Helper()
		if code, text, _ := get(t, b, link); code != http.StatusForbidden || !strings.Contains(text, "Begin it again") {
			t.Errorf("%s: the answer is %d", who, code)
		}
		s.isOut(b)
	}
	refused("a browser that began nothing", victim, link)
	own := begin(victim)
	refused("a browser that began another login", victim, link)
	stolen := strings.Replace(own, "state="+must1(url.Parse(own))(t).Query().Get("state"), "state=", 1)
	refused("without a state", victim, stolen)
	// The code of Mallory with the state of the victim: it is bound to the verifier that Mallory has.
	mixed := must1(url.Parse(own))(t)
	q := mixed.Query()
	q.Set("code", must1(url.Parse(link))(t).Query().Get("code"))
	mixed.RawQuery = q.Encode()
	if code, text, _ := get(t, victim, mixed.String()); code != http.StatusForbidden || !strings.Contains(text, "does not accept the code") {
		t.Errorf("the code of another login is answered with %d:\n%s", code, text)
	}
	s.isOut(victim)
	refused("a login that has failed", victim, own)
	if code, _, at := get(t, mallory, link); code != 200 || at.Path != "/" {
		t.Errorf("the browser of the login gets %d at %s", code, at)
	}
	answer, err := mallory.PostForm(s.URL+"/logout", nil)
	must(t, err)
	answer.Body.Close()
	refused("a code for the second time", mallory, link)
	late := begin(victim)
	s.now.Store(int64(11 * time.Minute))
	refused("after ten minutes", victim, late)
	again := begin(victim)
	if code, text, _ := get(t, victim, s.URL+"/login/callback?"+url.Values{"error": {"access_denied"}, "error_description": {"<b>no</b>"}, "state": {must1(url.Parse(again))(t).Query().Get("state")}}.Encode()); code != http.StatusForbidden || !strings.Contains(text, "access_denied") || strings.Contains(text, "<b>no") {
		t.Errorf("a refusal is answered with %d:\n%s", code, text)
	}
}

// TestClaims checks who is let in, who is an operator, and by which claim somebody is known.
func TestClaims(t *testing.T) {
	s := newSite(t, oidc.Config{UserClaim: "sub", Allow: []oidc.Claim{{Name: "groups", Value: "cortex"}, {Name: "hd", Value: "example.com"}}, Operator: []oidc.Claim{{Name: "groups", Value: "admins"}}})
	for _, one := range []struct {
		claims   map[string]any
		user     string // "": not let in
		operator bool
	}{
		{map[string]any{"sub": "7f", "groups": []string{"cortex"}}, "7f", false},
		{map[string]any{"sub": "8f", "groups": []string{"cortex", "admins"}}, "8f", true},
		{map[string]any{"sub": "9f", "hd": "example.com"}, "9f", false},
		{map[string]any{"sub": "9f", "hd": "example.com.evil.example"}, "", false},
		{map[string]any{"sub": "9f", "groups": []string{"admins"}}, "", false}, // an operator has to be let in, too
		{map[string]any{"sub": "9f", "groups": "cortex,admins"}, "", false},
		{map[string]any{"sub": "cortex", "groups": "cortex"}, "user:cortex", false}, // a person of this name, not Cortex
	} {
		s.idp.is(one.claims)
		b := browser(t, nil)
		code, text, _ := get(t, b, s.URL+"/login/provider")
		if one.user == "" {
			if code != http.StatusForbidden || !strings.Contains(text, "may not use this Cortex") {
				t.Errorf("%v is answered with %d", one.claims, code)
			}
			s.isOut(b)
			continue
		}
		if !strings.Contains(text, "Log out <bdi>"+one.user+"</bdi>") {
			t.Errorf("%v gets %d:\n%s", one.claims, code, text)
		}
		if code, _, _ := get(t, b, s.URL+"/dead"); (code == 200) != one.operator {
			t.Errorf("%v gets %d for dead letters", one.claims, code)
		}
	}
}

// TestLookAlikeAddresses checks that the size of letters makes no other person of an address, and that a letter that only becomes another one's small letter
// does: its address is somebody else's.
func TestLookAlikeAddresses(t *testing.T) {
	s := newSite(t, oidc.Config{})
	for address, user := range map[string]string{
		"MIKE@Example.COM": "mike@example.com", "ÉLÉONORE@example.com": "éléonore@example.com",
		"mi\u212ae@example.com": "mi\u212ae@example.com", "m\u0130ke@example.com": "m\u0130ke@example.com",
	} {
		s.idp.is(map[string]any{"email": address, "email_verified": true})
		if code, text, _ := get(t, browser(t, nil), s.URL+"/login/provider"); !strings.Contains(text, "Log out <bdi>"+user+"</bdi>") {
			t.Errorf("%q is not %q here, with %d:\n%s", address, user, code, text)
		}
	}
}

// TestSessionsEnd checks that sessions are over after their time, that a person has not too many, and that an operator ends those of others.
func TestSessionsEnd(t *testing.T) {
	s := newSite(t, oidc.Config{UserClaim: "sub", Operator: []oidc.Claim{{Name: "role", Value: "operator"}}})
	enter := func(claims map[string]any) *http.Client {
		t.Helper()
		s.idp.is(claims)
		b := browser(t, nil)
		if code, text, at := get(t, b, s.URL+"/login/provider?to=/agents"); code != 200 || at.Path != "/agents" {
			t.Fatalf("the login ends with %d at %s:\n%s", code, at, text)
		}
		return b
	}
	bob := map[string]any{"sub": "bob"}
	first := enter(bob)
	var last *http.Client
	for range 20 {
		s.now.Add(int64(time.Millisecond))
		last = enter(bob)
	}
	s.isOut(first) // the oldest of 21
	if _, _, at := get(t, last, s.URL+"/agents"); at.Path != "/agents" {
		t.Errorf("the last login is at %s", at)
	}
	ops := enter(map[string]any{"sub": "ops", "role": "operator"})
	if _, text, _ := get(t, ops, s.URL+"/system"); !strings.Contains(text, "bob") {
		t.Errorf("an operator sees:\n%s", text)
	}
	answer, err := last.PostForm(s.URL+"/system/end", url.Values{"user": {"user:ops"}})
	must(t, err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("Bob ends the sessions of others: %s", answer.Status)
	}
	open, err := last.Get(s.URL + "/activity/events")
	must(t, err)
	defer open.Body.Close()
	answer, err = ops.PostForm(s.URL+"/system/end", url.Values{"user": {"user:bob"}})
	must(t, err)
	answer.Body.Close()
	s.isOut(last)
	if _, err := io.Copy(io.Discard, open.Body); err != nil { // it ends
		t.Errorf("what Bob has open: %v", err)
	}
	if _, _, at := get(t, ops, s.URL+"/agents"); at.Path != "/agents" {
		t.Errorf("the operator is at %s", at)
	}
	s.now.Add(int64(12 * time.Hour))
	s.isOut(ops)
}

// TestProviderIsAway logs in while the provider cannot be asked, and when it can again.
func TestProviderIsAway(t *testing.T) {
	s := newSite(t, oidc.Config{})
	s.idp.is(ada)
	handler := s.idp.Config.Handler
	s.idp.Config.Handler = http.NotFoundHandler()
	b := browser(t, nil)
	if code, text, _ := get(t, b, s.URL+"/login/provider"); code != http.StatusBadGateway || !strings.Contains(text, "cannot be asked") || strings.Contains(text, "transport") {
		t.Errorf("the answer is %d:\n%s", code, text)
	}
	s.idp.Config.Handler = handler
	if code, _, at := get(t, b, s.URL+"/login/provider"); code != 200 || at.Path != "/" {
		t.Errorf("afterwards there is %d at %s", code, at)
	}
}

// TestBehindAProxy begins a login where a proxy ends TLS: the way back is to the proxy, and cookies are for TLS only.
func TestBehindAProxy(t *testing.T) {
	s := newSite(t, oidc.Config{})
	web := s.replica(oidc.Config{Issuer: s.idp.URL, Client: clientID}, "https://cortex.example.com")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/login/provider?to=//evil.example/", nil)
	must(t, err)
	r.Host = "cortex.example.com"
	answer, err := http.DefaultTransport.RoundTrip(r)
	must(t, err)
	answer.Body.Close()
	cookie := answer.Header.Get("Set-Cookie")
	if to := must1(answer.Location())(t).Query().Get("redirect_uri"); to != "https://cortex.example.com/login/callback" {
		t.Errorf("the way back is %s", to)
	}
	if !strings.HasPrefix(cookie, "__Host-cortex_web_login=") || !strings.Contains(cookie, "; Secure") || !strings.Contains(cookie, "; HttpOnly") || !strings.Contains(cookie, "; SameSite=Lax") {
		t.Errorf("the cookie is %s", cookie)
	}
}

// TestConfig refuses configurations that are not safe.
func TestConfig(t *testing.T) {
	for _, cfg := range []oidc.Config{{}, {Issuer: "https://login.example.com"}, {Issuer: "http://login.example.com", Client: "c"}, {Issuer: "login.example.com", Client: "c"}, {Issuer: "https://a@login.example.com", Client: "c"}} {
		if _, err := oidc.New(cfg); err == nil {
			t.Errorf("New(%+v) has no error", cfg)
		}
	}
	if _, err := oidc.ParseClaim("groups"); err == nil {
		t.Error("a claim without a value is accepted")
	}
}
