package oidc_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// idp is an identity provider. Whoever is sent to it is logged in at once, with the claims that are set.
type idp struct {
	*httptest.Server
	t   *testing.T
	key *rsa.PrivateKey

	mu     sync.Mutex
	claims map[string]any
	codes  map[string]url.Values // what was asked for, and is not exchanged yet
	again  bool                  // a code is good more than once
	// forge changes a token before it is signed; nil: nothing.
	forge func(header, claims map[string]any)
	sign  func(input string) []byte // nil: with the key
}

const clientID, clientSecret = "cortex-console", "the secret"

func newIDP(t *testing.T) *idp {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	p := &idp{t: t, key: key, codes: make(map[string]url.Values)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /jwks", p.jwks)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// is sets the claims of whoever logs in next.
func (p *idp) is(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = claims
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // who asks may be gone
}

func (p *idp) discovery(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/jwks",
		"id_token_signing_alg_values_supported": []string{"RS256", "none", "HS256"}, "token_endpoint_auth_methods_supported": []string{"client_secret_basic"},
	})
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (p *idp) jwks(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{"keys": []map[string]string{{
		"kty": "RSA", "kid": "k1", "use": "sig", "alg": "RS256", "n": b64(p.key.N.Bytes()), "e": b64(big.NewInt(int64(p.key.E)).Bytes()),
	}}})
}

func (p *idp) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != clientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("state") == "" || q.Get("nonce") == "" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = q
	p.mu.Unlock()
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

func (p *idp) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, ok := p.codes[r.PostFormValue("code")]
	if !p.again {
		delete(p.codes, r.PostFormValue("code"))
	}
	id, secret, _ := r.BasicAuth()
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || id != clientID || secret != url.QueryEscape(clientSecret) || b64(challenge[:]) != asked.Get("code_challenge") || r.PostFormValue("redirect_uri") != asked.Get("redirect_uri") {
		w.WriteHeader(http.StatusBadRequest)
		answer(w, map[string]string{"error": "invalid_grant", "error_description": "this code is not valid"})
		return
	}
	claims := map[string]any{
		"iss": p.URL, "sub": "1", "aud": clientID, "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(), "nonce": asked.Get("nonce"),
	}
	maps.Copy(claims, p.claims)
	answer(w, map[string]any{"access_token": "a", "token_type": "Bearer", "expires_in": 3600, "id_token": p.jwt(claims)})
}

// jwt signs claims.
func (p *idp) jwt(claims map[string]any) string {
	header := map[string]any{"alg": "RS256", "kid": "k1"}
	if p.forge != nil {
		p.forge(header, claims)
	}
	h, err := json.Marshal(header)
	must(p.t, err)
	c, err := json.Marshal(claims)
	must(p.t, err)
	input := b64(h) + "." + b64(c)
	if p.sign != nil {
		return input + "." + b64(p.sign(input))
	}
	sig, err := signRSA(p.key, input)
	must(p.t, err)
	return input + "." + b64(sig)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func signRSA(key *rsa.PrivateKey, input string) ([]byte, error) {
	sum := sha256.Sum256([]byte(input))
	return rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
}
