package mcp

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// TestAuthClientStaysOutside checks that a server elsewhere cannot have a private address asked.
func TestAuthClientStaysOutside(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	for server, want := range map[string]string{"https://1.1.1.1/mcp": "is an address of this network", "http://127.0.0.1/mcp": ""} {
		u, err := url.Parse(server)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := newAuthClient(u).Get(web.URL)
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("for %s: %v, want %q", server, err, want)
		}
	}
}

// resolveHere has each name lead to this machine until the test ends.
func resolveHere(t *testing.T) {
	t.Helper()
	l, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	before := net.DefaultResolver
	t.Cleanup(func() {
		net.DefaultResolver = before
		_ = l.Close()
	})
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", l.LocalAddr().String())
	}}
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := l.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil {
				continue
			}
			m.Response, m.Additionals = true, nil
			for _, q := range m.Questions {
				if q.Type == dnsmessage.TypeA {
					head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}})
				}
			}
			if answer, err := m.Pack(); err == nil {
				_, _ = l.WriteTo(answer, from)
			}
		}
	}()
}

// TestNamesThatLeadElsewhere checks that a server is not inside because its name is resolved to a private address, as its owner may have it in between: it has to show its
// certificate there.
func TestNamesThatLeadElsewhere(t *testing.T) {
	resolveHere(t)
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	server := httptest.NewTLSServer(http.NotFoundHandler()) // its certificate is of example.com
	defer server.Close()
	own, ok := server.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatal("a client without a transport")
	}
	port := server.Listener.Addr().(*net.TCPAddr).Port
	for host, inside := range map[string]bool{"example.com": true, "elsewhere.test": false} {
		c := newAuthClient(&url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(port)), Path: "/mcp"})
		if tr, ok := c.Transport.(*http.Transport); ok {
			tr.TLSClientConfig = &tls.Config{RootCAs: own.TLSClientConfig.RootCAs}
		}
		resp, err := c.Get(web.URL)
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != inside {
			t.Errorf("%s: %v, want it to be inside: %v", host, err, inside)
		}
	}
}

// TestIsInside checks that addresses which hold another one, and may lead to the internet, are not taken for those of this network.
func TestIsInside(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": true, "::1": true, "10.1.2.3": true, "::ffff:10.1.2.3": true, "172.16.0.1": true, "192.168.1.1": true, "fd12:3456::1": true, "169.254.1.1": true,
		"fe80::1%eth0": true, "100.64.0.1": true, "8.8.8.8": false, "2606:4700:4700::1111": false, "2002:808:808::1": false, "2001:0:808:808::1": false,
		"64:ff9b::808:808": false, "64:ff9b:1::808:808": false, "198.18.0.1": false, "0.0.0.0": false,
	} {
		if got := isInside(netip.MustParseAddr(address)); got != want {
			t.Errorf("isInside(%s) = %t, want %t", address, got, want)
		}
	}
}

// TestNothingIsRefreshedBehind asks for a token behind the end of an agent: its login is not refreshed, and its folder left as it is.
func TestNothingIsRefreshedBehind(t *testing.T) {
	l := newLogin(t.TempDir(), &url.URL{Scheme: "https", Host: "server.test"})
	kept := &grant{Access: "old", Refresh: "again", Expiry: time.Now().Add(-time.Hour), TokenURL: "https://server.test/token"}
	if err := l.change(t.Context(), func(g *grant) error { *g = *kept; return nil }); err != nil {
		t.Fatal(err)
	}
	refreshed := errors.New("it is refreshed")
	l.client = &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, refreshed }}}
	if _, err := l.token(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "it is refreshed") {
		t.Fatalf("before: %v", err)
	}
	l.wait()
	if _, err := l.token(t.Context(), ""); !errors.Is(err, errAgentClosed) {
		t.Errorf("token = %v, want that the agent has ended", err)
	}
}
