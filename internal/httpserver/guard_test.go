package httpserver_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
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

// guarded is a Guard whose connections are in memory.
type guarded struct {
	*httpserver.Guard
	t    *testing.T
	w    *wire
	here []net.Conn // the ends of clients
}

func newGuarded(t *testing.T, most int) *guarded {
	w := newWire()
	return &guarded{Guard: httpserver.NewGuard(w, most, nil), t: t, w: w}
}

// next connects, and returns from where.
func (g *guarded) next() net.Addr {
	g.t.Helper()
	mine, there := net.Pipe()
	from := &net.TCPAddr{Port: len(g.here)}
	g.here = append(g.here, mine)
	go func() { g.w.conns <- named{there, from} }()
	late := time.AfterFunc(time.Minute, func() { g.Close() })
	defer late.Stop()
	if _, err := g.Accept(); err != nil {
		g.t.Errorf("the %d. connection has no place within a minute: %v", len(g.here), err)
	}
	return from
}

// open returns the connections that are open.
func (g *guarded) open() (all []int) {
	for i, c := range g.here {
		c.SetReadDeadline(time.Now().Add(time.Millisecond)) //nolint:errcheck // it may be closed
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			all = append(all, i)
		}
	}
	return all
}

func (g *guarded) end() {
	for _, c := range g.here {
		c.Close()
	}
}

// TestGuardHolds checks that a full Guard closes no connection with a call that is held, however quiet, of those that came first, whatever else they are
// used for, and others while these leave a quarter to them.
func TestGuardHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t, 8)
		var held []net.Addr
		for range 6 {
			held = append(held, g.next())
			g.Hold(held[len(held)-1], "")
		}
		time.Sleep(time.Minute)
		for range 20 {
			g.next() // at once, so that all are new
		}
		if got := g.open(); !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 24, 25}) {
			t.Errorf("open are %v, want those with calls and the last two", got)
		}
		for _, port := range []int{24, 25} {
			g.Hold(&net.TCPAddr{Port: port}, "")
			time.Sleep(time.Second)
		}
		g.Begin(held[0], "")()
		g.Hold(held[1], "")
		time.Sleep(time.Minute)
		for range 4 {
			g.Hold(g.next(), "")
			time.Sleep(500 * time.Millisecond)
		}
		if got := g.open(); !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 28, 29}) {
			t.Errorf("open are %v, want the first six and the last two", got)
		}
		g.end()
	})
}

// TestGuardAndCallsInTurn has one person make a short call after the other by each of their connections, which are all but one, or a few: others get a
// place soon, and nobody else's call ends for that.
func TestGuardAndCallsInTurn(t *testing.T) {
	for name, c := range map[string]struct {
		theirs     int
		call, idle time.Duration
	}{
		"without a pause":     {7, 50 * time.Millisecond, time.Millisecond},
		"mostly at rest":      {7, time.Millisecond, 80 * time.Millisecond},
		"few, beside others'": {3, 50 * time.Millisecond, time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuarded(t, 8)
				var others []int // whose calls last
				for i := range 8 - c.theirs {
					g.Begin(g.next(), fmt.Sprint("other ", i))
					others = append(others, i)
				}
				stop := make(chan struct{})
				var calling sync.WaitGroup
				call := func(from net.Addr) {
					calling.Go(func() {
						for {
							end := g.Begin(from, "one")
							time.Sleep(c.call)
							end()
							select {
							case <-stop:
								return
							case <-time.After(c.idle):
							}
						}
					})
				}
				for range c.theirs {
					time.Sleep(7 * time.Millisecond)
					call(g.next())
				}
				time.Sleep(time.Minute)
				began := time.Now()
				mine := g.next()
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("the next connection waits %v for its place", took)
				}
				defer g.Begin(mine, "ada")()
				for range 20 { // they come again
					call(g.next())
					synctest.Wait()
				}
				open := g.open()
				for _, i := range append(others, 8) {
					if !slices.Contains(open, i) {
						t.Errorf("open are %v: the call %d of somebody else has ended", open, i)
					}
				}
				close(stop)
				calling.Wait()
				g.end()
			})
		})
	}
}

// TestGuardWhereAllOfOneStay has somebody hold as many calls as may stay, and others each make one: a new connection has a place, that of one of these.
func TestGuardWhereAllOfOneStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t, 8)
		for range 6 {
			g.Hold(g.next(), "one")
		}
		for _, who := range []string{"ada", "bob"} {
			g.Begin(g.next(), who)
			time.Sleep(time.Second)
		}
		began := time.Now()
		g.next()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the next connection waits %v for its place", took)
		}
		if got := g.open(); !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 7, 8}) {
			t.Errorf("open are %v, want those that are held, the later of the others and the last", got)
		}
		g.end()
	})
}
