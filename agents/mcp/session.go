package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/internal/httpclient"
	"github.com/cortex-orchestrator/cortex/internal/publicnet"
)

const (
	connectTimeout = 2 * time.Minute // npx may have to download the program first
	listTimeout    = 30 * time.Second
	closeTimeout   = 5 * time.Second
	stopTimeout    = 5 * time.Second  // from the end of a request's context to the end of the request
	keepAlive      = 30 * time.Second // interval of pings to a URL, in revisions that have them
	maxPages       = 100              // of tools/list

	// oldRevision is used for servers that fail when they are asked for their revisions (server/discover).
	oldRevision = "2025-11-25"
)

// session is a connection to a running server.
type session struct {
	*sdk.ClientSession
	program *program // nil for a URL
	ended   chan struct{}
	ending  chan struct{} // closed when it is to end; it goes on with its calls
	lost    atomic.Bool   // it ends, or a call failed with the connection; ended follows
	stop    context.CancelFunc
	once    sync.Once

	calls calls
	skips rate.Sometimes // of what it says: the log has some of them
}

// connect starts or reaches the server and negotiates a revision; "" means the newest one that both support.
func connect(ctx context.Context, s *Server, revision string, o *Options, log *slog.Logger, changed func()) (*session, error) {
	living, stop := context.WithCancel(context.WithoutCancel(ctx)) // the SSE transport ends when it does
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, fmt.Errorf("it did not answer within %v", connectTimeout))
	defer cancel()
	defer context.AfterFunc(ctx, stop)()
	n := &session{
		ended: make(chan struct{}), ending: make(chan struct{}), stop: stop, calls: calls{log: log}, skips: rate.Sometimes{First: 5, Interval: time.Minute},
	}
	var tr sdk.Transport
	var web *exchange // nil for a program
	if s.URL == "" {
		var err error
		if n.program, err = start(s, func(line string) { log.Info("server says", "line", s.hide(line)) }); err != nil {
			stop()
			return nil, err
		}
		tr = owing{n.program.transport(n.skipped)}
		defer context.AfterFunc(ctx, n.program.end)() // unblocks Connect
	} else {
		client := newHTTPClient(s)
		web, _ = client.Transport.(*exchange)
		web.skipped = n.skipped
		if tr = (&sdk.StreamableClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxBody}); s.SSE {
			tr = &sdk.SSEClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxBody}
		}
	}
	options := &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{
			Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{},
		}},
		ElicitationHandler:          n.calls.elicit,
		ProgressNotificationHandler: n.calls.progress,
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { changed() },
		MultiRoundTrip:              &sdk.MultiRoundTripOptions{Disabled: true}, // the user may answer much later
	}
	if s.URL != "" {
		options.KeepAlive, options.KeepAliveFailureThreshold = keepAlive, 3
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "cortex", Version: o.Version}, options)
	var err error
	n.ClientSession, err = client.Connect(living, tr, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		stop()
		if n.program != nil {
			n.program.end()
			if said := n.program.Last(); said != "" {
				err = fmt.Errorf("%w: it says: %s", err, strings.ReplaceAll(said, "\n", " "))
			}
		}
		if web != nil {
			if stray := web.stray.Load(); stray != nil { // the SDK may see the end of the connection first
				err = stray
			}
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, errors.New(s.hide(plainURL(err).Error()))
	}
	go func() {
		_ = n.Wait()
		close(n.ended)
	}()
	if n.program != nil {
		go func() {
			<-n.program.Ended
			_ = n.program.Out.Close() // its children may hold it open
		}()
	}
	return n, nil
}

// skipped says that something of the server is not read, and belongs to no call.
func (n *session) skipped(why string, length int) {
	n.skips.Do(func() { n.calls.log.Warn("what the server says is skipped", "why", why, "bytes", length) })
}

// end ends the session and the server's program.
func (n *session) end() {
	n.lost.Store(true)
	n.once.Do(func() {
		close(n.ending)
		if n.program != nil {
			n.program.end()
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = n.Close() // waits for calls in progress
		}()
		select {
		case <-done:
		case <-time.After(closeTimeout):
		}
		n.stop()
	})
}

// unblock ends the session if a request goes on after its context has ended: when a program does not read its input, the SDK's write to it does not
// end. The returned function says that the request is over.
func (n *session) unblock(ctx context.Context) (over func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-done:
		case <-time.After(stopTimeout):
			n.calls.log.Warn("server does not read what it is sent, and is started again")
			n.end()
		}
	})
	return func() {
		stop()
		close(done)
	}
}

// tools calls keep with each tool of the server until that returns false; more is true if there may be others. A page is not kept when the next one comes:
// a server may say of each tool as much as a message can have.
func (n *session) tools(ctx context.Context, keep func(*sdk.Tool) bool) (more bool, err error) {
	if caps := n.InitializeResult().Capabilities; caps == nil || caps.Tools == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	defer n.unblock(ctx)()
	var p sdk.ListToolsParams
	for range maxPages {
		page := p
		r, err := n.ListTools(ctx, &page)
		if err != nil {
			return false, fmt.Errorf("list the tools: %w", err)
		}
		for _, of := range r.Tools {
			if of != nil && !keep(of) {
				return true, nil
			}
		}
		if p.Cursor = r.NextCursor; p.Cursor == "" {
			return false, nil
		}
	}
	return true, nil
}

// newHTTPClient returns a client that sends the server's headers to the server only, also after a redirect. A call follows no redirect, since the
// server may have begun it: it goes at once where the session's first request was redirected to.
func newHTTPClient(s *Server) *http.Client {
	home, _ := url.Parse(s.URL) // check has parsed it
	x := newExchange(home, &headers{of: s, home: home, next: httpclient.NewTransport(0)})
	x.inResponse = !s.SSE
	return &http.Client{
		Transport: x,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			first := via[0]
			if !isAt(r.URL, home) || len(via) > 3 || postsOf(first) != nil {
				return http.ErrUseLastResponse
			}
			if r.Method == http.MethodPost && *first.URL == *home {
				x.moved.Store(r.URL)
			}
			return nil
		},
	}
}

// isAt reports whether a URL is at the host of another one, by the same scheme.
func isAt(u, home *url.URL) bool { return publicnet.Origin(u) == publicnet.Origin(home) }

// headers adds the server's headers to requests.
type headers struct {
	of   *Server
	home *url.URL
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (h *headers) RoundTrip(r *http.Request) (*http.Response, error) {
	if isAt(r.URL, h.home) {
		r = r.Clone(r.Context())
		for k, v := range h.of.Headers {
			r.Header.Set(k, v)
		}
		if h.of.login != nil {
			return h.of.login.send(h.next, r)
		}
	}
	resp, err := h.next.RoundTrip(r)
	if err == nil && (resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden) {
		_ = resp.Body.Close()
		return nil, &refusedError{text: resp.Status + ": give the token that it wants, in the headers of the configuration or in " + TokenVar}
	}
	return resp, err
}

func isRefused(err error) bool {
	_, ok := errors.AsType[*refusedError](err)
	return ok
}

// plainURL removes the query of the URL in an error.
func plainURL(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%s: %w", shownURL(of.URL), of.Err)
	}
	return err
}
