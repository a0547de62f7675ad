package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/endpoint"
)

// TestBearer checks which tokens are asked for and sent, to an endpoint that accepts one of them.
func TestBearer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		tokens []string // in the order in which they are given
		status int
		sent   []string
		asked  []string // what was refused
	}{
		{"accepted", []string{"good"}, 200, []string{"good"}, []string{""}},
		{"refused once", []string{"old", "good"}, 200, []string{"old", "good"}, []string{"", "old"}},
		{"refused twice", []string{"old", "older"}, 401, []string{"old", "older"}, []string{"", "old"}},
		{"the same again", []string{"old", "old"}, 401, []string{"old"}, []string{"", "old"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var sent, asked []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || string(body) != "the question" {
					t.Errorf("the body is %q: %v", body, err)
				}
				token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
				sent = append(sent, token)
				if token != "good" {
					w.WriteHeader(http.StatusUnauthorized)
				}
			}))
			defer server.Close()
			c := &http.Client{}
			b := endpoint.NewBearer(c, func(_ context.Context, refused string) (string, error) {
				asked = append(asked, refused)
				return tt.tokens[len(asked)-1], nil
			})
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("the question"))
			if err != nil {
				t.Fatal(err)
			}
			response, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close() //nolint:errcheck // it is empty
			if response.StatusCode != tt.status || !slices.Equal(sent, tt.sent) || !slices.Equal(asked, tt.asked) {
				t.Errorf("status %d, sent %q, asked %q; want %d, %q, %q", response.StatusCode, sent, asked, tt.status, tt.sent, tt.asked)
			}
			if r.Header.Get("Authorization") != "" {
				t.Error("the request is modified")
			}
			hidden := b.Hide([]string{"static"})
			if slices.ContainsFunc(append(tt.sent, "static"), func(s string) bool { return !slices.Contains(hidden, s) }) {
				t.Errorf("errors would not show %q", hidden)
			}
		})
	}
}

// TestNoToken checks the errors of calls for which there is no token.
func TestNoToken(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx    context.Context
		token  string
		err    error
		second bool // the first token is refused
		kind   error
		says   string
	}{
		"an error":      {err: errors.New("az: exit status 1: Run 'az login'."), kind: llm.ErrAuth, says: "Run 'az login'."},
		"after a 401":   {err: errors.New("Run 'az login'."), second: true, kind: llm.ErrAuth, says: "refuses the token, and there is no other: Run 'az login'."},
		"too slow":      {err: fmt.Errorf("az: %w", context.DeadlineExceeded), kind: llm.ErrUnavailable, says: "az: "},
		"its own kind":  {err: &llm.Error{Kind: llm.ErrQuota, Message: "Used up."}, kind: llm.ErrQuota, says: "Used up."},
		"empty":         {kind: llm.ErrAuth, says: "token"},
		"a line break":  {token: "abc\r\nX-A: b", kind: llm.ErrAuth, says: "token"},
		"the call ends": {ctx: canceled, err: context.Canceled, kind: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
			defer server.Close()
			c := &http.Client{}
			endpoint.NewBearer(c, func(_ context.Context, refused string) (string, error) {
				if tt.second && refused == "" {
					return "first", nil
				}
				return tt.token, tt.err
			})
			ctx := t.Context()
			if tt.ctx != nil {
				ctx = tt.ctx
			}
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("the question"))
			if err != nil {
				t.Fatal(err)
			}
			response, err := c.Do(r)
			if err == nil {
				_ = response.Body.Close()
			}
			u, _ := url.Parse(server.URL)
			if tt.ctx == nil {
				err = endpoint.NetworkError(err, u)
			}
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) || (tt.ctx == nil && errors.Is(err, context.DeadlineExceeded)) {
				t.Errorf("Do = %v, want %v and %q", err, tt.kind, tt.says)
			}
			if e, ok := errors.AsType[*llm.Error](err); ok && tt.second != (e.Status == http.StatusUnauthorized) {
				t.Errorf("the status is %d", e.Status)
			}
		})
	}
}
