package nats

import (
	"errors"
	"io"
	"net"
	"testing"
)

// TestListenerIsBounded checks that no more connections are accepted than may be open, however many come at once, and that closing one makes room.
func TestListenerIsBounded(t *testing.T) {
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{Listener: inner, most: 4}
	accepted := make(chan net.Conn, 100)
	done := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				done <- err
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		t.Helper()
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var open []net.Conn // accepted by the server
	for range 4 {
		defer dial().Close()
		open = append(open, receive(t, accepted))
	}
	for range 20 {
		c := dial()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Fatalf("one too many reads %v, want the end", err)
		}
		c.Close()
	}
	if len(accepted) > 0 {
		t.Errorf("%d more were accepted than may be", len(accepted))
	}
	open[1].Close()
	open[2].Close()
	for range 2 {
		defer dial().Close()
		receive(t, accepted)
	}
	inner.Close()
	if err := receive(t, done); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept() = %v when it is closed", err)
	}
}
