package mcp

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// TestAuthClientStaysOutside checks that a server elsewhere cannot have a private address asked.
func TestAuthClientStaysOutside(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	for server, want := range map[string]string{"https://192.0.2.1/mcp": "is an address of this network", "http://127.0.0.1/mcp": ""} {
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
	for ip, want := range map[string]bool{"10.1.2.3": true, "169.254.169.254": true, "100.64.0.1": true, "::1": true, "fd00::1": true, "::ffff:10.0.0.1": true, "0.0.0.0": true, "1.1.1.1": false, "2606:4700::1": false} {
		if got := isPrivate(netip.MustParseAddr(ip)); got != want {
			t.Errorf("isPrivate(%s) = %v, want %v", ip, got, want)
		}
	}
}
