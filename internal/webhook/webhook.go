// Package webhook posts to URLs that strangers have named, without being led to places where only this machine may go: only to addresses of the public
// internet, over TLS, and never where a redirect points to. Hosts that an operator names are free of the first two.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/publicnet"
)

const (
	// MaxURL bounds a URL, in bytes.
	MaxURL = 2048

	dialTime   = 5 * time.Second
	idleTime   = 30 * time.Second // of a connection
	maxHeaders = 64 << 10         // bytes of an answer's header
	maxRead    = 4 << 10          // bytes that are read of an answer, so that its connection can be used again
)

// Client posts to webhooks. Make one with [New]. It is safe for concurrent use.
type Client struct {
	hosts        Hosts
	agent        string
	timeout      time.Duration
	public, free http.RoundTripper
}

// Options says where a Client may go.
type Options struct {
	// Hosts may have private addresses, and need no TLS: names or addresses, each alone or with a port. See [CheckHost].
	Hosts   []string
	Timeout time.Duration // of a post; 0 means 15 s
	Agent   string        // the header User-Agent
}

// New returns a Client. How much is posted at the same time is for the caller to bound: what waits for a connection would be charged the time that a
// receiver has. It uses no proxy of the environment: an address could not be checked behind it.
func New(o *Options) *Client {
	c := &Client{agent: o.Agent, timeout: o.Timeout, hosts: slices.Clone(o.Hosts)}
	c.timeout = cmp.Or(max(c.timeout, 0), 15*time.Second)
	c.public, c.free = transport(onlyPublic), transport(nil)
	return c
}

// transport returns a transport whose connections check allows. The check sees the address that a name was resolved to.
func transport(check func(context.Context, string, string, syscall.RawConn) error) *http.Transport {
	d := &net.Dialer{Timeout: dialTime, KeepAlive: idleTime, ControlContext: check}
	return &http.Transport{
		DialContext: d.DialContext, TLSHandshakeTimeout: dialTime, ForceAttemptHTTP2: true,
		MaxIdleConns: 16, MaxIdleConnsPerHost: 1, IdleConnTimeout: idleTime, MaxResponseHeaderBytes: maxHeaders,
	}
}

// ErrPrivate is wrapped by the errors for a host that leads to no address of the public internet.
var ErrPrivate = errors.New("it is no address of the public internet")

func onlyPublic(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !publicnet.Is(at.Addr()) {
		return fmt.Errorf("%s: %w", address, ErrPrivate)
	}
	return nil
}

// CheckHost returns an error unless text is a host as [Options] has them.
func CheckHost(text string) error {
	u, err := url.Parse("https://" + text)
	if err != nil || u.Host != text || u.Hostname() == "" || u.User != nil || strings.ContainsAny(text, "*, ") {
		return fmt.Errorf("%q is no host: want a name or an address, with or without a port, such as hooks.internal or 10.0.0.5:8080", text)
	}
	return nil
}

// Plain returns a host as it is compared.
func Plain(host string) string {
	return strings.TrimSuffix(strings.Trim(publicnet.Host(host), "[]"), ".")
}

// Hosts are hosts that the operator has named, alone or with a port.
type Hosts []string

// Have reports whether the host of a URL of http or https is one of them.
func (hs Hosts) Have(u *url.URL) bool {
	name := Plain(u.Hostname())
	return slices.ContainsFunc(hs, func(h string) bool {
		h = Plain(h)
		return h == name || h == Plain(net.JoinHostPort(name, portOf(u))) || h == name+":"+portOf(u)
	})
}

// HostOf returns the host and port of a URL, the same for all ways to write them.
func HostOf(u *url.URL) string { return net.JoinHostPort(Plain(u.Hostname()), portOf(u)) }

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}

// Parse returns the URL in text, or why nothing may be posted to it. Where a name leads is not known before it is dialed.
func (c *Client) Parse(text string) (*url.URL, error) {
	if len(text) > MaxURL {
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed", len(text), MaxURL)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("it is none")
	}
	port, err := strconv.Atoi(portOf(u))
	switch free := c.hosts.Have(u); {
	case u.Scheme != "https" && u.Scheme != "http" || u.Opaque != "" || u.Hostname() == "":
		return nil, errors.New("it is none of https")
	case err != nil || port < 1 || port > 65535:
		return nil, errors.New("its port is none")
	case u.User != nil:
		return nil, errors.New("it has a user in it: give credentials apart from it")
	case u.Fragment != "":
		return nil, errors.New("it has a fragment")
	case free:
		return u, nil
	case u.Scheme != "https":
		return nil, errors.New("it has no TLS: https is needed")
	}
	name := strings.TrimSuffix(publicnet.Host(u.Hostname()), ".")
	ip, err := netip.ParseAddr(name)
	if err != nil && strings.ContainsAny(name, ":%[]") {
		return nil, errors.New("its host is none")
	}
	if err == nil && !publicnet.Is(ip) || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return nil, ErrPrivate
	}
	return u, nil
}

// Error is why a post has failed.
type Error struct {
	Why   string        // without the URL, which may be secret
	Gone  bool          // the receiver wants nothing any more
	After time.Duration // the receiver wants to be left alone for so long; 0 when it says nothing
}

// Error implements error.
func (e *Error) Error() string { return e.Why }

// Post posts body, and returns nil when the receiver has taken it, which is any status from 200 to 299. Of what it answers, little is read. The error is
// an [*Error], or ctx's.
func (c *Client) Post(ctx context.Context, to string, header http.Header, body []byte) error {
	u, err := c.Parse(to)
	if err != nil {
		return &Error{Why: "the URL: " + err.Error()}
	}
	limit, end := context.WithTimeout(ctx, c.timeout)
	defer end()
	r, err := http.NewRequestWithContext(limit, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return &Error{Why: "the URL: it is none"}
	}
	r.Header = header.Clone()
	r.Header.Set("User-Agent", c.agent)
	through := c.public
	if c.hosts.Have(u) {
		through = c.free
	}
	resp, err := through.RoundTrip(r) // which follows no redirects
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Why: fmt.Sprintf("no answer within %v", c.timeout)}
	case err != nil:
		return &Error{Why: err.Error()}
	}
	defer resp.Body.Close()                                        //nolint:errcheck // it was only read
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxRead)) // the status says it all
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return &Error{Why: fmt.Sprintf("it answers %d: redirects are not followed", code)}
	default:
		return &Error{Why: fmt.Sprintf("it answers %d", code), Gone: code == http.StatusGone, After: after(resp.Header.Get("Retry-After"))}
	}
}

// after reads the header Retry-After, in seconds.
func after(text string) time.Duration {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, 24*3600)) * time.Second
}

// Close closes connections that are not in use.
func (c *Client) Close() {
	for _, t := range []http.RoundTripper{c.public, c.free} {
		if t, ok := t.(*http.Transport); ok {
			t.CloseIdleConnections()
		}
	}
}
