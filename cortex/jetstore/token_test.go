package jetstore_test

import (
	"regexp"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
)

func TestToken(t *testing.T) {
	tests := []struct{ id, want string }{
		{"", "="},
		{"=", "=3D"},
		{"c-1_Z9", "c-1_Z9"},
		{"user:ann", "user=3Aann"},
		{"a.b*>", "a=2Eb=2A=3E"},
		{"é", "=C3=A9"},
	}
	for _, tt := range tests {
		if got := jetstore.Token(tt.id); got != tt.want {
			t.Errorf("token(%q) = %q, want %q", tt.id, got, tt.want)
		}
	}
	for _, bad := range []string{"=2", "=2e", "=41", "=zz", "a=", "a.b", "a b", "é", "=="} {
		if id, ok := jetstore.Untoken(bad); ok {
			t.Errorf("untoken(%q) = %q, true, want false", bad, id)
		}
	}
}

func FuzzToken(f *testing.F) {
	for _, id := range []string{"", "=", "a", "*.>", "\x00\xff", "日本"} {
		f.Add(id)
	}
	legal := regexp.MustCompile(`^[-_=a-zA-Z0-9]+$`)
	f.Fuzz(func(t *testing.T, id string) {
		token := jetstore.Token(id)
		if !legal.MatchString(token) {
			t.Errorf("token(%q) = %q, which is not one token", id, token)
		}
		if got, ok := jetstore.Untoken(token); !ok || got != id {
			t.Errorf("untoken(token(%q)) = %q, %v", id, got, ok)
		}
	})
}
