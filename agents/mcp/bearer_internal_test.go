package mcp

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
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
