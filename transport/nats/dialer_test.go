package nats

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// TestStranger kills a server and starts another one at its address, which clients still know: no client uses it. Over TLS, a server identifies
// itself before the handshake.
func TestStranger(t *testing.T) {
	ca := newAuthority(t)
	own := ca.issue(t, "server", here)
	for name, with := range map[string]struct{ server, client TLS }{"plain": {}, "TLS": {own, ca.with(TLS{})}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := func(listen string) *Server {
				s, err := StartServer(t.Context(), &ServerOptions{Dir: t.TempDir(), Listen: listen, TLS: with.server})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(s.Shutdown)
				return s
			}
			first := start("127.0.0.1:0")
			at := make(chan Place, 1)
			at <- Place{URL: first.URL(), Server: first.ID()}
			asked := make(chan struct{}, 100)
			locate := func() (Place, error) {
				p := <-at
				at <- p
				select {
				case asked <- struct{}{}:
				default:
				}
				return p, nil
			}
			conn := make(chan bool, 10)
			bus, err := Dial(t.Context(), &Options{
				URL: first.URL(), Locate: locate, TLS: with.client, OnConn: func(up bool, _ error) { conn <- up },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer bus.Close()
			first.Shutdown()
			_, address, _ := strings.Cut(first.URL(), "://")
			second := start(address)
			if <-conn {
				t.Fatal("it is connected to a server that has ended")
			}
			for range len(asked) {
				<-asked
			}
			for range 3 { // attempts to connect
				select {
				case <-asked:
				case <-conn:
					t.Fatal("it is connected to a stranger")
				}
			}
			<-at
			at <- Place{URL: second.URL(), Server: second.ID()}
			if up := <-conn; !up {
				t.Fatal("it lost a connection that it did not have")
			}
			if got := bus.Conn().ConnectedServerId(); got != second.ID() {
				t.Errorf("it is connected to %s, want %s", got, second.ID())
			}
		})
	}
}

// TestUnasked restarts a server without keys. A client with credentials refuses it, reports why, and uses the next server that asks for them.
func TestUnasked(t *testing.T) {
	keys, dir := t.TempDir(), t.TempDir()
	if err := auth.Init(keys, ""); err != nil {
		t.Fatal(err)
	}
	start := func(listen, keys string) *Server {
		s, err := StartServer(t.Context(), &ServerOptions{Dir: dir, Listen: listen, Auth: keys})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Shutdown)
		return s
	}
	first := start("127.0.0.1:0", keys)
	address := first.URL()[len("nats://"):]
	conn, barred := make(chan bool, 10), make(chan bool, 10)
	o := &Options{URL: first.URL(), Creds: auth.Admin(keys, ""), OnConn: func(up bool, err error) {
		if errors.Is(err, transport.ErrForbidden) {
			barred <- up
		} else {
			conn <- up
		}
	}}
	bus, err := Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	first.Shutdown()
	second := start(address, "")
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(30 * time.Second); ; <-poll.C {
		if err = bus.Healthy(t.Context()); errors.Is(err, transport.ErrForbidden) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("Healthy() = %v, want %v", err, transport.ErrForbidden)
		}
	}
	if !strings.Contains(err.Error(), "asks nobody for credentials") || receive(t, conn) || len(conn) > 0 {
		t.Errorf("Healthy() = %v, or it is connected", err)
	}
	if receive(t, barred) {
		t.Error("a server that is not gone on with is up")
	}
	if _, err := Dial(t.Context(), o); !errors.Is(err, transport.ErrForbidden) || !strings.Contains(err.Error(), "leave --creds out") {
		t.Errorf("Dial() = %v, want %v", err, transport.ErrForbidden)
	}
	second.Shutdown()
	start(address, keys)
	if up := <-conn; !up {
		t.Fatal("it lost a connection that it did not have")
	}
}

// TestSilent dials a listener that accepts connections but stays silent. Dial ends with its context; otherwise its error says that a program
// answers there.
func TestSilent(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, o := range map[string]*Options{
		"by its address": {URL: "nats://" + l.Addr().String()},
		"by its ID": {URL: "nats://" + l.Addr().String(), Locate: func() (Place, error) {
			return Place{URL: "nats://" + l.Addr().String(), Server: "SOME"}, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan error)
			go func() {
				_, err := Dial(ctx, o)
				ended <- err
			}()
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			stop()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("Dial() = %v, want %v", err, context.Canceled)
			}
			_, err = Dial(t.Context(), o)
			if !errors.Is(err, transport.ErrUnavailable) || !strings.Contains(err.Error(), "takes connections and does not answer") {
				t.Errorf("Dial() = %v, want %v", err, transport.ErrUnavailable)
			}
		})
	}
}

// TestDialerEndsWithItsCaller connects to a silent listener, for which the client itself would wait.
func TestDialerEndsWithItsCaller(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, locate := range map[string]func() (Place, error){
		"by its address": nil,
		"by its ID":      func() (Place, error) { return Place{URL: "nats://" + l.Addr().String(), Server: "SOME"}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended, b := make(chan error, 1), new(Bus)
			go func() {
				c, err := b.dialer(ctx, locate, time.Hour)("tcp", l.Addr().String())
				if err == nil {
					_, err = c.Read(make([]byte, 1)) // like the client
				}
				ended <- err
			}()
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			poll := time.NewTicker(time.Millisecond)
			defer poll.Stop()
			for !b.reached.Load() { // the dialer has connected, too
				<-poll.C
			}
			stop()
			select {
			case err := <-ended:
				if err == nil {
					t.Error("it has read something")
				}
			case <-time.After(patience):
				t.Fatal("it waits, though nobody waits for it")
			}
		})
	}
}

// TestLocate restarts a server at another port, while another program listens on the old one: a client with Locate finds the server, and connects
// to nothing else meanwhile.
func TestLocate(t *testing.T) {
	dir := t.TempDir()
	start := func(dir, listen string) *Server {
		s, err := StartServer(t.Context(), &ServerOptions{Dir: dir, Listen: listen})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Shutdown)
		return s
	}
	first := start(dir, "127.0.0.1:0")
	at := make(chan string, 1)
	at <- first.URL()
	asked := make(chan struct{}, 100)
	locate := func() (Place, error) {
		url := <-at
		at <- url
		select {
		case asked <- struct{}{}:
		default:
		}
		if url == "" {
			return Place{}, errors.New("nobody runs")
		}
		return Place{URL: url}, nil
	}
	conn := make(chan bool, 10)
	bus, err := Dial(t.Context(), &Options{URL: first.URL(), Locate: locate, OnConn: func(up bool, _ error) { conn <- up }})
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()

	<-at
	at <- ""
	first.Shutdown()
	start(t.TempDir(), first.URL()[len("nats://"):]) // another program
	if <-conn {
		t.Fatal("it is connected to a server that has ended")
	}
	for range len(asked) {
		<-asked
	}
	for range 3 { // attempts to connect
		<-asked
	}
	if len(conn) > 0 {
		t.Fatal("it is connected to a stranger")
	}
	second := start(dir, "127.0.0.1:0")
	<-at
	at <- second.URL()
	if up := <-conn; !up {
		t.Fatal("it lost a connection that it did not have")
	}
	if got := bus.Conn().ConnectedServerId(); got == "" {
		t.Error("it is not connected")
	}
	if err := bus.Healthy(t.Context()); err != nil {
		t.Errorf("Healthy() = %v", err)
	}
}
