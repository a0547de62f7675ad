package publicnet_test

import (
	"net/url"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/publicnet"
)

// TestHost checks that a name is another host's if HTTP looks it up as another one.
func TestHost(t *testing.T) {
	for name, want := range map[string]string{
		"Hooks.Internal": "hooks.internal", "hoo\u212as.internal": "hooks.internal", "hooks.\u0130nternal": "hooks.xn--internal-o0e", "BÜCHER.example": "xn--bcher-kva.example",
		"[::1]": "[::1]", "127.0.0.1:80": "127.0.0.1:80", "": "", "\u0130 x": "\u0130 x",
	} {
		if got := publicnet.Host(name); got != want {
			t.Errorf("Host(%q) = %q, want %q", name, got, want)
		}
	}
}

// TestOrigin checks that URLs are of one origin if a client would ask the same server.
func TestOrigin(t *testing.T) {
	for text, want := range map[string]string{
		"HTTPS://Example.com:443/a": "https://example.com", "http://example.com:80": "http://example.com", "http://example.com:443": "http://example.com:443",
		"https://example.com:8443/": "https://example.com:8443", "http://[::1]:80/x": "http://[::1]", "http://[::1]:8080/x": "http://[::1]:8080",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := publicnet.Origin(u); got != want {
			t.Errorf("Origin(%q) = %q, want %q", text, got, want)
		}
	}
}
