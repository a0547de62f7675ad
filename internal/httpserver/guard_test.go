package httpserver_test

import (
	"errors"
	"net"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/httpserver"
)

// TestGuard checks that a full Guard closes a connection without a call for the next one, and not the one on which a call has begun, though that one is
// older.
func TestGuard(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := httpserver.NewGuard(l, 2, nil)
	defer g.Close() //nolint:errcheck // nothing is lost
	next := func() net.Conn {
		t.Helper()
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		at, err := g.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = at.Close() })
		return at
	}
	busy := next()
	defer g.Begin(busy.RemoteAddr(), "")()
	silent := next()
	next()
	if _, err := busy.Write([]byte("x")); err != nil {
		t.Errorf("the connection with a call: %v", err)
	}
	if _, err := silent.Write([]byte("x")); err == nil {
		t.Error("the connection without a call is still open")
	}
	g.Cut(busy.RemoteAddr().String())
	if _, err := busy.Write([]byte("x")); err == nil {
		t.Error("the connection that was cut is still open")
	}
}

// named is a connection from some address.
type named struct {
	net.Conn
	from net.Addr
}

func (c named) RemoteAddr() net.Addr { return c.from }

// TestGuardHolds checks that a full Guard closes no connection with a call that is held, however quiet, of those that came first, whatever else they are
// used for, and others while these leave a quarter to them.
func TestGuardHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		g := httpserver.NewGuard(w, 8, nil)
		var here []net.Conn // the ends of clients
		next := func() net.Addr {
			t.Helper()
			mine, there := net.Pipe()
			from := &net.TCPAddr{Port: len(here)}
			here = append(here, mine)
			go func() { w.conns <- named{there, from} }()
			if _, err := g.Accept(); err != nil {
				t.Fatal(err)
			}
			return from
		}
		open := func() (all []int) {
			for i, c := range here {
				c.SetReadDeadline(time.Now().Add(time.Millisecond)) //nolint:errcheck // it may be closed
				if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
					all = append(all, i)
				}
			}
			return all
		}
		var held []net.Addr
		for range 6 {
			held = append(held, next())
			g.Hold(held[len(held)-1])
		}
		time.Sleep(time.Minute)
		for range 20 {
			next() // at once, so that all are new
		}
		if got := open(); !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 24, 25}) {
			t.Errorf("open are %v, want those with calls and the last two", got)
		}
		for _, port := range []int{24, 25} {
			g.Hold(&net.TCPAddr{Port: port})
			time.Sleep(time.Second)
		}
		g.Begin(held[0], "")()
		g.Hold(held[1])
		time.Sleep(time.Minute)
		for range 4 {
			g.Hold(next())
			time.Sleep(500 * time.Millisecond)
		}
		if got := open(); !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 28, 29}) {
			t.Errorf("open are %v, want the first six and the last two", got)
		}
		for _, c := range here {
			c.Close()
		}
	})
}
