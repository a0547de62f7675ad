package mcp

import (
	"context"
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/cortex-orchestrator/cortex/internal/httpserver"
)

// callbackConnections bounds the connections to the page that a browser returns to. A browser opens some in advance.
const callbackConnections = 16

// callback serves the page of this machine to which the browser returns with the code of a login.
type callback struct {
	url, host string
	stop      context.CancelFunc
	served    chan struct{}

	mu    sync.Mutex
	state string // of the login that is waited for; "" is none
	found chan answered
}

// answered is what the browser brings.
type answered struct {
	result *auth.AuthorizationResult
	err    error
}

// listen begins to serve the page on a port of 127.0.0.1; 0 is any.
func listen(ctx context.Context, port int) (*callback, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("no port for the browser to return to: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	c := &callback{host: l.Addr().String(), stop: stop, served: make(chan struct{})}
	c.url = "http://" + c.host + "/callback"
	go func() {
		defer close(c.served)
		_ = httpserver.Serve(ctx, l, c, &httpserver.Options{Connections: callbackConnections}) // wait ends with ctx, too
	}()
	return c, nil
}

func (c *callback) close() {
	c.stop()
	<-c.served
}

// wait calls begin and waits for the browser to return with the given state. What returns with another one is ignored, since any page can send a
// browser here.
func (c *callback) wait(ctx context.Context, state string, begin func()) (*auth.AuthorizationResult, error) {
	found := make(chan answered, 1)
	c.mu.Lock()
	c.state, c.found = state, found
	c.mu.Unlock()
	begin()
	select {
	case a := <-found:
		return a.result, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.served:
		return nil, fmt.Errorf("the page at %s has ended", c.url)
	}
}

// ServeHTTP implements [http.Handler].
func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for k, v := range map[string]string{
		"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
	} {
		w.Header().Set(k, v)
	}
	if r.Method != http.MethodGet || r.URL.Path != "/callback" || r.Host != c.host {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	q := r.URL.Query()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == "" || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(c.state)) == 0 {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "This is no answer to a login that Cortex waits for.\n")
		return
	}
	c.state = ""
	a := answered{result: &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}}
	words := "Cortex has the answer: go back to it. This page can be closed.\n"
	if a.result.Code == "" {
		a.err = fmt.Errorf("the authorization server refuses: %s", printable(q.Get("error")+" "+q.Get("error_description")))
		words = "No login: Cortex says why.\n"
	}
	_, _ = io.WriteString(w, words)
	c.found <- a
}
