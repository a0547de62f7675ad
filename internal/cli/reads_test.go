package cli

import (
	"log/slog"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// TestNodeReadsBeside checks that a node reads conversations on a separate connection, which ends with the node's.
func TestNodeReadsBeside(t *testing.T) {
	n := &node{log: slog.New(slog.DiscardHandler), release: func() {}}
	if err := n.open(t.Context(), &settings{program: self, data: t.TempDir(), node: new(nodeSettings)}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.server.Shutdown()
		n.release()
	})
	t.Cleanup(n.link.Close)
	bus := n.bus.(*nats.Bus)
	reads, err := bus.Reads()
	if err != nil {
		t.Fatal(err)
	}
	if reads == bus.Conn() {
		t.Fatal("there is one connection for everything")
	}
	main, before := bus.Conn().Stats().OutMsgs, reads.Stats().OutMsgs
	for _, err := range n.store.Load(t.Context(), "", "c", 0) {
		t.Fatal(err)
	}
	if asked := reads.Stats().OutMsgs - before; asked == 0 {
		t.Error("a conversation was read, and nothing was asked on the connection for that")
	}
	if asked := bus.Conn().Stats().OutMsgs - main; asked != 0 {
		t.Errorf("a conversation was read, and %d messages went over the other connection", asked)
	}
	n.link.Close()
	if !reads.IsClosed() {
		t.Error("the connection for reading is open after the node's is closed")
	}
}
