package cli_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/internal/cli"
)

// browser is a standard error whose reader opens the address that it is shown.
type browser struct {
	bytes.Buffer
	open func(address string)
}

var shownAddress = regexp.MustCompile(`(?m)^http://127\.0\.0\.1:\d+/authorize\S+$`)

func (b *browser) Write(p []byte) (int, error) {
	if address := shownAddress.Find(p); address != nil {
		go b.open(string(address))
	}
	return b.Buffer.Write(p)
}

// protected is an MCP server that wants a token, and its own authorization server.
func protected(t *testing.T) *httptest.Server {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "vault", Version: "1"}, nil)
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true})
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	give := func(v map[string]any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v)
		}
	}
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", give(map[string]any{"resource": web.URL + "/mcp", "authorization_servers": []string{web.URL}}))
	mux.HandleFunc("/.well-known/oauth-authorization-server", give(map[string]any{
		"issuer": web.URL, "authorization_endpoint": web.URL + "/authorize", "token_endpoint": web.URL + "/token", "registration_endpoint": web.URL + "/register",
		"code_challenge_methods_supported": []string{"S256"},
	}))
	mux.HandleFunc("/register", give(map[string]any{"client_id": "cortex", "token_endpoint_auth_method": "none"}))
	mux.HandleFunc("/token", give(map[string]any{"access_token": "s3cret-token", "token_type": "Bearer"}))
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"c"}, "state": q["state"]}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret-token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
	return web
}

// TestMCPLogin logs in at a server by its URL, and by its name in a file, and out again.
// TestSlowServer starts an MCP server that does not answer: its user is told what is waited for.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	log, stop := start(t, "agent", "mcp", "--data", t.TempDir(), "--name", "late", "--", "sh", "-c", "cat >/dev/null")
	eventually(t, "it says so", func() bool { return strings.Contains(log.String(), "waiting for the MCP server late to start") })
	if code := stop(); code != 0 {
		t.Errorf("exit status %d, want 0; it said:\n%s", code, log)
	}
}

func TestMCPLogin(t *testing.T) {
	web, data := protected(t), t.TempDir()
	file := filepath.Join(t.TempDir(), "servers.json")
	servers := `{"mcpServers": {"vault": {"url": "` + web.URL + `/mcp"}, "local": {"command": "x"}}}`
	if err := os.WriteFile(file, []byte(servers), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args         string
		code         int
		stdout, said string
	}{
		{"login", 2, "", "which server? cortex mcp login NAME, or --url URL"},
		{"login vault --url x", 2, "", "--url names the server: give it without NAME and --config"},
		{"login a b", 2, "", `unexpected argument "b"`},
		{"login none --config FILE", 2, "", `there is no server "none": it lists local, vault`},
		{"login local --config FILE", 1, "", "local: it is a program: only a server at a URL has a login"},
		{"login --url http://example.com/mcp", 1, "", "a login would be sent over http for everybody to read: use https"},
		{"login --url URL --callback-port 70000", 2, "", "--callback-port 70000: it is from 1 to 65535"},
		{"logout --url URL", 1, "", "there is no login at 127.0.0.1"},
		{"login vault --config FILE", 0, "logged in at vault\n", "cortex agent mcp vault --config "},
		{"login --url URL", 0, "logged in at 127.0.0.1 already: `cortex mcp logout --url " + web.URL + "/mcp` ends that\n", ""},
		{"logout --url URL", 0, "logged out of 127.0.0.1\n", ""},
		{"login --url URL", 0, "logged in at 127.0.0.1\n", "cortex agent mcp --url " + web.URL + "/mcp"},
	} {
		args := append([]string{"mcp"}, strings.Fields(strings.NewReplacer("FILE", file, "URL", web.URL+"/mcp").Replace(test.args))...)
		stderr := &browser{open: func(address string) {
			resp, err := http.Get(address)
			if err == nil {
				_ = resp.Body.Close()
			}
		}}
		var stdout bytes.Buffer
		code := cli.Run(t.Context(), append(args, "--data", data), strings.NewReader(""), &stdout, stderr)
		if code != test.code || stdout.String() != test.stdout || !strings.Contains(stderr.String(), test.said) {
			t.Errorf("%s: %d %q %q, want %d %q %q", test.args, code, stdout.String(), stderr.String(), test.code, test.stdout, test.said)
		}
		if strings.Contains(stdout.String()+stderr.String(), "s3cret") {
			t.Errorf("%s shows a token: %s", test.args, stderr)
		}
	}
}
