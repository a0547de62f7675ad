package anthropic_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/anthropic"
	"github.com/cortex-orchestrator/cortex/llm/anthropic/anthropictest"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// TestToken checks that a refused token is replaced, and that the error shows neither of the tokens.
func TestToken(t *testing.T) {
	for _, good := range []string{"token-two", "none"} {
		api := anthropictest.Serve(t, func(*llmtest.Call) *llmtest.Reply { return &llmtest.Reply{Pieces: []string{"Hel", "lo."}} })
		var got []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			if got = append(got, token); len(r.Header.Values("X-Api-Key")) > 0 {
				t.Errorf("a key is sent, too: %v", r.Header)
			}
			if token != good {
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = fmt.Fprintf(w, `{"type":"error","error":{"type":"authentication_error","message":"bad token %s after %s"}}`, token, got[0])
				return
			}
			r.Header.Set("X-Api-Key", "a key") // as the server of the tests wants it
			api.Config.Handler.ServeHTTP(w, r)
		}))
		defer server.Close()
		c := dial(t, server.URL, llmtest.Options{}, func(cfg *anthropic.Config) {
			cfg.Token = func(_ context.Context, refused string) (string, error) {
				return map[string]string{"": "token-one", "token-one": "token-two"}[refused], nil
			}
		})
		answer, _, err := ask(t, c, hello())
		if !slices.Equal(got, []string{"token-one", "token-two"}) {
			t.Errorf("sent %q", got)
		}
		if good != "none" {
			if err != nil || answer != "Hello." {
				t.Errorf("Generate = %q, %v", answer, err)
			}
			continue
		}
		if !errors.Is(err, llm.ErrAuth) || strings.Contains(err.Error(), "token-") || !strings.Contains(err.Error(), "[secret]") {
			t.Errorf("the error is %v", err)
		}
	}
	if _, err := anthropic.New(anthropic.Config{Model: "m", Key: "k", Token: func(context.Context, string) (string, error) { return "t", nil }}); err == nil || !strings.Contains(err.Error(), "token: ") {
		t.Errorf("beside a key: New = %v", err)
	}
}

// TestNoToken checks the error when there is none.
func TestNoToken(t *testing.T) {
	c := dial(t, "http://127.0.0.1:1", llmtest.Options{}, func(cfg *anthropic.Config) {
		cfg.Token = func(context.Context, string) (string, error) { return "", errors.New("no luck") }
	})
	if _, _, err := ask(t, c, hello()); !errors.Is(err, llm.ErrAuth) || !strings.Contains(err.Error(), "no luck") {
		t.Errorf("Generate = %v", err)
	}
}
