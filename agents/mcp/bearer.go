package mcp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/cortex-orchestrator/cortex/internal/httpclient"
	"github.com/cortex-orchestrator/cortex/internal/publicnet"
)

// maxChallenge bounds the WWW-Authenticate headers that are kept, in bytes.
const maxChallenge = 4 << 10

// send sends a request with the token of the login. If the server refuses the token, it is refreshed once. A request that was refused was not
// processed, so it can be sent again.
func (l *login) send(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	refused := ""
	for {
		token, err := l.token(r.Context(), refused)
		if err != nil {
			closeBody(r)
			return nil, &refusedError{text: err.Error()}
		}
		one := r.Clone(r.Context())
		if refused != "" && r.GetBody != nil {
			if one.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
		if token != "" {
			one.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := next.RoundTrip(one)
		if err != nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			return resp, err
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusUnauthorized && token != "" && refused == "" && (r.Body == nil || r.GetBody != nil) {
			refused = token
			continue
		}
		return nil, l.refusal(r.Context(), resp)
	}
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// token returns a token that is valid as far as is known and is not the one that the server has refused, or "".
func (l *login) token(ctx context.Context, refused string) (string, error) {
	g, err := l.read()
	if err != nil {
		return "", err
	}
	switch {
	case g.valid() && g.Access != refused:
		return g.Access, nil
	case g.Refresh == "" && g.Access != refused: // the server says whether it is still good
		return g.Access, nil
	case g.Refresh == "":
		return "", nil
	}
	// A refresh that was begun is finished even if nobody waits for it any more: the authorization server may have replaced the token already.
	var token string
	done := make(chan struct{})
	if !l.begin() {
		return "", errAgentClosed
	}
	go func() {
		defer l.refreshing.Done()
		defer close(done)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*refreshTime) // another process may refresh first
		defer cancel()
		err = l.change(ctx, func(g *grant) error {
			if g.valid() && g.Access != refused || g.Refresh == "" { // another process was faster
				token = g.Access
				return nil
			}
			err := l.refresh(ctx, g)
			if token = g.Access; err != nil && token != refused && time.Now().Before(g.Expiry) {
				return nil // it is good for a while
			}
			return err
		})
	}()
	select {
	case <-done:
		return token, err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// refresh replaces the tokens of a grant. If the authorization server refuses for good, the grant loses them.
func (l *login) refresh(ctx context.Context, g *grant) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	cfg := &oauth2.Config{ClientID: g.ClientID, ClientSecret: g.ClientSecret, Endpoint: oauth2.Endpoint{TokenURL: g.TokenURL, AuthStyle: g.Style}}
	// The package's own refresh sends no resource, which MCP requires. A parameter without a value, here code, counts as omitted.
	options := []oauth2.AuthCodeOption{oauth2.SetAuthURLParam("grant_type", "refresh_token"), oauth2.SetAuthURLParam("refresh_token", g.Refresh)}
	if g.Resource != "" {
		options = append(options, oauth2.SetAuthURLParam("resource", g.Resource))
	}
	t, err := cfg.Exchange(context.WithValue(ctx, oauth2.HTTPClient, l.client), "", options...)
	var answered *oauth2.RetrieveError
	switch {
	case err == nil:
		return g.take(t)
	case errors.As(err, &answered) && slices.Contains([]string{"invalid_grant", "invalid_client", "unauthorized_client", "invalid_target"}, answered.ErrorCode):
		g.Access, g.Refresh, g.Ended = "", "", answered.ErrorCode
		return nil
	}
	return fmt.Errorf("the login cannot be refreshed: %w", plainAuth(err))
}

// refusal records that the server wants a login, and returns the error for its response.
func (l *login) refusal(ctx context.Context, resp *http.Response) error {
	var missing string // rights
	challenges, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("Www-Authenticate"))
	scoped := err == nil && slices.ContainsFunc(challenges, func(c oauthex.Challenge) bool {
		missing = c.Params["scope"]
		return c.Scheme == "bearer" && c.Params["error"] == "insufficient_scope"
	})
	if resp.StatusCode == http.StatusForbidden && !scoped {
		return &refusedError{text: resp.Status}
	}
	wants := &refusal{Status: resp.StatusCode}
	size := 0
	for _, v := range resp.Header.Values("Www-Authenticate") {
		if size += len(v); size <= maxChallenge {
			wants.Authenticate = append(wants.Authenticate, v)
		}
	}
	l.setRefused(true)
	g, err := l.read()
	if err == nil && !wants.equal(g.Refusal) {
		err = l.change(ctx, func(now *grant) error {
			now.Refusal = wants
			g = now
			return nil
		})
	}
	if err != nil {
		return &refusedError{text: fmt.Sprintf("%s: %s", resp.Status, err)}
	}
	text := resp.Status + ": it wants a login: " + l.hint(g) + ", or give a token in the headers of the configuration or in " + TokenVar
	switch {
	case scoped:
		text = strings.TrimSpace(resp.Status+": it wants more rights "+printable(missing)) + ": " + l.hint(g)
	case g.Ended != "":
		text = resp.Status + ": the login has ended (" + g.Ended + "): " + l.hint(g)
	case g.Access != "":
		text = resp.Status + ": it does not accept the login: " + l.hint(g)
	}
	return &refusedError{text: text, scoped: scoped}
}

func (r *refusal) equal(other *refusal) bool {
	return other != nil && r.Status == other.Status && slices.Equal(r.Authenticate, other.Authenticate)
}

// refusedError reports that a request was refused for want of a login, a token or rights, or not sent: the server did not process it.
type refusedError struct {
	text   string
	scoped bool // other requests may be accepted
}

func (e *refusedError) Error() string { return e.text }

// newAuthClient returns a client for the authorization servers that a server names. They are strangers' words: redirects to other hosts are
// not followed, and private addresses are not asked unless the server itself has one.
func newAuthClient(server *url.URL) *http.Client {
	t := httpclient.NewTransport(4)
	proxy, err := t.Proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: "example.com"}})
	if err == nil && proxy == nil { // else the proxy decides
		dialer := &net.Dialer{Timeout: 10 * time.Second}
		dialer.ControlContext = func(ctx context.Context, _, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || !publicnet.Is(at.Addr()) && !inside(ctx, server, t.TLSClientConfig) {
				return fmt.Errorf("%s is an address of this network, and the server is outside", address)
			}
			return nil
		}
		t.DialContext = dialer.DialContext
	}
	return &http.Client{
		Transport: t, Timeout: refreshTime,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if from := via[0]; from.Method != http.MethodGet || r.URL.Scheme != from.URL.Scheme || r.URL.Host != from.URL.Host || len(via) > 3 {
				return fmt.Errorf("it redirects to %s, which is not followed", printable(r.URL.Host))
			}
			return nil
		},
	}
}

// inside reports whether a server is in this network: it is this machine, or shows its certificate at an address of a private network. What its name
// is resolved to says nothing, since its owner may answer each lookup as they like.
func inside(ctx context.Context, server *url.URL, config *tls.Config) bool {
	if server.Scheme != "https" { // which is for this machine only
		return publicnet.IsLoopback(server.Hostname())
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", net.JoinHostPort(server.Hostname(), cmp.Or(server.Port(), "443")))
	if err != nil {
		return false
	}
	defer c.Close()
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	return err == nil && isInside(at.Addr())
}

// shared are the addresses of networks that share one of the internet (RFC 6598), as those of providers and some clouds.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// isInside reports whether an address is of a network such as this one. That it is none of the internet does not tell that: some of those hold another address,
// and lead to the internet.
func isInside(ip netip.Addr) bool {
	ip = ip.Unmap()
	return ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || shared.Contains(ip)
}
