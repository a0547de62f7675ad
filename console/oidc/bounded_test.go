package oidc_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/console/oidc"
)

// TestEndlessAnswers has an identity provider answer without an end: it is refused after a bounded number of bytes.
func TestEndlessAnswers(t *testing.T) {
	sent := make(chan int, 1)
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n, piece := 0, []byte(strings.Repeat(" ", 64<<10))
		for err := error(nil); err == nil && n < 1<<30; {
			var m int
			m, err = w.Write(piece)
			n += m
		}
		sent <- n
	}))
	defer p.Close()
	c, err := oidc.New(oidc.Config{Issuer: p.URL, Client: "x"})
	must(t, err)
	_, err = c.Start(t.Context(), &console.Flow{State: "s", Nonce: "n", Verifier: "v", Until: time.Now().Add(time.Minute)}, "http://localhost/login/callback")
	if err == nil || !strings.Contains(err.Error(), "more than 262144 bytes") {
		t.Errorf("the answer: %v", err)
	}
	if n := <-sent; n >= 1<<30 {
		t.Errorf("%d bytes are read", n)
	}
}

// TestHeavyAnswers has an identity provider send few bytes that take much memory, or much time: they are refused.
func TestHeavyAnswers(t *testing.T) {
	values := json.RawMessage("[" + strings.Repeat(`{"":0},`, 10_000) + "0]")
	for name, one := range map[string]struct {
		says string
		with func(s *site)
	}{
		"of itself": {"too many values", func(s *site) { s.idp.more("/.well-known/openid-configuration", values) }},
		"tokens":    {"too many values", func(s *site) { s.idp.more("/token", values) }},
		"keys":      {"too many values", func(s *site) { s.idp.more("/jwks", values) }},
		"claims":    {"too many values", func(s *site) { s.idp.forge = func(_, claims map[string]any) { claims["more"] = values } }},
		"header":    {"too many values", func(s *site) { s.idp.forge = func(header, _ map[string]any) { header["more"] = values } }},
		"signature": {"more than 1024 bytes", func(s *site) { s.idp.sign = func(string) []byte { return make([]byte, 4096) } }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, oidc.Config{})
			s.idp.is(ada)
			one.with(s)
			b := browser(t, nil)
			if code, text, _ := get(t, b, s.URL+"/login/provider"); code < 400 || !strings.Contains(text, one.says) {
				t.Errorf("the answer is %d, want one that says %q:\n%s", code, one.says, text)
			}
			s.isOut(b)
		})
	}
}

// more has a provider add something to what it answers at a path.
func (p *idp) more(path string, add json.RawMessage) {
	h := p.Config.Handler
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			h.ServeHTTP(w, r)
			return
		}
		kept := httptest.NewRecorder()
		h.ServeHTTP(kept, r)
		all := map[string]any{}
		must(p.t, json.Unmarshal(kept.Body.Bytes(), &all))
		all["more"] = add
		answer(w, all)
	})
}
