package memory_test

import (
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
	"github.com/cortex-orchestrator/cortex/transport/transporttest"
)

func TestConformance(t *testing.T) {
	transporttest.Run(t, transporttest.Harness{
		New: func(t *testing.T) transporttest.Node { return newNode(t, nil) },
		Bounded: func(t *testing.T, events int) transporttest.Node {
			return newNode(t, &memory.Options{MaxInbox: events})
		},
	})
}

// node is a world that outlives its clients, as far as memory can: without clients it stands still.
type node struct {
	first *memory.Bus
	open  []*memory.Bus
}

func newNode(t *testing.T, o *memory.Options) *node {
	n := &node{first: memory.New(o)}
	n.open = append(n.open, n.first)
	t.Cleanup(n.closeAll)
	return n
}

func (n *node) Dial(*testing.T) transport.Transport {
	b := n.first.Dial()
	n.open = append(n.open, b)
	return b
}

func (n *node) Restart(*testing.T) { n.closeAll() }

func (n *node) Kill(_ *testing.T, tr transport.Transport) { _ = tr.Close() }

func (n *node) closeAll() {
	for _, b := range n.open {
		_ = b.Close()
	}
	n.open = nil
}
