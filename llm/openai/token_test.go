package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/openai"
)

// TestToken checks that a refused token is replaced, for chat completions, the Responses API and the list of models, also of Azure; and that the
// errors show neither of the tokens.
func TestToken(t *testing.T) {
	for _, cfg := range []openai.Config{{}, {API: "responses"}, {APIVersion: "2024-10-21"}, {APIVersion: "2025-04-01-preview", API: "responses"}} {
		for _, good := range []string{"token-one", "token-two", "none"} {
			var got []string
			server := record(t, func(w http.ResponseWriter, q *http.Request) {
				token := strings.TrimPrefix(q.Header.Get("Authorization"), "Bearer ")
				got = append(got, token)
				if len(q.Header.Values("Api-Key")) > 0 {
					t.Errorf("a key is sent, too: %v", q.Header)
				}
				switch {
				case token != good:
					w.WriteHeader(http.StatusUnauthorized)
					_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": fmt.Sprintf("Bad token %s, after %q.", token, got)}})
				case cfg.API == "responses":
					_, _ = fmt.Fprint(w, events(text("Hello."), completed(said)))
				default:
					_, _ = fmt.Fprint(w, stream(delta(`{"content":"Hello."}`), end("stop")))
				}
			})
			cfg.BaseURL = server.URL
			cfg.Token = func(_ context.Context, refused string) (string, error) {
				return map[string]string{"": "token-one", "token-one": "token-two"}[refused], nil
			}
			c := newClient(t, cfg)
			res := generate(t, c, hi())
			sent := []string{"token-one", "token-two"}
			if good == "token-one" {
				sent = sent[:1]
			}
			if !slices.Equal(got, sent) || (len(server.bodies) == 2 && server.bodies[0] != server.bodies[1]) {
				t.Errorf("%q: sent %q: %q", good, got, server.bodies)
			}
			if good != "none" {
				if res.err != nil || res.text != "Hello." {
					t.Errorf("%q: %+v", good, res)
				}
				continue
			}
			e := failure(t, res, llm.ErrAuth)
			if strings.Contains(e.Error(), "token-") || !strings.Contains(e.Message, "[secret]") {
				t.Errorf("the error shows the tokens: %v", e)
			}
			if cfg.APIVersion == "" {
				if _, err := c.Models(t.Context()); !errors.Is(err, llm.ErrAuth) || strings.Contains(err.Error(), "token-") {
					t.Errorf("Models = %v", err)
				}
			}
		}
	}
}

// TestNoToken checks the error when there is none.
func TestNoToken(t *testing.T) {
	server := record(t, func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") })
	c := newClient(t, openai.Config{BaseURL: server.URL + "/v1", Token: func(context.Context, string) (string, error) {
		return "", errors.New("az: exit status 1: Run 'az login'.")
	}})
	if e := failure(t, generate(t, c, hi()), llm.ErrAuth); e.Message != "az: exit status 1: Run 'az login'." {
		t.Errorf("the error is %v", e)
	}
	for name, cfg := range map[string]openai.Config{
		"a key":    {Key: "sk-1"},
		"a header": {Headers: map[string]string{"authorization": "Basic abcd"}},
	} {
		cfg.Model, cfg.Token = "m", fixed("t")
		if _, err := openai.New(cfg); err == nil || !strings.Contains(err.Error(), "token: ") {
			t.Errorf("beside %s: New = %v", name, err)
		}
	}
}
