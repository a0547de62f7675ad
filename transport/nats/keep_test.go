package nats

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestKeepInEveryFile handles one event after the other, so that the inbox is often empty, and checks that the server stays in the same file: an
// empty work queue begins a new one at every acknowledgement.
func TestKeepInEveryFile(t *testing.T) {
	n := newNode(t, ServerOptions{})
	b := n.dial(t, nil)
	got := make(chan *transport.Event, 1)
	serveTopic(t, b, orchestratorInbox, nil, func(e *transport.Event) error { got <- e; return nil })
	const size, events = 8 << 10, 1500 // more than one file of 8 MB
	words := strings.Repeat("w", size)
	first := newestBlock(t, n)
	for range events {
		publish(t, b, orchestratorInbox, "c", words)
		receive(t, got)
	}
	if begun := newestBlock(t, n) - first; begun == 0 || begun > 2*keepEvery {
		t.Errorf("%d files were begun for %d events, want one for 8 MB and a few until the next keep message", begun, events)
	}
}

// newestBlock returns the number of the inbox's newest file.
func newestBlock(t *testing.T, n *node) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(n.opts.Dir, "jetstream", "*", "streams", inboxStream, "msgs", "*.blk"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no file of the inbox: %v", err)
	}
	newest := 0
	for _, f := range files {
		newest = max(newest, number(f))
	}
	return newest
}
