package cli

import (
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestPaceNeedsKeys has clients for many people with and without keys: only where people show who they are has each a limit.
func TestPaceNeedsKeys(t *testing.T) {
	t.Parallel()
	for sender, want := range map[string]bool{"": false, transport.Cortex: true} {
		n := &node{link: &link{sender: sender}}
		if got := n.forMany().Admit != nil; got != want {
			t.Errorf("with the keys of %q, messages are counted: %v, want %v", sender, got, want)
		}
	}
}
