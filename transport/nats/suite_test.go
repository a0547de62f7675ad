package nats

import (
	"sync"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/transporttest"
)

func TestConformance(t *testing.T) {
	transporttest.Run(t, transporttest.Harness{
		New: func(t *testing.T) transporttest.Node { return newNode(t, ServerOptions{}) },
		Bounded: func(t *testing.T, events int) transporttest.Node {
			n := newNode(t, ServerOptions{})
			n.maxInbox = events
			return n
		},
		Slow: ackWait(transport.Inbox("", "worker")) + 2*time.Second,
	})
}

// node is a separate server in this process, with its clients.
type node struct {
	opts     ServerOptions
	maxInbox int // of its clients

	mu      sync.Mutex
	srv     *Server
	later   []*Server // started by up
	clients []*Bus
}

func newNode(t *testing.T, o ServerOptions) *node {
	t.Helper()
	o.Dir = t.TempDir()
	n := &node{opts: o}
	n.start(t)
	t.Cleanup(func() {
		n.stop()
		for _, srv := range n.later { // they write to the folder until then
			srv.Shutdown()
		}
	})
	return n
}

func (n *node) start(t *testing.T) {
	t.Helper()
	srv, err := StartServer(t.Context(), &n.opts)
	if err != nil {
		t.Fatal(err)
	}
	n.mu.Lock()
	n.srv = srv
	n.mu.Unlock()
}

func (n *node) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, b := range n.clients {
		_ = b.Close()
	}
	n.clients = nil
	n.srv.Shutdown()
}

// Dial connects another client.
func (n *node) Dial(t *testing.T) transport.Transport { return n.dial(t, nil) }

func (n *node) dial(t *testing.T, o *Options) *Bus {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if o == nil {
		o = &Options{MaxInbox: n.maxInbox}
	}
	o.Server = n.srv
	b, err := Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	n.clients = append(n.clients, b)
	return b
}

// Restart ends the clients and the server, and starts another server on the same folder.
func (n *node) Restart(t *testing.T) {
	t.Helper()
	n.stop()
	n.start(t)
}

// Kill closes the client's connection.
func (n *node) Kill(_ *testing.T, tr transport.Transport) { tr.(*Bus).nc.Close() }
