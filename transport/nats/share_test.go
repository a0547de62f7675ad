package nats

import (
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// TestOnePersonHasAShare makes a person open too many connections, and then not read what is sent to them.
func TestOnePersonHasAShare(t *testing.T) {
	dir := keys(t)
	n := newNode(t, ServerOptions{Auth: dir, Listen: "127.0.0.1:0"})
	creds := userCreds(t, dir, "", "bob")
	who, err := auth.Read(creds)
	if err != nil {
		t.Fatal(err)
	}
	const deafOnes = 30 // together they exceed their limit before any single one does
	var stop atomic.Bool
	end := make(chan struct{})
	defer close(end)
	var all []*natsgo.Conn
	toldAtOnce := false // there are too many connections while it connects
	for i := range maxEach + 10 {
		nc, err := natsgo.Connect(n.srv.URL(), natsgo.UserCredentials(creds), natsgo.NoReconnect(), natsgo.SetCustomDialer(deafDialer{&stop, end}))
		if toldAtOnce = err != nil && i >= maxEach; toldAtOnce {
			continue
		}
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
	eventually(t, "who came last hears that", func() bool { return toldAtOnce || all[len(all)-1].IsClosed() })
	if all[0].IsClosed() {
		t.Error("who came first is closed")
	}
	stop.Store(true)
	cortex := n.dial(t, nil)
	for range 400 { // the machine buffers some of it, too
		if open, unread := took(); open < maxEach || unread > maxEachUnread {
			break
		}
		if err := cortex.nc.Conn.Publish(auth.Replies(who)+".x", make([]byte, 128<<10)); err != nil {
			t.Fatal(err)
		}
		if err := cortex.nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "what is not read is in bounds", func() bool {
		open, unread := took()
		return open < maxEach && unread <= maxEachUnread
	})
	if open, _ := took(); open <= maxEach-deafOnes {
		t.Errorf("%d connections are left of %d, want some of those that do not read", open, maxEach)
	}
}

// deafDialer makes connections that are not read after stop, until end.
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

// TestManyKeepLessEach makes a person with many connections read none of them. With few, the server buffers more for each.
func TestManyKeepLessEach(t *testing.T) {
	dir := keys(t)
	n := newNode(t, ServerOptions{Auth: dir, Listen: "127.0.0.1:0"})
	cortex := n.dial(t, nil)
	end := make(chan struct{})
	defer close(end)
	for name, few := range map[string]bool{"ada": true, "bob": false} {
		creds := userCreds(t, dir, "", name)
		who, err := auth.Read(creds)
		if err != nil {
			t.Fatal(err)
		}
		var stop atomic.Bool
		deaf, err := natsgo.Connect(n.srv.URL(), natsgo.UserCredentials(creds), natsgo.NoReconnect(), natsgo.SetCustomDialer(deafDialer{&stop, end}))
		if err != nil {
			t.Fatal(err)
		}
		defer deaf.Close()
		if _, err := deaf.SubscribeSync(auth.Replies(who) + ".x"); err != nil {
			t.Fatal(err)
		}
		if err := deaf.Flush(); err != nil {
			t.Fatal(err)
		}
		cid, err := deaf.GetClientID()
		if err != nil {
			t.Fatal(err)
		}
		stop.Store(true)
		for range maxEachHeld / leastPending {
			if few {
				break
			}
			nc, err := natsgo.Connect(n.srv.URL(), natsgo.UserCredentials(creds), natsgo.NoReconnect())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
		}
		ns := n.srv.current()
		if !few {
			eventually(t, "less is kept", func() bool { return pendingOf(t, ns, cid) == leastPending })
		}
		for range 16 {
			if err := cortex.nc.Conn.Publish(auth.Replies(who)+".x", make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
		}
		if err := cortex.nc.Flush(); err != nil {
			t.Fatal(err)
		}
		open := func() bool {
			list, err := ns.Connz(&server.ConnzOptions{CID: cid})
			return err == nil && len(list.Conns) == 1
		}
		if few && !open() {
			t.Errorf("%s is closed", name)
		}
		if !few {
			eventually(t, "who does not read is closed", func() bool { return !open() })
		}
	}
}

// pendingOf returns the number that setPending has set.
func pendingOf(t *testing.T, ns *server.Server, cid uint64) int {
	t.Helper()
	c := reflect.ValueOf(ns.GetClient(cid))
	if c.IsNil() {
		t.Fatalf("connection %d is gone", cid)
	}
	lock := (*sync.RWMutex)(c.Elem().FieldByName("mu").Addr().UnsafePointer())
	lock.RLock()
	defer lock.RUnlock()
	return int(c.Elem().FieldByName("out").FieldByName("mp").Int())
}

// TestSendersAreReadAtTheirPace makes a person send as fast as possible. The server reads no faster than the limits, and closes no connection:
// neither the senders' nor the orchestrator's, which receives everything.
func TestSendersAreReadAtTheirPace(t *testing.T) {
	dir := keys(t)
	n := newNode(t, ServerOptions{Auth: dir, Listen: "127.0.0.1:0"})
	cortex := n.dial(t, nil)
	sub, err := cortex.Subscribe(t.Context(), transport.Inbox("", transport.Cortex), nil) // opens the gateway
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	creds := userCreds(t, dir, "", "bob")
	who, err := auth.Read(creds)
	if err != nil {
		t.Fatal(err)
	}
	const senders, each, size = 8, 12, 4 << 20
	var all sync.WaitGroup
	var conns []*natsgo.Conn
	for range senders {
		nc, err := natsgo.Connect(n.srv.URL(), natsgo.UserCredentials(creds), natsgo.NoReconnect())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		conns = append(conns, nc)
	}
	begin := time.Now()
	for _, nc := range conns {
		all.Go(func() {
			for range each {
				if err := nc.Publish(auth.Gateway(who)+"x", make([]byte, size)); err != nil {
					t.Error(err)
				}
			}
			if err := nc.FlushTimeout(patience); err != nil {
				t.Errorf("who sends is closed: %v", err)
			}
		})
	}
	all.Wait()
	took := time.Since(begin)
	if most := senders*(newBurst+64<<10) + eachBurst + eachPace*took.Seconds(); senders*each*size > most {
		t.Errorf("%d bytes were read in %v, want at most %.0f", senders*each*size, took, most)
	}
	if list, err := n.srv.current().Connz(&server.ConnzOptions{State: server.ConnClosed}); err != nil || len(list.Conns) > 0 {
		t.Errorf("%d connections were closed, %v", len(list.Conns), err)
	}
	if v, err := n.srv.current().Varz(nil); err != nil || v.SlowConsumers > 0 {
		t.Errorf("%d connections did not read what they were sent, %v", v.SlowConsumers, err)
	}
	d := cortex.gateways[""]
	for what, nc := range map[string]*natsgo.Conn{"the orchestrator's": cortex.nc.Conn, "the gateway's": d.nc.Conn, "the gateway's for counts": d.counts.Conn} {
		if lost := nc.Stats().Reconnects; lost > 0 || !nc.IsConnected() {
			t.Errorf("%s connection was lost %d times", what, lost)
		}
	}
}

// TestAnswersAreHeardOnce makes a person subscribe many times to the same answer.
func TestAnswersAreHeardOnce(t *testing.T) {
	dir := keys(t)
	n := newNode(t, ServerOptions{Auth: dir})
	bus, s, _ := startService(t, n)
	begin(t, s, "c1")
	w := &town{node: n, dir: dir}
	eve := w.intruder(t, userCreds(t, dir, "", "eve"))
	for _, test := range []struct {
		listens int
		refused bool
	}{{maxCopies, false}, {maxCopies + 1, true}, {15, true}} {
		for i, request := range []string{`{"seq":1,"next_by_subj":"cortex.v1.log._.c1"}`, `{"seq":1,"next_by_subj":"cortex.v1.log._.c1","batch":10}`} {
			reply := fmt.Sprintf("%s.r.%d.%d", auth.Replies(eve.who), test.listens, i)
			heard := make(chan *natsgo.Msg, test.listens)
			for range test.listens {
				if _, err := eve.ChanSubscribe(reply, heard); err != nil {
					t.Fatal(err)
				}
			}
			asked := time.Now()
			if err := eve.PublishRequest(auth.Gateway(eve.who)+jsAPI+"DIRECT.GET.CORTEX_LOG", reply, []byte(request)); err != nil {
				t.Fatal(err)
			}
			m := receive(t, heard)
			d := bus.gateways[""]
			paid := float64(test.listens * maxReadBytes)
			if spent := bytePace/2 - d.caller(auth.Gateway(eve.who)+"x").bytes.Tokens() + bytePace*time.Since(asked).Seconds(); strings.Contains(request, "batch") && !test.refused && spent < paid {
				t.Errorf("%d copies of an answer cost %.0f bytes, want at least %.0f", test.listens, spent, paid)
			}
			if spent := personPace/2 - d.caller(auth.Gateway(eve.who)+"x").requests.Tokens() + personPace*time.Since(asked).Seconds(); test.refused && spent < float64(test.listens) {
				t.Errorf("%d copies of a refusal cost as much as %.0f requests", test.listens, spent)
			}
			if status := m.Header.Get("Status"); (status == fmt.Sprint(codeTooMuch)) != test.refused {
				t.Errorf("%d subscriptions hear %q %q", test.listens, status, m.Header.Get("Description"))
			}
		}
	}
}

// TestDialWaitsForRoom dials a server that silently closes the first connections, like a full one.
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
