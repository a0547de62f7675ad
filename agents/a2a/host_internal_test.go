package a2a

import (
	"net/url"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/publicnet"
)

// TestCredentialsOfLookalikes checks that credentials for a host go to that host, however it is written, and to no other whose name only has its small letters.
func TestCredentialsOfLookalikes(t *testing.T) {
	c, err := BearerToken("https://mail.example.com", "s3cret")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"https://MAIL.example.com:443/x": true, "https://mail.example.com": true, "https://ma\u0130l.example.com/": false, "https://ma%C4%B0l.example.com/": false,
		"http://mail.example.com": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.of(publicnet.Origin(u)) != nil; got != want {
			t.Errorf("%s gets credentials: %t", text, got)
		}
		a := &Agent{peer: &Peer{}, home: &url.URL{Scheme: u.Scheme, Host: "mail.example.com"}}
		if got := a.may(u) == nil; got != (want || u.Scheme == "http") {
			t.Errorf("a card at mail.example.com may name %s: %t", text, got)
		}
	}
}
