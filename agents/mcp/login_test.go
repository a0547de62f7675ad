package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/mcp"
)

// upper has the agent do a small task.
func upper(t *testing.T, a *mcp.Agent, id string) error {
	t.Helper()
	got, err := do(t, a, &agents.Task{ID: a2a.TaskID(id), Skill: "upper", Message: &a2a.Message{ID: "m" + id, Parts: a2a.ContentParts{a2a.NewTextPart("x")}}})
	if err == nil && got != "X" {
		err = fmt.Errorf("got %q", got)
	}
	return err
}

// TestLogin logs in at servers of each kind, whose agents then work; the tokens are in a file for the user alone, and neither in logs nor on the card.
func TestLogin(t *testing.T) {
	for _, kind := range []string{"stateless", "stateful", "sse"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a, dir := newAuthServer(t), t.TempDir()
			s := guarded(t, a, kind)
			_, err := mcp.Open(t.Context(), s, &mcp.Options{Dir: dir})
			if want := "401 Unauthorized: it wants a login: run `cortex mcp login --url " + s.URL + "`"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("without a login: %v, want %s", err, want)
			}
			if err := login(t, s, dir); err != nil {
				t.Fatal(err)
			}
			if err := login(t, s, dir); !errors.Is(err, mcp.ErrLoggedIn) {
				t.Errorf("logged in again: %v", err)
			}
			if q := a.asked[0]; q.Get("resource") != s.URL || q.Get("scope") != "read" {
				t.Errorf("asked the user for %v", q)
			}
			var log syncBuffer
			agent := open(t, s, dir, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
			if err := upper(t, agent, "1"); err != nil {
				t.Error(err)
			}
			if kind == "stateless" {
				if _, err := do(t, agent, &agents.Task{ID: "told", Skill: "fail", Message: &a2a.Message{ID: "m"}}); err == nil || err.Error() != "not with Bearer ***" {
					t.Errorf("what the server tells became %v", err)
				}
			}
			a.revoke(false)
			_ = upper(t, agent, "2")
			if text := log.String() + fmt.Sprint(agent.Card()); strings.Contains(text, "s3cret") {
				t.Errorf("a token is in %s", text)
			}
			files, err := filepath.Glob(filepath.Join(dir, "logins", "*"))
			if err != nil || len(files) != 2 {
				t.Errorf("files %v, %v, want the login and its lock", files, err)
			}
			for _, f := range files {
				if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s has mode %v, %v", f, info.Mode(), err)
				}
			}
		})
	}
}

// TestLogout checks that an agent stops using a login that is forgotten.
func TestLogout(t *testing.T) {
	_, s, dir, agent := loggedIn(t)
	for _, want := range []bool{true, false} {
		if had, err := mcp.Logout(s, dir); had != want || err != nil {
			t.Errorf("Logout() = %v, %v, want %v", had, err, want)
		}
	}
	if err := upper(t, agent, "1"); err == nil || !strings.Contains(err.Error(), "it wants a login: run `cortex mcp login") {
		t.Errorf("got %v", err)
	}
}

// TestRefresh has two agents of one login, as in two processes, whose tokens expire with each call. The authorization server ends the login when a
// refresh token is used twice.
func TestRefresh(t *testing.T) {
	a, dir := newAuthServer(t), t.TempDir()
	a.lifetime = 1
	s := guarded(t, a, "stateless")
	if err := login(t, s, dir); err != nil {
		t.Fatal(err)
	}
	other := *s
	other.Name = "other"
	var working sync.WaitGroup
	for i, agent := range []*mcp.Agent{open(t, s, dir, nil), open(t, &other, dir, nil)} {
		for j := range 20 {
			working.Go(func() {
				if err := upper(t, agent, fmt.Sprintf("%d-%d", i, j)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	working.Wait()
	if a.refreshes < 10 {
		t.Errorf("%d refreshes, want one for nearly each call", a.refreshes)
	}
}

// loggedIn returns an agent of a server that wants a login, and has one.
func loggedIn(t *testing.T) (a *authServer, s *mcp.Server, dir string, agent *mcp.Agent) {
	t.Helper()
	a, dir = newAuthServer(t), t.TempDir()
	s = guarded(t, a, "stateless")
	if err := login(t, s, dir); err != nil {
		t.Fatal(err)
	}
	return a, s, dir, open(t, s, dir, nil)
}

// TestRevoked refreshes a token that the server does not accept although it has not expired.
func TestRevoked(t *testing.T) {
	a, dir := newAuthServer(t), t.TempDir()
	a.lifetime = 3600
	s := guarded(t, a, "stateless")
	if err := login(t, s, dir); err != nil {
		t.Fatal(err)
	}
	agent := open(t, s, dir, nil)
	a.revoke(true)
	if err := upper(t, agent, "1"); err != nil || a.refreshes != 1 {
		t.Errorf("got %v after %d refreshes", err, a.refreshes)
	}
}

// TestAuthorizationServerAway keeps the login when a refresh fails for a while.
func TestAuthorizationServerAway(t *testing.T) {
	a, _, _, agent := loggedIn(t)
	a.revoke(true)
	a.hook("/token", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "s3cret", http.StatusBadGateway) })
	if err := upper(t, agent, "1"); err == nil || !strings.Contains(err.Error(), "the login cannot be refreshed: the authorization server says 502 Bad Gateway") {
		t.Errorf("got %v", err)
	}
	a.hook("/token", nil)
	until(t, "the server is there again", func() bool { return upper(t, agent, "2") == nil })
}

// TestRefreshIsFinished cancels a task during a refresh, when the authorization server has replaced the tokens already.
func TestRefreshIsFinished(t *testing.T) {
	a, _, _, agent := loggedIn(t)
	a.revoke(true)
	begun, canceled, answered := make(chan struct{}), make(chan struct{}), make(chan struct{})
	a.hook("/token", func(w http.ResponseWriter, r *http.Request) {
		a.hook("/token", nil)
		_ = r.ParseForm()
		got := httptest.NewRecorder()
		a.token(got, r.PostForm)
		close(begun)
		<-canceled
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(got.Body.Bytes())
		close(answered)
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-begun
		cancel(agents.ErrCanceled)
	}()
	for _, err := range agent.Execute(ctx, &agents.Task{ID: "1", Skill: "upper", Message: &a2a.Message{ID: "m1", Parts: a2a.ContentParts{a2a.NewTextPart("x")}}}) {
		if !errors.Is(err, agents.ErrCanceled) {
			t.Errorf("got %v", err)
		}
	}
	close(canceled)
	<-answered
	if err := upper(t, agent, "2"); err != nil || a.refreshes != 1 {
		t.Errorf("then: %v, after %d refreshes", err, a.refreshes)
	}
}

// TestLoginEnds has the authorization server end a login: the task says what to do, the agent drains, and is there again after another login.
func TestLoginEnds(t *testing.T) {
	a, s, dir, agent := loggedIn(t)
	a.revoke(false)
	want := "the call was not made: " + s.URL + ": 401 Unauthorized: the login has ended (invalid_grant): run `cortex mcp login --url " + s.URL + "`"
	if err := upper(t, agent, "1"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if change := <-agent.Changes(); !change.Draining {
		t.Errorf("the first change is %+v, want draining", change)
	}
	if err := login(t, s, dir); err != nil {
		t.Fatal(err)
	}
	if change := <-agent.Changes(); change.Draining || change.Card == nil {
		t.Errorf("the second change is %+v, want a card", change)
	}
	if err := upper(t, agent, "2"); err != nil {
		t.Error(err)
	}
}

// TestStepUp has a tool that wants more rights: its call fails alone, and the next login asks for them beside those that there are.
func TestStepUp(t *testing.T) {
	a, s, dir, agent := loggedIn(t)
	note := &agents.Task{ID: "1", Skill: "note", Delivery: 1, Message: &a2a.Message{ID: "m", Parts: a2a.ContentParts{a2a.NewTextPart("x")}}}
	if _, err := do(t, agent, note); err == nil || !strings.Contains(err.Error(), "403 Forbidden: it wants more rights write: run `cortex mcp login --url ") {
		t.Errorf("got %v", err)
	}
	if err := upper(t, agent, "2"); err != nil {
		t.Error(err)
	}
	select {
	case change := <-agent.Changes():
		t.Errorf("the agent changes to %+v", change)
	default:
	}
	if err := login(t, s, dir); err != nil {
		t.Fatal(err)
	}
	if got := a.asked[len(a.asked)-1].Get("scope"); got != "read write" && got != "write read" {
		t.Errorf("asked for the rights %q", got)
	}
	if got, err := do(t, agent, note); err != nil || got != "noted x" { // it was not sent before
		t.Errorf("got %q, %v", got, err)
	}
}

// TestLoginForOneCall logs in at a server that wants it for calls only, once one was refused.
func TestLoginForOneCall(t *testing.T) {
	a, dir := newAuthServer(t), t.TempDir()
	s := guarded(t, a, "stateless", `"method":"tools/call"`)
	if err := login(t, s, dir); !errors.Is(err, mcp.ErrNoLogin) {
		t.Errorf("before: %v", err)
	}
	agent := open(t, s, dir, nil)
	if err := upper(t, agent, "1"); err == nil || !strings.Contains(err.Error(), "run `cortex mcp login") {
		t.Errorf("got %v", err)
	}
	if err := login(t, s, dir); err != nil {
		t.Fatal(err)
	}
	until(t, "the server is there again", func() bool { return upper(t, agent, "2") == nil })
}

// TestLoginRefused lists servers at which nobody logs in.
func TestLoginRefused(t *testing.T) {
	for want, s := range map[string]*mcp.Server{
		"it is a program: only a server at a URL has a login":    {Name: "x", Argv: []string{"x"}},
		"a login would be sent over http for everybody to read":  {Name: "x", URL: "http://example.com/mcp"},
		"its headers have an Authorization, or MCP_TOKEN is set": {Name: "x", URL: "https://example.com/mcp", Headers: map[string]string{"authorization": "Bearer x"}},
	} {
		if err := login(t, s, t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestHostileLogin has strangers who say wrong things during a login: each ends it in bounded time and space, and the server stays closed.
func TestHostileLogin(t *testing.T) {
	endless := func(begin string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, err := w.Write([]byte(begin))
			for err == nil {
				_, err = w.Write([]byte(strings.Repeat(" ", 64<<10)))
			}
		}
	}
	var taken atomic.Int32 // by who must not get anything
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { taken.Add(1) }))
	defer elsewhere.Close()
	away := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}
	token := func(v map[string]any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { give(w, http.StatusOK, v) }
	}
	const metadata = "/.well-known/oauth-authorization-server"
	for name, test := range map[string]struct {
		make func(a *authServer)
		want string
	}{
		"another issuer":           {func(a *authServer) { a.metadata["issuer"] = "https://example.com" }, "does not match issuer URL"},
		"another issuer answers":   {func(a *authServer) { a.iss = "https://example.com" }, `does not match expected issuer`},
		"no issuer answers":        {func(a *authServer) { a.callback = func(q url.Values) { q.Del("iss") } }, "none was received"},
		"no PKCE":                  {func(a *authServer) { a.metadata["code_challenge_methods_supported"] = []string{} }, "does not implement PKCE"},
		"http":                     {func(a *authServer) { a.metadata["token_endpoint"] = "http://example.com/token" }, "does not use HTTPS"},
		"a script":                 {func(a *authServer) { a.metadata["authorization_endpoint"] = "javascript:alert(1)" }, "disallowed scheme"},
		"a terminal's commands":    {func(a *authServer) { a.metadata["authorization_endpoint"] = a.URL + "/\u202e\u009b2J" }, "the address to log in at is not one"},
		"endless metadata":         {func(a *authServer) { a.hooks[metadata] = endless(`{"issuer":"`) }, "no login: "},
		"an endless registration":  {func(a *authServer) { a.hooks["/register"] = endless(`{"client_id":"`) }, "no login: "},
		"an endless token":         {func(a *authServer) { a.hooks["/token"] = endless(`{"access_token":"`) }, "no login: "},
		"metadata elsewhere":       {func(a *authServer) { a.hooks[metadata] = away }, "it redirects to "},
		"a registration elsewhere": {func(a *authServer) { a.hooks["/register"] = away }, "it redirects to "},
		"a token elsewhere":        {func(a *authServer) { a.hooks["/token"] = away }, "it redirects to "},
		"no registration": {func(a *authServer) {
			a.hooks["/register"] = token(map[string]any{"client_secret": "s3cret", "client_id": 1})
		}, "registration response that cannot be read"},
		"a secret with an error": {func(a *authServer) {
			a.hooks["/token"] = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "s3cret", http.StatusForbidden) }
		}, "the authorization server says 403 Forbidden"},
		"a large token": {func(a *authServer) {
			a.hooks["/token"] = token(map[string]any{"access_token": strings.Repeat("x", 20<<10)})
		}, "a token of 20480 bytes"},
		"many rights": {func(a *authServer) {
			a.hooks["/token"] = token(map[string]any{"access_token": "x", "scope": strings.Repeat("x ", 200<<10)})
		}, "the login cannot be kept: it has "},
		"two lines": {func(a *authServer) { a.hooks["/token"] = token(map[string]any{"access_token": "x\r\ny: z"}) }, "does not fit into a header"},
		"no bearer": {func(a *authServer) {
			a.hooks["/token"] = token(map[string]any{"access_token": "x", "token_type": "DPoP"})
		}, `tokens of the type "DPoP"`},
		"a wrong verifier": {func(a *authServer) {
			a.hooks["/authorize"] = nil
			a.callback = func(q url.Values) { q.Set("code", "x") }
		}, "invalid_grant"},
		"a token for nobody": {func(a *authServer) {
			a.hooks["/token"] = token(map[string]any{"access_token": "x"})
		}, "it does not accept the token that it had the authorization server give"},
		"no": {func(a *authServer) {
			a.callback = func(q url.Values) {
				q.Del("code")
				q.Set("error", "access_denied")
				q.Set("error_description", "not\x1b[2J today")
			}
		}, "the authorization server refuses: access_denied not [2J today"},
	} {
		t.Run(name, func(t *testing.T) {
			a, dir := newAuthServer(t), t.TempDir()
			test.make(a)
			s := guarded(t, a, "stateless")
			err := login(t, s, dir)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Login() = %v, want %s", err, test.want)
			}
			if err != nil && (len(err.Error()) > 1000 || strings.Contains(err.Error(), "s3cret")) {
				t.Errorf("the error is too long or has a secret: %.2000s", err)
			}
			if _, err := mcp.Open(t.Context(), s, &mcp.Options{Dir: dir}); err == nil {
				t.Error("the server is open")
			}
		})
	}
	if n := taken.Load(); n > 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

// TestCallback checks that only the browser with the right state ends a login, whatever else comes to its page.
func TestCallback(t *testing.T) {
	a, dir := newAuthServer(t), t.TempDir()
	s := guarded(t, a, "stateless")
	get := func(address, host string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Error(err)
			return 0
		}
		r.Host = host
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := mcp.Login(ctx, s, &mcp.LoginOptions{Dir: dir, Show: func(address string) {
		go func() {
			u, err := url.Parse(address)
			if err != nil {
				t.Error(err)
			}
			to, state := u.Query().Get("redirect_uri"), u.Query().Get("state")
			for _, test := range []struct {
				address, host string
				want          int
			}{
				{to + "?code=x", "", 400},
				{to + "?code=x&state=", "", 400},
				{to + "?code=x&state=" + state + "x", "", 400},
				{to + "?error=access_denied&state=x", "", 400},
				{to + "/more?code=x&state=" + state, "", 404},
				{to + "?code=x&state=" + state, "example.com", 404},
			} {
				if got := get(test.address, test.host); got != test.want {
					t.Errorf("%s at %q = %d, want %d", test.address, test.host, got, test.want)
				}
			}
			browse(address)
		}()
	}})
	if err != nil {
		t.Error(err)
	}
}

// TestLoginIsCanceled ends a login for which nobody comes.
func TestLoginIsCanceled(t *testing.T) {
	a, dir := newAuthServer(t), t.TempDir()
	s := guarded(t, a, "stateless")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := mcp.Login(ctx, s, &mcp.LoginOptions{Dir: dir, Show: func(string) { cancel(errors.New("enough")) }})
	if err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("got %v", err)
	}
}

// TestDamagedLogin says which file to remove.
func TestDamagedLogin(t *testing.T) {
	a, dir := newAuthServer(t), t.TempDir()
	s := guarded(t, a, "stateless")
	if err := login(t, s, dir); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".json" {
			err = os.WriteFile(path, []byte(`{"access_token": "s3cret`), 0o600)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = mcp.Open(t.Context(), s, &mcp.Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "remove it, and run `cortex mcp login") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
}
