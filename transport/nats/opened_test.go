package nats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

// TestOpened checks that StartServer fails when the server has not opened a stream in its store, which Cortex would make anew.
func TestOpened(t *testing.T) {
	ended, _, _ := prepareDamage(t, 1)
	n := &node{opts: ServerOptions{Dir: ended}}
	n.start(t)
	defer n.stop()
	names := n.srv.memory.keeps.Names()
	if err := opened(n.srv.current(), append(names, "ABSENT/"+inboxStream)); err != nil || len(names) < 3 { // an account without keys here
		t.Errorf("opened(%v) = %v", names, err)
	}
	if err := opened(n.srv.current(), append(names, "$G/CORTEX_MORE")); err == nil || !strings.Contains(err.Error(), "CORTEX_MORE") {
		t.Errorf("opened = %v, want that CORTEX_MORE is not", err)
	}
}

// TestNotOpened makes a stream unreadable between the check and the start. The start fails instead of losing the stream, and the next server has
// it.
func TestNotOpened(t *testing.T) {
	ended, _, _ := prepareDamage(t, 1)
	key := filepath.Join(ended, "jetstream", "$G", "streams", deadStream, "meta.key")
	_, err := StartServer(t.Context(), &ServerOptions{Dir: ended, Inspect: func(_, stream string, _ uint64) func(*storecheck.Record) {
		if stream == agentsStream { // the other one was checked before
			if err := os.WriteFile(key, nil, 0o600); err != nil {
				t.Error(err)
			}
		}
		return nil
	}})
	if err == nil || !strings.Contains(err.Error(), "has not opened stream "+deadStream) {
		t.Fatalf("StartServer = %v, want that it has not opened %s", err, deadStream)
	}
	n := &node{opts: ServerOptions{Dir: ended}}
	n.start(t)
	defer n.stop()
	if got := len(dead(t, n.dial(t, nil))); got != 1 {
		t.Errorf("%d dead letters, want 1", got)
	}
}
