package endpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/cortex-orchestrator/cortex/llm"
)

// Token returns the token for a request. refused is "", or the token that the endpoint has just refused: then another one is wanted.
type Token = func(ctx context.Context, refused string) (string, error)

// Bearer sends requests with a token as `Authorization: Bearer`. When the endpoint answers with status 401, it asks once for another token and sends the
// request again.
type Bearer struct {
	token Token
	next  http.RoundTripper

	mu   sync.Mutex
	seen []string // the last tokens
}

// maxSeen bounds how many tokens are remembered for errors. Even calls that last for hours see only a few.
const maxSeen = 16

// maxRefusal bounds how much is read of the answer to a refused token, in bytes: only then the connection can be used again.
const maxRefusal = 64 << 10

// NewBearer makes c send its requests with tokens; c is modified. Without a token it does nothing and returns nil.
func NewBearer(c *http.Client, token Token) *Bearer {
	if token == nil {
		return nil
	}
	b := &Bearer{token: token, next: c.Transport}
	b.next = cmp.Or(b.next, http.DefaultTransport)
	c.Transport = b
	return b
}

// Hide returns what errors must not show: secrets, and the tokens that were sent. b may be nil.
func (b *Bearer) Hide(secrets []string) []string {
	if b == nil {
		return secrets
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Concat(secrets, b.seen)
}

// RoundTrip implements [http.RoundTripper]. Its errors are an [llm.Error] when there is no token.
func (b *Bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := b.fetch(r.Context(), "")
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as the interface demands
		}
		return nil, err
	}
	response, err := b.send(r, r.Body, token)
	if err != nil || response.StatusCode != http.StatusUnauthorized || (r.Body != nil && r.GetBody == nil) {
		return response, err
	}
	other, err := b.fetch(r.Context(), token)
	if err == nil && other == token { // the program that gives it has no other: the endpoint's answer says more
		return response, nil
	}
	_, _ = io.CopyN(io.Discard, response.Body, maxRefusal)
	_ = response.Body.Close()
	if err != nil {
		return nil, err
	}
	body := r.Body
	if body != nil {
		if body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	return b.send(r, body, other)
}

func (b *Bearer) send(r *http.Request, body io.ReadCloser, token string) (*http.Response, error) {
	own := r.Clone(r.Context()) // a RoundTripper must not modify the request
	own.Body = body
	own.Header.Set("Authorization", "Bearer "+token)
	return b.next.RoundTrip(own)
}

// fetch returns a token, and remembers it.
func (b *Bearer) fetch(ctx context.Context, refused string) (string, error) {
	token, err := b.token(ctx, refused)
	if err == nil && (token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })) {
		err = errors.New("what should be a token is empty, or has characters that no token has")
	}
	switch {
	case err == nil:
		b.remember(token)
		return token, nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	}
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		e = &llm.Error{Kind: llm.ErrAuth, Message: err.Error()}
		if errors.Is(err, context.DeadlineExceeded) { // not the caller's
			e.Kind = llm.ErrUnavailable
		}
	}
	if refused != "" {
		own := *e
		own.Status, own.Message = http.StatusUnauthorized, fmt.Sprintf("the endpoint refuses the token, and there is no other: %s", e.Message)
		e = &own
	}
	return "", e
}

func (b *Bearer) remember(token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.seen, token) {
		return
	}
	if len(b.seen) == maxSeen {
		b.seen = slices.Delete(b.seen, 0, 1)
	}
	b.seen = append(b.seen, token)
}
