package vertex_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/auth"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/llm/vertex"
)

// must dials, and closes the client with the test.
func must(ctx context.Context, t *testing.T, cfg vertex.Config) *vertex.Client {
	t.Helper()
	c, err := vertex.Dial(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, c) })
	return c
}

func TestConfig(t *testing.T) {
	for want, cfg := range map[string]vertex.Config{
		"no project":           {Model: "m", Endpoint: "localhost:1", Plaintext: true},
		"no model":             {Project: "p", Endpoint: "localhost:1", Plaintext: true},
		"not a location":       {Project: "p", Model: "m", Location: "evil.example/", Endpoint: "localhost:1", Plaintext: true},
		"structured output":    {Project: "p", Model: "m", Structured: "yaml", Endpoint: "localhost:1", Plaintext: true},
		"needs an endpoint":    {Project: "p", Model: "m", Plaintext: true},
		"is for REST":          {Project: "p", Model: "m", Endpoint: "http://localhost:1", Plaintext: true},
		"without TLS":          {Project: "p", Model: "m", Endpoint: "http://localhost:1", REST: true},
		"does not go together": {Project: "p", Model: "m", Endpoint: "https://localhost:1", REST: true, Plaintext: true},
	} {
		if c, err := vertex.Dial(t.Context(), cfg); err == nil || c != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Dial(%+v) = %v, %v, want an error with %q", cfg, c, err, want)
		}
	}
}

func TestMissingCredentials(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.json")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", missing)
	each(t, func(t *testing.T, rest bool) {
		for _, file := range []string{"", missing} {
			_, err := vertex.Dial(t.Context(), vertex.Config{Project: "p", Model: "m", REST: rest, CredentialsFile: file})
			if !errors.Is(err, llm.ErrAuth) || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "gcloud auth application-default login") {
				t.Errorf("Dial with the credentials file %q = %v, want %v and what to do", file, err, llm.ErrAuth)
			}
		}
	})
}

// TestCredentialsFile checks that Dial reads credentials without contacting a server.
func TestCredentialsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "user.json")
	content := `{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r","quota_project_id":"q"}`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, rest bool) {
		must(t.Context(), t, vertex.Config{Project: "p", Model: "m", REST: rest, CredentialsFile: file})
	})
}

// provider is a function that returns tokens.
type provider func(ctx context.Context) (*auth.Token, error)

func (p provider) Token(ctx context.Context) (*auth.Token, error) { return p(ctx) }

// TestTokenFailures checks the kinds of errors without a token.
func TestTokenFailures(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want error
	}{
		{"denied", &auth.Error{Response: &http.Response{StatusCode: 400}, Body: []byte(`{"error":"invalid_grant"}`)}, llm.ErrAuth},
		{"busy", &auth.Error{Response: &http.Response{StatusCode: 503}}, llm.ErrUnavailable},
		{"limited", &auth.Error{Response: &http.Response{StatusCode: 429}}, llm.ErrUnavailable},
		{"unreachable", fmt.Errorf("fetch: %w", timeout{}), llm.ErrUnavailable},
		{"deadline of its own", fmt.Errorf("fetch: %w", context.DeadlineExceeded), llm.ErrUnavailable},
		{"unreadable", errors.New("private key should be a PEM"), llm.ErrAuth},
	}
	each(t, func(t *testing.T, rest bool) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				s := serve(t, rest, func(*llmtest.Call) *llmtest.Reply {
					t.Error("the server got a call")
					return &llmtest.Reply{}
				}, true)
				c := dialToken(t, config(rest, s.Addr), s, provider(func(context.Context) (*auth.Token, error) { return nil, test.err }))
				_, _, err := ask(t.Context(), c, request("hi"))
				var failed *llm.Error
				if !errors.Is(err, test.want) || !errors.As(err, &failed) || !strings.Contains(failed.Message, "no token") {
					t.Errorf("Generate = %v, want %v for want of a token", err, test.want)
				}
				if errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Generate = %v, but the call's context has not ended", err)
				}
				if errors.Is(test.want, llm.ErrAuth) != strings.Contains(failed.Message, "gcloud") {
					t.Errorf("Generate = %v: the advice is for who has no credentials", err)
				}
			})
		}
	})
}

type timeout struct{}

func (timeout) Error() string   { return "i/o timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

// TestTokenHangs checks that a call ends with its context while it waits for a token.
func TestTokenHangs(t *testing.T) {
	each(t, func(t *testing.T, rest bool) {
		s := serve(t, rest, func(*llmtest.Call) *llmtest.Reply { return &llmtest.Reply{} }, true)
		over := make(chan struct{})
		defer close(over)
		ctx, cancel := context.WithCancel(t.Context())
		c := dialToken(t, config(rest, s.Addr), s, provider(func(context.Context) (*auth.Token, error) {
			cancel()
			<-over
			return nil, errors.New("late")
		}))
		if _, _, err := ask(ctx, c, request("hi")); !errors.Is(err, context.Canceled) {
			t.Errorf("Generate = %v, want %v", err, context.Canceled)
		}
	})
}

// lines counts the lines that a logger writes.
type lines struct {
	mu    sync.Mutex
	seen  int
	other bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes.HasSuffix(p, []byte("mine\n")) {
		l.seen++
	} else {
		l.other.Write(p)
	}
	return len(p), nil
}

// TestWarning checks that the SDK's warning is removed from the global logger's output, and nothing else.
func TestWarning(t *testing.T) {
	out := &lines{}
	before := log.Writer()
	log.SetOutput(out)
	t.Cleanup(func() { log.SetOutput(before) })
	const logged = 2000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range logged {
			log.Print("mine")
		}
	}()
	var dialing sync.WaitGroup
	for range 4 {
		dialing.Go(func() {
			for range 10 {
				c, err := vertex.Dial(context.Background(), vertex.Config{Project: "p", Model: "m", Endpoint: "localhost:1", Plaintext: true})
				if err != nil {
					t.Error(err)
					return
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	dialing.Wait()
	<-done
	if log.Writer() != out {
		t.Error("the logger has another output")
	}
	if out.seen != logged || out.other.Len() > 0 {
		t.Errorf("%d lines logged, want %d; beside them: %q", out.seen, logged, out.other.String())
	}
}
