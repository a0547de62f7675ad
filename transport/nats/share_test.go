package nats

import (
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// TestOnePersonHasAShare has a person connect more often than anybody may, and then not read what they are sent.
func TestOnePersonHasAShare(t *testing.T) {
	dir := keys(t)
	n := newNode(t, ServerOptions{Auth: dir, Listen: "127.0.0.1:0"})
	creds := userCreds(t, dir, "", "bob")
	who, err := auth.Read(creds)
	if err != nil {
		t.Fatal(err)
	}
	const deafOnes = 12
	var stop atomic.Bool
	end := make(chan struct{})
	defer close(end)
	var all []*natsgo.Conn
	for range maxEach + 10 {
		nc, err := natsgo.Connect(n.srv.URL(), natsgo.UserCredentials(creds), natsgo.NoReconnect(), natsgo.SetCustomDialer(deafDialer{&stop, end}))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if len(all) < deafOnes {
			if _, err := nc.SubscribeSync(auth.Replies(who) + ".x"); err != nil {
				t.Fatal(err)
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, nc)
	}
	took := func() (open, unread int) {
		list, err := n.srv.current().Connz(&server.ConnzOptions{Limit: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list.Conns {
			if c.IP != "" {
				open, unread = open+1, unread+c.Pending
			}
		}
		return open, unread
	}
	eventually(t, "no more than may be are connected", func() bool { open, _ := took(); return open == maxEach })
	eventually(t, "who came last hears that", func() bool { return all[len(all)-1].IsClosed() })
	if all[0].IsClosed() {
		t.Error("who came first is closed")
	}
	stop.Store(true)
	cortex := n.dial(t, nil)
	for range 40 { // each connection has less than a server keeps for one
		if err := cortex.nc.Conn.Publish(auth.Replies(who)+".x", make([]byte, 512<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := cortex.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what is not read is in bounds", func() bool {
		open, unread := took()
		return open < maxEach && unread <= maxEachUnread
	})
	if open, _ := took(); open <= maxEach-deafOnes {
		t.Errorf("%d connections are left of %d, want some of those that do not read", open, maxEach)
	}
}

// deafDialer makes connections that are not read any more when stop says so, until end.
type deafDialer struct {
	stop *atomic.Bool
	end  <-chan struct{}
}

func (d deafDialer) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return &deafConn{c, d}, err
}

type deafConn struct {
	net.Conn
	deafDialer
}

func (c *deafConn) Read(b []byte) (int, error) {
	if c.stop.Load() {
		<-c.end
	}
	return c.Conn.Read(b)
}

// TestDialWaitsForRoom joins a server that ends the first connections without a word, as one does that is full.
func TestDialWaitsForRoom(t *testing.T) {
	n := newNode(t, ServerOptions{Listen: "127.0.0.1:0"})
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer front.Close()
	go func() {
		for i := 0; ; i++ {
			c, err := front.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", n.srv.URL()[len("nats://"):])
			if i < 3 || err != nil {
				c.Close()
				continue
			}
			go func() { _, _ = io.Copy(back, c); back.Close() }()
			go func() { _, _ = io.Copy(c, back); c.Close() }()
		}
	}()
	b, err := Dial(t.Context(), &Options{URL: "nats://" + front.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
