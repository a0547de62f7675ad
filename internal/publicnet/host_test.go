package publicnet_test

import (
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
