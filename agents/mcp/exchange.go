package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of what is read of a response. The SDK bounds the events of a stream itself.
const (
	maxBody   = sdk.DefaultMaxEventSize
	maxReason = 64 << 10 // of a response that is an error
)

// postsKey is the key of a call's posts in the context of its requests.
type postsKey struct{}

// posts counts the requests of a call that the server may have processed. An error of the SDK does not say: when a session is gone, it fails all calls
// of the session in the same way, also those that the server has begun.
type posts struct{ n atomic.Int32 }

func withPosts(ctx context.Context, p *posts) context.Context {
	return context.WithValue(ctx, postsKey{}, p)
}

// exchange watches requests for [posts], and bounds their responses.
type exchange struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (x exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	p, _ := r.Context().Value(postsKey{}).(*posts)
	if r.Method != http.MethodPost || p == nil {
		p = &posts{}
	}
	p.n.Add(1)
	resp, err := x.next.RoundTrip(r)
	if err != nil {
		if isRefused(err) || isDial(err) {
			p.n.Add(-1)
		}
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect: // it did not get to the session
		p.n.Add(-1)
	}
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); {
	case resp.StatusCode >= http.StatusMultipleChoices:
		resp.Body = &bounded{ReadCloser: resp.Body, most: maxReason}
	case kind != "text/event-stream":
		resp.Body = &bounded{ReadCloser: resp.Body, most: maxBody}
	}
	return resp, nil
}

// bounded fails after most bytes.
type bounded struct {
	io.ReadCloser
	most, n int64
}

// Read implements [io.Reader].
func (b *bounded) Read(p []byte) (int, error) {
	if b.n > b.most {
		return 0, fmt.Errorf("the response has more than %d bytes", b.most)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.most-b.n+1)])
	b.n += int64(n)
	return n, err
}

// isUnsent reports whether err means that the server did not start the call.
func (p *posts) isUnsent(err error) bool {
	return p.n.Load() == 0 && (errors.Is(err, sdk.ErrSessionMissing) || isRefused(err) || isDial(err))
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
