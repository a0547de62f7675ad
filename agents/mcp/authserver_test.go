package mcp_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agents/mcp"
)

// authServer is an authorization server: metadata, registration, codes with PKCE, and refresh tokens that are replaced by each use. A refresh token
// that is used twice ends all that came of its login, as RFC 9700 recommends.
type authServer struct {
	*httptest.Server
	t *testing.T

	mu        sync.Mutex
	n         int
	lifetime  int // of access tokens in seconds; 0: none is told
	clients   map[string]string
	codes     map[string]url.Values // the requests for them
	access    map[string]string     // scopes
	refresh   map[string]string     // scopes; "used" is one that was used
	refreshes int
	asked     []url.Values // requests of the user's browser
	hooks     map[string]http.HandlerFunc
	metadata  map[string]any // in place of what is true
	iss       string         // in the redirect
	callback  func(q url.Values)
}

func newAuthServer(t *testing.T) *authServer {
	a := &authServer{
		t: t, clients: map[string]string{}, codes: map[string]url.Values{}, access: map[string]string{}, refresh: map[string]string{},
		hooks: map[string]http.HandlerFunc{}, metadata: map[string]any{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		m := map[string]any{
			"issuer": a.URL, "authorization_endpoint": a.URL + "/authorize", "token_endpoint": a.URL + "/token",
			"registration_endpoint": a.URL + "/register", "code_challenge_methods_supported": []string{"S256"},
			"response_types_supported": []string{"code"}, "authorization_response_iss_parameter_supported": true,
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		maps.Copy(m, a.metadata)
		give(w, http.StatusOK, m)
	})
	mux.HandleFunc("POST /register", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Redirects []string `json:"redirect_uris"`
			Grants    []string `json:"grant_types"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in.Redirects) != 1 || !slices.Contains(in.Grants, "refresh_token") {
			t.Errorf("the registration is %+v, %v", in, err)
		}
		id := a.next("client-")
		a.mu.Lock()
		defer a.mu.Unlock()
		a.clients[id] = in.Redirects[0]
		give(w, http.StatusCreated, map[string]any{"client_id": id, "redirect_uris": in.Redirects, "token_endpoint_auth_method": "none"})
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		q, code := r.URL.Query(), a.next("code-")
		a.mu.Lock()
		defer a.mu.Unlock()
		if to := a.clients[q.Get("client_id")]; to != q.Get("redirect_uri") || q.Get("code_challenge_method") != "S256" || q.Get("state") == "" {
			t.Errorf("asked to authorize %v for %q", q, to)
		}
		a.asked = append(a.asked, q)
		a.codes[code] = q
		back := url.Values{"code": {code}, "state": q["state"], "iss": {a.URL}}
		if a.iss != "" {
			back.Set("iss", a.iss)
		}
		if a.callback != nil {
			a.callback(back)
		}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		a.token(w, r.PostForm)
	})
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		hook := a.hooks[r.URL.Path]
		a.mu.Unlock()
		if hook != nil {
			hook(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

func give(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

func (a *authServer) next(prefix string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n++
	return fmt.Sprintf("%s%d", prefix, a.n)
}

func (a *authServer) token(w http.ResponseWriter, q url.Values) {
	access, refresh := a.next("s3cret-access-"), a.next("s3cret-refresh-")
	a.mu.Lock()
	defer a.mu.Unlock()
	scope := ""
	switch q.Get("grant_type") {
	case "authorization_code":
		asked, ok := a.codes[q.Get("code")]
		delete(a.codes, q.Get("code"))
		sum := sha256.Sum256([]byte(q.Get("code_verifier")))
		if !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != asked.Get("code_challenge") || q.Get("redirect_uri") != asked.Get("redirect_uri") {
			give(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
			return
		}
		if q.Get("resource") == "" || q.Get("resource") != asked.Get("resource") {
			a.t.Errorf("the token is for %q, and the code was for %q", q.Get("resource"), asked.Get("resource"))
		}
		scope = asked.Get("scope")
	case "refresh_token":
		a.refreshes++
		old := q.Get("refresh_token")
		var ok bool
		if scope, ok = a.refresh[old]; !ok || scope == "used" {
			clear(a.access)
			clear(a.refresh)
			give(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "used, revoked or unknown"})
			return
		}
		if q.Get("resource") == "" || q.Get("client_id") == "" {
			a.t.Errorf("refresh without resource or client: %v", q)
		}
		a.refresh[old] = "used"
	}
	a.access[access], a.refresh[refresh] = scope, scope
	m := map[string]any{"access_token": access, "token_type": "Bearer", "refresh_token": refresh, "scope": scope}
	if a.lifetime > 0 {
		m["expires_in"] = a.lifetime
	}
	give(w, http.StatusOK, m)
}

// revoke ends everything that was given; with keep, only access tokens.
func (a *authServer) revoke(keep bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.access)
	if !keep {
		clear(a.refresh)
	}
}

func (a *authServer) hook(path string, h http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hooks[path] = h
}

// guarded is an MCP server that wants a token of the authorization server for requests that contain one of the texts; and one with the scope write
// for its tool note.
func guarded(t *testing.T, a *authServer, kind string, texts ...string) *mcp.Server {
	t.Helper()
	s := newServer()
	get := func(*http.Request) *sdk.Server { return s }
	var h http.Handler = sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: kind != "stateful"})
	if kind == "sse" {
		h = sdk.NewSSEHandler(get, nil)
	}
	web := httptest.NewUnstartedServer(nil)
	self := "http://" + web.Listener.Addr().String()
	web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/.well-known/oauth-protected-resource/mcp" {
			give(w, http.StatusOK, map[string]any{"resource": self + "/mcp", "authorization_servers": []string{a.URL}})
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		has := func(text string) bool { return strings.Contains(string(body), text) }
		a.mu.Lock()
		scope, ok := a.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		a.mu.Unlock()
		where := fmt.Sprintf(`resource_metadata="%s/.well-known/oauth-protected-resource/mcp"`, self)
		switch {
		case !ok && (len(texts) == 0 || slices.ContainsFunc(texts, has)):
			w.Header().Set("WWW-Authenticate", `Bearer scope="read", `+where)
			w.WriteHeader(http.StatusUnauthorized)
		case has(`"name":"note"`) && !slices.Contains(strings.Fields(scope), "write"):
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="write", `+where)
			w.WriteHeader(http.StatusForbidden)
		case has(`"name":"fail"`): // and tells what it was sent
			var of struct{ ID any }
			_ = json.Unmarshal(body, &of)
			give(w, http.StatusOK, map[string]any{
				"jsonrpc": "2.0", "id": of.ID, "error": map[string]any{"code": -32000, "message": "not with " + r.Header.Get("Authorization")},
			})
		default:
			h.ServeHTTP(w, r)
		}
	})
	web.Start()
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return &mcp.Server{Name: "test", URL: self + "/mcp", SSE: kind == "sse"}
}

// browse does what a browser does with the address that it is shown.
func browse(address string) {
	resp, err := http.Get(address)
	if err == nil {
		_ = resp.Body.Close()
	}
}

// login logs in at a server, as a user with a browser.
func login(t *testing.T, s *mcp.Server, dir string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return mcp.Login(ctx, s, &mcp.LoginOptions{Dir: dir, Version: "1", Show: func(address string) { go browse(address) }})
}
