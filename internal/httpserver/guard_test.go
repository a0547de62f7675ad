package httpserver_test

import (
	"net"
	"testing"

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
	defer g.Begin(busy.RemoteAddr())()
	silent := next()
	next()
	if _, err := busy.Write([]byte("x")); err != nil {
		t.Errorf("the connection with a call: %v", err)
	}
	if _, err := silent.Write([]byte("x")); err == nil {
		t.Error("the connection without a call is still open")
	}
}
