package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/internal/rest"
)

// Bounds of what is read of a response.
const (
	maxBody   = sdk.DefaultMaxEventSize // or of an event, if it is a stream; of the text that was compressed
	maxReason = 64 << 10                // of a response that is an error
)

// What a server says without a pause is read at this one: each message is decoded and given to the SDK, which would take a processor from everybody else.
const messagesPerSecond, messagesAtOnce = 1000, 4000

// streamsPerSecond, streamsAtOnce are those of a server that are opened.
const streamsPerSecond, streamsAtOnce = 20, 100

func newPace() *rate.Limiter { return rate.NewLimiter(messagesPerSecond, messagesAtOnce) }

func newExchange(home *url.URL, next http.RoundTripper) *exchange {
	return &exchange{pace: newPace(), opens: rate.NewLimiter(streamsPerSecond, streamsAtOnce), home: home, next: next, skipped: func(string, int) {}}
}

// keepPace waits until n more messages may have been read, or ctx ends.
func keepPace(ctx context.Context, pace *rate.Limiter, n int) error {
	for n > 0 {
		some := min(n, pace.Burst())
		if err := rest.For(ctx, pace.ReserveN(time.Now(), some).Delay()); err != nil {
			return err
		}
		n -= some
	}
	return nil
}

const (
	sessionHeader = "Mcp-Session-Id"
	pingTimeout   = 10 * time.Second
)

// postsKey is the key of a call's posts in the context of its requests.
type postsKey struct{}

// posts counts the requests of a call that the server may have processed. An error of the SDK does not say: when a session is gone, it fails all calls
// of the session in the same way, also those that the server has begun.
type posts struct{ n atomic.Int32 }

// postsOf returns the posts of the call that r makes; nil if it makes none.
func postsOf(r *http.Request) *posts {
	if r.Method != http.MethodPost {
		return nil
	}
	p, _ := r.Context().Value(postsKey{}).(*posts)
	return p
}

// exchange watches requests for [posts], and bounds their responses, and how many answers to the server are on their way. It lets no request go elsewhere:
// by the SSE transport the server itself says where it wants to be asked.
type exchange struct {
	owed  atomic.Int32
	pace  *rate.Limiter                // of what the server says
	opens *rate.Limiter                // of streams, which a server may end at once, and want again at once
	home  *url.URL                     // the server's
	moved atomic.Pointer[url.URL]      // where it has redirected to; nil if it has not
	stray atomic.Pointer[refusedError] // that it wants to be asked elsewhere; nil if it does not
	next  http.RoundTripper

	skipped func(why string, length int) // is told what is skipped

	inResponse bool // calls are answered in the response to them, not in a stream beside it
}

// RoundTrip implements [http.RoundTripper].
func (x *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isAt(r.URL, x.home) {
		closeBody(r)
		err := &refusedError{text: "it wants to be asked at " + printable(shownURL(r.URL.String())) + ", which is not its own host"}
		x.stray.Store(err)
		return nil, err
	}
	if to := x.moved.Load(); to != nil && *r.URL == *x.home {
		r = r.Clone(r.Context())
		r.URL = to
	}
	p := postsOf(r)
	switch {
	case r.Method == http.MethodGet:
		if err := keepPace(r.Context(), x.opens, 1); err != nil {
			return nil, err
		}
	case p != nil:
		p.n.Add(1)
	case r.Method == http.MethodPost: // an answer to the server, most likely
		defer x.owed.Add(-1)
		if x.owed.Add(1) > maxOwed {
			return nil, errOwed
		}
	}
	resp, err := x.next.RoundTrip(r)
	if err != nil {
		if p != nil && (isRefused(err) || isDial(err)) {
			p.n.Add(-1)
		}
		return nil, err
	}
	if status := resp.StatusCode; p != nil && (status == http.StatusNotFound || status == http.StatusBadRequest) && x.expired(r, status) {
		p.n.Add(-1)
		_ = resp.Body.Close()
		resp.Body = http.NoBody // the SDK takes an error of JSON-RPC in it for the server's answer to the call
		resp.StatusCode, resp.Status = http.StatusNotFound, http.StatusText(http.StatusNotFound)
	}
	if p != nil && x.inResponse && isCallsOwn(resp.StatusCode) {
		resp = asError(r, resp)
	}
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); {
	case resp.StatusCode >= http.StatusMultipleChoices:
		resp.Body = &bounded{ReadCloser: resp.Body, most: maxReason}
	case kind == "text/event-stream", !x.inResponse && r.Method == http.MethodGet: // the SDK bounds its events
		events := newFrames(resp.Body, inEvents, x.skipped)
		events.old = !x.inResponse
		resp.Body = &bounded{ReadCloser: events, most: math.MaxInt64 - 1, scale: scale{events: true}, pace: x.pace, ctx: r.Context()}
	default:
		body := newFrames(resp.Body, inBody, x.skipped)
		if x.inResponse && r.Method == http.MethodPost {
			body.call = func() (jsonrpc.ID, bool) { return callIn(r) }
		}
		if x.inResponse && p != nil {
			resp.Header.Set("Content-Type", "application/json") // the SDK ends the connection with any other
		}
		resp.Body = &bounded{ReadCloser: body, most: maxBody}
	}
	return resp, nil
}

// isCallsOwn reports whether a status is about one call: it is refused, or takes too long. With 404 the session may have expired, with 401 and 403 the login, with
// 502 and 503 the server is away.
func isCallsOwn(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusBadGateway, http.StatusServiceUnavailable:
		return false
	}
	return status >= http.StatusBadRequest
}

// asError returns the response to a call that failed by its status as an error of JSON-RPC. By the status the SDK would end the connection, or the session would be
// given up, and with that the calls and the open questions of all others.
func asError(r *http.Request, resp *http.Response) *http.Response {
	id, ok := callIn(r)
	if !ok {
		return resp
	}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxReason))
	_ = resp.Body.Close()
	var said struct{ Error *jsonrpc.Error }
	if json.Unmarshal(b, &said) != nil || said.Error == nil {
		said.Error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the server's answer is " + printable(resp.Status)}
		if resp.StatusCode >= http.StatusInternalServerError {
			said.Error.Message += ": what was asked of it may be done all the same"
		}
	}
	b, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: id, Error: said.Error})
	if err != nil {
		b = nil // the SDK ends the connection
	}
	resp.StatusCode, resp.Status = http.StatusOK, http.StatusText(http.StatusOK)
	resp.Header = http.Header{"Content-Type": {"application/json"}}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	return resp
}

// callIn returns the id of the call in a request.
func callIn(r *http.Request) (id jsonrpc.ID, ok bool) {
	if r.GetBody == nil {
		return id, false
	}
	body, err := r.GetBody()
	if err != nil {
		return id, false
	}
	defer func() { _ = body.Close() }()
	b, err := io.ReadAll(body)
	if err != nil {
		return id, false
	}
	m, err := jsonrpc.DecodeMessage(b)
	if call, is := m.(*jsonrpc.Request); err == nil && is && call.IsCall() {
		return call.ID, true
	}
	return id, false
}

// expired reports whether the session of a call, which got a 404, has expired: then a ping in it gets one, too. Many servers say 400. A server may say the
// same of something else, when it has begun the call.
func (x *exchange) expired(r *http.Request, status int) bool {
	if r.Header.Get(sessionHeader) == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(r.Context(), pingTimeout)
	defer cancel()
	ping, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL.String(), strings.NewReader(`{"jsonrpc":"2.0","id":2147483647,"method":"ping"}`))
	if err != nil {
		return false
	}
	for _, name := range []string{sessionHeader, "Mcp-Protocol-Version", "Content-Type", "Accept"} {
		ping.Header.Set(name, r.Header.Get(name))
	}
	resp, err := x.next.RoundTrip(ping)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == status
}

// bounded fails after most bytes, and for a message that is too heavy.
type bounded struct {
	io.ReadCloser
	most, n int64
	scale   scale
	pace    *rate.Limiter   // of the events of a stream; nil: none
	ctx     context.Context //nolint:containedctx // of the request
}

// Read implements [io.Reader].
func (b *bounded) Read(p []byte) (int, error) {
	if b.n > b.most {
		return 0, fmt.Errorf("the response has more than %d bytes", b.most)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.most-b.n+1)])
	b.n += int64(n)
	if heavy := b.scale.add(p[:n]); heavy != nil {
		return 0, heavy
	}
	if b.pace != nil && keepPace(b.ctx, b.pace, b.scale.takeEnded()) != nil {
		return 0, context.Cause(b.ctx)
	}
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
