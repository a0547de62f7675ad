package jetstore_test

import (
	"net"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
)

// busy is a connection on which the server handles nothing between hold and done, as while it searches its files.
type busy struct {
	net.Conn
	hold       atomic.Bool
	held, done chan struct{}
}

func (b *busy) Write(p []byte) (int, error) {
	if b.hold.CompareAndSwap(true, false) {
		close(b.held)
		<-b.done
	}
	return b.Conn.Write(p)
}

type busyServer struct {
	*server.Server
	conn *busy
}

func (s *busyServer) InProcessConn() (net.Conn, error) {
	c, err := s.Server.InProcessConn()
	s.conn = &busy{Conn: c, held: make(chan struct{}), done: make(chan struct{})}
	return s.conn, err
}

// TestReadsHoldNothingUp checks that reads of conversations do not delay appends.
func TestReadsHoldNothingUp(t *testing.T) {
	srv, err := server.NewServer(&server.Options{JetStream: true, StoreDir: t.TempDir(), MaxPayload: 8 << 20, DontListen: true, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	slow := &busyServer{Server: srv}
	reads, err := nats.Connect("", nats.InProcessServer(slow))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reads.Close)
	s, err := jetstore.Open(t.Context(), nc, &jetstore.Options{Reads: reads})
	if err != nil {
		t.Fatal(err)
	}
	last := fill(t, s, 3)

	slow.conn.hold.Store(true)
	loaded := make(chan int)
	go func() {
		defer close(loaded)
		n, err := count(t.Context(), t, s)
		if err != nil {
			t.Errorf("load: %v", err)
		}
		loaded <- n
	}()
	<-slow.conn.held
	if _, err := s.Append(t.Context(), "", "c", last, entry(4)); err != nil {
		t.Errorf("an append while a conversation is read: %v", err)
	}
	select {
	case n := <-loaded:
		t.Errorf("%d entries were read while the server heard nothing", n)
	default:
	}
	close(slow.conn.done)
	if n := <-loaded; n != 4 { // the server got the read after the append
		t.Errorf("%d entries are read, want 4", n)
	}
}
