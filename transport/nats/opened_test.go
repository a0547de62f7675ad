package nats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

// TestOpened holds that a server does not start which has not opened a stream that is in its store: Cortex would make it anew.
func TestOpened(t *testing.T) {
	ended, _, _ := prepareDamage(t, 1)
	n := &node{opts: ServerOptions{Dir: ended}}
	n.start(t)
	defer n.stop()
	names := n.srv.memory.keeps.Names()
	if err := opened(n.srv.current(), append(names, "ABSENT/"+inboxStream)); err != nil || len(names) < 3 { // an account that it has no keys of
		t.Errorf("opened(%v) = %v", names, err)
	}
	if err := opened(n.srv.current(), append(names, "$G/CORTEX_MORE")); err == nil || !strings.Contains(err.Error(), "CORTEX_MORE") {
		t.Errorf("opened = %v, want that CORTEX_MORE is not", err)
	}
}

// TestNotOpened takes a stream from the server between the check and the start. The server does not start, which would delete the stream, and the
// next one has it.
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
