package mcp_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agents/mcp"
)

// asAddress is the address that the test binary serves when it is a server and this is set.
const asAddress = "MCP_TEST_ADDRESS"

// serveAt serves the test server at an address, with sessions whose streams can be resumed, and writes the address to the file ADDRESS.
func serveAt(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	file := os.Getenv("ADDRESS")
	if err := errors.Join(os.WriteFile(file+".new", []byte(l.Addr().String()), 0o600), os.Rename(file+".new", file)); err != nil {
		return err
	}
	return http.Serve(l, resumable(newServer()))
}

// resumable serves s with sessions whose streams can be resumed.
func resumable(s *sdk.Server) http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)})
}

// startAt starts the test server as a program at an address, which it returns.
func startAt(t *testing.T, address string, env ...string) (*exec.Cmd, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "address")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), asServer+"=1", asAddress+"="+address, "ADDRESS="+file), env...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var b []byte
	until(t, "the server listens", func() bool { b, _ = os.ReadFile(file); return len(b) > 0 })
	return cmd, string(b)
}

func at(t *testing.T, url string) *mcp.Server {
	t.Helper()
	of, err := mcp.FromCommand("web", nil, url, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return of
}

// A server at an address is killed while it works, and the next one does not know its sessions: the call is not made again, and the next one is.
func TestAddressKilled(t *testing.T) {
	dir := t.TempDir()
	notes := filepath.Join(dir, "notes")
	cmd, address := startAt(t, "127.0.0.1:0", "NOTES="+notes)
	a := open(t, at(t, "http://"+address), dir, nil)
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		until(t, "the call is there", func() bool { b, _ := os.ReadFile(notes); return len(b) > 0 })
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		startAt(t, address, "NOTES="+notes)
	}()
	got, err := do(t, a, task("1", "m", "hold", "first", nil))
	if err == nil || !strings.Contains(err.Error(), "the outcome is unknown") {
		t.Errorf("got %q, %v", got, err)
	}
	<-killed
	if got, err := do(t, a, task("2", "m", "note", "second", nil)); err != nil || got != "noted second" {
		t.Errorf("behind it: %q, %v", got, err)
	}
	if b, _ := os.ReadFile(notes); string(b) != "first\nsecond\n" {
		t.Errorf("notes %q", b)
	}
}

// A session expires while a call is in progress, and another call is told so: the other one is made in another session, and the first is not repeated.
func TestSessionExpires(t *testing.T) {
	notes := filepath.Join(t.TempDir(), "notes")
	t.Setenv("NOTES", notes)
	h := resumable(newServer())
	var mu sync.Mutex
	expired := ""
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(b))
		session := r.Header.Get("Mcp-Session-Id")
		mu.Lock()
		if expired == "" && bytes.Contains(b, []byte(`"text":"other"`)) {
			expired = session
		}
		gone := session != "" && session == expired && r.Method == http.MethodPost
		mu.Unlock()
		if gone {
			http.Error(w, "there is no such session", http.StatusNotFound)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	a := open(t, at(t, web.URL), t.TempDir(), nil)
	ended := make(chan error)
	go func() {
		_, err := do(t, a, task("1", "m", "hold", "first", nil))
		ended <- err
	}()
	until(t, "the call is there", func() bool { b, _ := os.ReadFile(notes); return len(b) > 0 })
	if got, err := do(t, a, task("2", "m", "note", "other", nil)); err != nil || got != "noted other" {
		t.Errorf("the other call: %q, %v", got, err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "the outcome is unknown") {
		t.Errorf("the first call: %v", err)
	}
	if b, _ := os.ReadFile(notes); string(b) != "first\nother\n" {
		t.Errorf("notes %q", b)
	}
}

// front serves the test server behind answer, which gets each request with its body and returns false for those that are the server's.
func front(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, body string) bool) string {
	t.Helper()
	h := resumable(newServer())
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if r.Body = io.NopCloser(bytes.NewReader(b)); !answer(w, r, string(b)) {
			h.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

// A server that begins a call and then answers as if it had not does not get it again.
func TestBegunAndDenied(t *testing.T) {
	for name, status := range map[string]int{"redirect": http.StatusTemporaryRedirect, "moved": http.StatusPermanentRedirect, "not found": http.StatusNotFound} {
		t.Run(name, func(t *testing.T) {
			var begun atomic.Int32
			a := open(t, at(t, front(t, func(w http.ResponseWriter, r *http.Request, body string) bool {
				if !strings.Contains(body, `"text":"first"`) {
					return false
				}
				begun.Add(1)
				w.Header().Set("Location", r.URL.Path)
				w.WriteHeader(status)
				return true
			})), t.TempDir(), nil)
			if got, err := do(t, a, task("1", "m", "note", "first", nil)); err == nil || !strings.Contains(err.Error(), "the outcome is unknown") {
				t.Errorf("got %q, %v", got, err)
			}
			if n := begun.Load(); n != 1 {
				t.Errorf("the server got the call %d times", n)
			}
			if got, err := do(t, a, task("2", "m", "note", "second", nil)); err != nil || got != "noted second" {
				t.Errorf("behind it: %q, %v", got, err)
			}
		})
	}
}

// Many servers redirect to the same address with a slash behind it: calls go there at once.
func TestRedirectedAtFirst(t *testing.T) {
	a := open(t, at(t, front(t, func(w http.ResponseWriter, r *http.Request, _ string) bool {
		if r.URL.Path == "/mcp/" {
			return false
		}
		http.Redirect(w, r, "/mcp/", http.StatusTemporaryRedirect)
		return true
	})+"/mcp"), t.TempDir(), nil)
	if got, err := do(t, a, task("1", "m", "note", "line", nil)); err != nil || got != "noted line" {
		t.Errorf("got %q, %v", got, err)
	}
}

// Servers say with an error in the response that they do not know a session, or with another status: the call is made in another one.
func TestSessionUnknown(t *testing.T) {
	const said = `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}`
	for name, test := range map[string]struct {
		status int
		body   string
	}{
		"not found": {http.StatusNotFound, said}, "bad request": {http.StatusBadRequest, said}, "in words": {http.StatusBadRequest, "No valid session ID"},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			known := ""
			a := open(t, at(t, front(t, func(w http.ResponseWriter, r *http.Request, body string) bool {
				session := r.Header.Get("Mcp-Session-Id")
				mu.Lock()
				defer mu.Unlock()
				if known == "" && strings.Contains(body, `"text":"line"`) {
					known = session // up to now
				}
				if session == "" || session != known || r.Method != http.MethodPost {
					return false
				}
				if test.body == said {
					w.Header().Set("Content-Type", "application/json")
				}
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
				return true
			})), t.TempDir(), nil)
			if got, err := do(t, a, task("1", "m", "note", "line", nil)); err != nil || got != "noted line" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
