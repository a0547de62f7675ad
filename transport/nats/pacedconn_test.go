package nats

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// guest is the connection of a person, who publishes to the gateway.
type guest struct {
	*natsgo.Conn
	raw  net.Conn
	gate string
	pace *pace
}

// join connects a person.
func join(t *testing.T, n *node, creds string) *guest {
	t.Helper()
	who, err := auth.Read(creds)
	if err != nil {
		t.Fatal(err)
	}
	g := &guest{gate: auth.Gateway(who)}
	g.Conn, err = natsgo.Connect(n.srv.URL(), natsgo.UserCredentials(creds), natsgo.NoReconnect(), natsgo.SetCustomDialer(g))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	eventually(t, "it is known who it is", func() bool {
		n.srv.visits.mu.Lock()
		defer n.srv.visits.mu.Unlock()
		if v := n.srv.visits.open[g.raw.LocalAddr().String()]; v != nil && v.limit.Load().is != nil {
			g.pace = v.limit.Load().pace
		}
		return g.pace != nil
	})
	return g
}

// Dial implements natsgo.CustomDialer.
func (g *guest) Dial(network, address string) (net.Conn, error) {
	var err error
	g.raw, err = net.Dial(network, address)
	return g.raw, err
}

// says makes a person send a message of this size.
func (g *guest) says(t *testing.T, size int) {
	t.Helper()
	if err := g.Publish(g.gate+"x", make([]byte, size)); err != nil {
		t.Error(err)
	}
	if err := g.FlushTimeout(patience); err != nil {
		t.Error(err)
	}
}

// deafServer makes connections in this process that are not read after stop.
type deafServer struct {
	*Server
	deafDialer
}

func (d deafServer) InProcessConn() (net.Conn, error) {
	c, err := d.Server.InProcessConn()
	return &deafConn{c, d.deafDialer}, err
}

// TestSendersWaitForThisProcess does not read a connection of this process for a while, and makes a person send it more than may wait for it. It is
// not closed, and another person's messages come first.
func TestSendersWaitForThisProcess(t *testing.T) {
	dir := keys(t)
	n := newNode(t, ServerOptions{Auth: dir, Listen: "127.0.0.1:0"})
	var stop atomic.Bool
	end := make(chan struct{})
	own, err := natsgo.Connect("", natsgo.InProcessServer(deafServer{n.srv, deafDialer{&stop, end}}), natsgo.UserCredentials(auth.Admin(dir, "")), natsgo.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if _, err := own.Subscribe(auth.GatewayOf("")+">", func(*natsgo.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := own.Flush(); err != nil {
		t.Fatal(err)
	}
	ada, bob := join(t, n, userCreds(t, dir, "", "ada")), userCreds(t, dir, "", "bob")
	guests := []*guest{join(t, n, bob), join(t, n, bob), join(t, n, bob), join(t, n, bob)}
	eventually(t, "own connections are known", func() bool { own := n.srv.visits.own.Load(); return own != nil && len(*own) == 1 })
	stop.Store(true)
	var all sync.WaitGroup
	for _, g := range guests {
		all.Go(func() {
			for range 12 {
				g.says(t, 2<<20)
			}
		})
	}
	slow := func() int64 {
		v, err := n.srv.current().Varz(nil)
		if err != nil {
			t.Fatal(err)
		}
		return v.SlowConsumers
	}
	eventually(t, "who sends waits", func() bool { return guests[0].pace.behind.Tokens() < 0 || slow() > 0 })
	ada.says(t, 1<<20)
	if spare := ada.pace.behind.Tokens(); spare < 0 {
		t.Errorf("another person waits for %v bytes", -spare)
	}
	close(end)
	all.Wait()
	if n := slow(); n > 0 || own.IsClosed() {
		t.Errorf("%d connections were closed since they did not read", n)
	}
	if list, err := n.srv.current().Connz(&server.ConnzOptions{State: server.ConnClosed}); err != nil || len(list.Conns) > 0 {
		t.Errorf("%d connections were closed, %v", len(list.Conns), err)
	}
}

// TestHalfMessagesAreFew makes a person send the beginnings of large messages, for each of which the server reserves the full size. Further ones of
// the same person wait until one is complete; others' do not.
func TestHalfMessagesAreFew(t *testing.T) {
	dir := keys(t)
	n := newNode(t, ServerOptions{Auth: dir, Listen: "127.0.0.1:0"})
	bob := userCreds(t, dir, "", "bob")
	ada, more := join(t, n, userCreds(t, dir, "", "ada")), join(t, n, bob)
	const size, half = 4 << 20, 1 << 20
	var begun []*guest
	for range largeParts {
		g := join(t, n, bob)
		begun = append(begun, g)
		if _, err := g.raw.Write(append(fmt.Appendf(nil, "PUB %sx %d\r\n", g.gate, size), make([]byte, half)...)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "large messages have begun to come", func() bool { return len(more.pace.parts) == largeParts })
	said := make(chan struct{})
	go func() {
		defer close(said)
		more.says(t, size)
	}()
	ada.says(t, size)
	select {
	case <-said:
		t.Error("another large message has come")
	default:
	}
	if _, err := begun[0].raw.Write(append(make([]byte, size-half), "\r\n"...)); err != nil {
		t.Fatal(err)
	}
	receive(t, said)
}

// TestHalfMessagesEnd makes a client stop in the middle of a large message, and continue with small ones.
func TestHalfMessagesEnd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	all, part, p := &pacedConns{}, make([]byte, 0, 4<<20), newEach(personMessage)
	p.silence = time.Millisecond
	v := all.add(c.(*net.TCPConn)).(*pacedConn)
	all.setPace(client.LocalAddr().(*net.TCPAddr).IP.String(), client.LocalAddr().(*net.TCPAddr).Port, &connState{msgs: new(int64), part: &part}, p)
	read := func(want error) {
		t.Helper()
		if _, err := v.Read(make([]byte, 16)); !errors.Is(err, want) {
			t.Errorf("read: %v, want %v", err, want)
		}
	}
	read(os.ErrDeadlineExceeded)
	part = nil
	if _, err := client.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	read(nil)
	if len(p.parts) != 1 {
		t.Errorf("%d parts are taken while the server looks at what was read, want 1", len(p.parts))
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if len(p.parts) != 0 {
		t.Errorf("%d parts are taken at the end", len(p.parts))
	}
}

// TestMessagesArePaidWhenRead makes a person send many small messages: they are read no faster than the pace.
func TestMessagesArePaidWhenRead(t *testing.T) {
	dir := keys(t)
	n := newNode(t, ServerOptions{Auth: dir, Listen: "127.0.0.1:0"})
	bob := join(t, n, userCreds(t, dir, "", "bob"))
	const messages, unpaid = 5000, 1000 // messages of the last read
	begin := time.Now()
	for range messages {
		if err := bob.Publish(bob.gate+"x", nil); err != nil {
			t.Fatal(err)
		}
	}
	bob.says(t, 0)
	if most := eachBurst + eachPace*time.Since(begin).Seconds(); (messages-unpaid)*personMessage > most {
		t.Errorf("%d messages were taken in %v, want at most %.0f", messages, time.Since(begin), most/personMessage)
	}
}

// TestKeysAreAskedOnce identifies the same connections again: the server verifies a key each time that it reports the user.
func TestKeysAreAskedOnce(t *testing.T) {
	s := &shares{keyed: true}
	asked := 0
	for range 3 {
		conns := []*server.ConnInfo{{Cid: 1}, {Cid: 2}, {Cid: 3}}
		s.identify(conns, func(cid uint64) *server.ConnInfo {
			asked++
			return map[uint64]*server.ConnInfo{1: {AuthorizedUser: "ada"}, 2: {AuthorizedUser: "bob"}, 3: nil}[cid]
		})
		if conns[0].AuthorizedUser != "ada" || conns[1].AuthorizedUser != "bob" || conns[2].AuthorizedUser != "" {
			t.Errorf("whose they are: %v", conns)
		}
	}
	if asked != 2+3 {
		t.Errorf("asked %d times, want once of each that is known", asked)
	}
	s.identify(nil, nil)
	if len(s.keys)+len(s.who) > 0 {
		t.Errorf("%d keys are remembered of nobody", len(s.keys)+len(s.who))
	}
}
