package transport_test

import (
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

func TestEscape(t *testing.T) {
	for id, want := range map[string]string{
		"":               "_",
		"_":              "=5F",
		"__":             "__",
		"weather-agent2": "weather-agent2",
		"a.b":            "a=2Eb",
		"a=2Eb":          "a=3D2Eb",
		"*":              "=2A",
		">":              "=3E",
		"agent:echo":     "agent=3Aecho",
		"é":              "=C3=A9",
	} {
		if got := transport.Escape(id); got != want {
			t.Errorf("Escape(%q) = %q, want %q", id, got, want)
		}
		if got, err := transport.Unescape(want); got != id || err != nil {
			t.Errorf("Unescape(%q) = %q, %v, want %q", want, got, err, id)
		}
	}
}

// TestUnescapeRefuses checks that an id has only one token: with two tokens an inbox would have two subjects.
func TestUnescapeRefuses(t *testing.T) {
	for _, token := range []string{"", "=", "=2", "=2e", "=61", "=zz", "a.b", "a b", "a=5F", "é", "=5F=5"} {
		if id, err := transport.Unescape(token); err == nil {
			t.Errorf("Unescape(%q) = %q, want an error", token, id)
		}
	}
}

func FuzzEscape(f *testing.F) {
	for _, id := range []string{"", "_", "a", "a.b", "a=2Eb", "日本語", "*", ">", "\xff", "=", "=5F", strings.Repeat("é", transport.MaxID/2)} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		token := transport.Escape(id)
		if token == "" || strings.ContainsAny(token, ".*> \t\r\n,/\\") {
			t.Errorf("Escape(%q) = %q is no legal token", id, token)
		}
		if got, err := transport.Unescape(token); got != id || err != nil {
			t.Errorf("Unescape(Escape(%q)) = %q, %v", id, got, err)
		}
		// The same text as a token stands for one id, or for none.
		if other, err := transport.Unescape(id); err == nil && transport.Escape(other) != id {
			t.Errorf("Unescape(%q) = %q, whose token is %q", id, other, transport.Escape(other))
		}
	})
}
