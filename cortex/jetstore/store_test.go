package jetstore_test

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storetest"
)

// node is a store with the server that it runs on.
type node struct {
	*jetstore.Store
	nc   *nats.Conn
	dir  string
	stop func()
}

// start runs a server on dir and connects to it. stop ends both; the test's end does, too.
func start(t testing.TB, dir string) (nc *nats.Conn, stop func()) {
	t.Helper()
	return startWith(t, server.Options{JetStream: true, StoreDir: dir, MaxPayload: 8 << 20})
}

// startWith runs a server without a port.
func startWith(t testing.TB, o server.Options) (nc *nats.Conn, stop func()) {
	t.Helper()
	o.DontListen, o.NoLog, o.NoSigs = true, true, true
	srv, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	if nc, err = nats.Connect("", nats.InProcessServer(srv)); err != nil {
		t.Fatal(err)
	}
	stop = func() {
		nc.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
	}
	t.Cleanup(stop)
	return nc, stop
}

func open(t testing.TB, dir string) node {
	t.Helper()
	nc, stop := start(t, dir)
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	return node{s, nc, dir, stop}
}

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) cortex.Store { return open(t, t.TempDir()) },
		Reopen: func(t *testing.T, s cortex.Store) cortex.Store {
			n := s.(node)
			n.stop()
			return open(t, n.dir)
		},
	})
}

func BenchmarkStore(b *testing.B) {
	storetest.Bench(b, func(b *testing.B) cortex.Store { return open(b, b.TempDir()) })
}
