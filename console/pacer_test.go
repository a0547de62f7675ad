package console_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/console"
)

// TestOthersLogInMeanwhile has a stranger try to log in without end: that is bounded, and keeps nobody out who has a token, or comes from elsewhere.
func TestOthersLogInMeanwhile(t *testing.T) {
	var proxy string
	identify := func(c *console.Config) {
		c.URL = proxy
		c.Identify = func(token string) (console.Person, error) {
			if token != "ada-token" {
				return console.Person{}, errors.New("nobody's")
			}
			return console.Person{User: "user:ada"}, nil
		}
	}
	w := newWorld(t, identify)
	send := func(method, path, from, forwarded, token string) int {
		form := url.Values{"token": {token}}
		r := httptest.NewRequestWithContext(t.Context(), method, "http://cortex.example"+path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Authorization", "Bearer "+token)
		r.RemoteAddr = from
		if forwarded != "" {
			r.Header.Set("X-Forwarded-For", forwarded)
		}
		out := httptest.NewRecorder()
		w.pages.ServeHTTP(out, r)
		return out.Code
	}
	refused := func(from, forwarded string) int {
		t.Helper()
		for n := range 1000 {
			switch code := send("POST", "/login", from, strings.ReplaceAll(forwarded, "N", strconv.Itoa(n%250)), "wrong"); code {
			case http.StatusTooManyRequests:
				return n
			case http.StatusForbidden:
			default:
				t.Fatalf("a wrong token is answered with %d", code)
			}
		}
		return 1000
	}
	for _, from := range []string{"10.0.0.7:1000", "127.0.0.1:1000"} {
		if n := refused(from, "203.0.113.N"); n < 10 || n == 1000 {
			t.Errorf("%s, who says each time to be a proxy of somebody else, has %d attempts where there is no proxy", from, n)
		}
	}
	proxy = "http://cortex.example"
	w = newWorld(t, identify)
	for _, stranger := range []struct{ from, forwarded, other, by string }{
		{from: "198.51.100.7:1000", other: "198.51.100.8:1000"},
		{from: "[2001:db8::1]:1000", other: "[2001:db8:0:1::1]:1000"},
		{from: "10.0.0.2:1000", forwarded: "192.0.2.1, 203.0.113.5", other: "10.0.0.2:1000", by: "203.0.113.5, 203.0.113.6"},
		{from: "203.0.113.70:1000", forwarded: "10.1.1.1", other: "203.0.113.71:1000"},
	} {
		if n := refused(stranger.from, stranger.forwarded); n < 10 || n == 1000 {
			t.Errorf("%s is refused after %d attempts", stranger.from, n)
		}
		if code := send("POST", "/login", stranger.from, stranger.forwarded, "ada-token"); code != http.StatusSeeOther {
			t.Errorf("%s: a valid token is answered with %d meanwhile", stranger.from, code)
		}
		if code := send("POST", "/login/link", stranger.from, stranger.forwarded, "ada-token"); code != http.StatusOK {
			t.Errorf("%s: who wants a link with a valid token gets %d meanwhile", stranger.from, code)
		}
		if code := send("POST", "/login", stranger.other, stranger.by, "wrong"); code != http.StatusForbidden {
			t.Errorf("%s: somebody else gets %d", stranger.other, code)
		}
	}
	if n := refused("[2001:db8::2]:1", ""); n > 5 {
		t.Errorf("another address of the same network has %d attempts", n)
	}
	if n := refused("203.0.113.70:2", "10.1.1.2"); n > 5 {
		t.Errorf("who says that they are somebody else has %d attempts", n)
	}
}

// provider is an identity provider that counts how often it is asked.
type provider struct{ started, finished int }

func (*provider) Name() string { return "the test" }

func (p *provider) Start(_ context.Context, f *console.Flow, callback string) (string, error) {
	p.started++
	return "https://login.example/?" + url.Values{"state": {f.State}, "to": {callback}}.Encode(), nil
}

func (p *provider) Finish(context.Context, *console.Flow, string, string) (console.Person, error) {
	p.finished++
	return console.Person{}, errors.New("nobody's")
}

// TestOthersLogInWithTheProviderMeanwhile has a stranger begin logins with an identity provider without end, and come back from it without end: the
// provider is asked a bounded number of times, and somebody from elsewhere logs in.
func TestOthersLogInWithTheProviderMeanwhile(t *testing.T) {
	p := &provider{}
	w := newWorld(t, func(c *console.Config) {
		c.Login = p
		c.Identify = func(string) (console.Person, error) { return console.Person{}, errors.New("nobody's") }
	})
	send := func(path, from string, with ...*http.Cookie) *http.Response {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "http://cortex.example"+path, nil)
		r.RemoteAddr = from
		for _, c := range with {
			r.AddCookie(c)
		}
		out := httptest.NewRecorder()
		w.pages.ServeHTTP(out, r)
		return out.Result()
	}
	const provided = "/login/provider"
	begin := func(from string) (back string, flow []*http.Cookie) {
		t.Helper()
		answer := send(provided, from)
		to, err := answer.Location()
		if err != nil {
			t.Fatalf("%s begins a login: %s, %v", from, answer.Status, err)
		}
		return "/login/callback?" + url.Values{"code": {"x"}, "state": {to.Query().Get("state")}}.Encode(), answer.Cookies()
	}
	refused := func(path string, with ...*http.Cookie) int {
		t.Helper()
		for n := range 1000 {
			switch answer := send(path, "198.51.100.7:1000", with...); answer.StatusCode {
			case http.StatusTooManyRequests:
				return n
			case http.StatusSeeOther, http.StatusForbidden:
			default:
				t.Fatalf("%s is answered with %s", path, answer.Status)
			}
		}
		return 1000
	}
	back, flow := begin("198.51.100.7:1000")
	if n := refused(provided); n < 10 || n == 1000 || p.started != n+1 {
		t.Errorf("a stranger begins %d logins, and the provider is asked %d times", n, p.started)
	}
	if n := refused(back, flow...); n > 50 || p.finished != n {
		t.Errorf("then they come back %d times, and the provider is asked %d times", n, p.finished)
	}
	back, flow = begin("198.51.100.8:1000")
	before := p.finished
	if answer := send(back, "198.51.100.8:1000", flow...); answer.StatusCode != http.StatusForbidden || p.finished != before+1 {
		t.Errorf("somebody else who comes back gets %s, and the provider was asked %d times for them", answer.Status, p.finished-before)
	}
}
