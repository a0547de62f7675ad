package nats

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	"golang.org/x/net/nettest"
)

// TestPipe checks that a pipe is a net.Conn like others.
func TestPipe(t *testing.T) {
	nettest.TestConn(t, func() (here, there net.Conn, stop func(), err error) {
		a, b := pipe()
		return a, b, func() { a.Close(); b.Close() }, nil
	})
}

// TestPipeKeepsWhatIsWritten checks that a write returns before it is read, and that everything written is read, also after Close.
func TestPipeKeepsWhatIsWritten(t *testing.T) {
	here, there := pipe()
	var want []byte
	for i := range 1000 {
		word := bytes.Repeat([]byte{byte(i)}, i%200)
		want = append(want, word...)
		if n, err := here.Write(word); n != len(word) || err != nil { // nobody reads
			t.Fatalf("write %d = %d, %v", i, n, err)
		}
	}
	here.Close()
	if got, err := io.ReadAll(there); err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d bytes, %v; want the %d that were written", len(got), err, len(want))
	}
	if _, err := there.Write([]byte("late")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write to an end that is closed = %v", err)
	}
}

// TestPipeIsBounded checks that a writer waits when the buffer is full, and that nothing is lost or out of order then.
func TestPipeIsBounded(t *testing.T) {
	here, there := pipe()
	want := make([]byte, 5*pipeRoom/2)
	for i := range want {
		want[i] = byte(i * 7 / 3)
	}
	go func() {
		here.Write(want) //nolint:errcheck // what is read tells
		here.Close()
	}()
	var got []byte
	for p := make([]byte, 4099); ; {
		n, err := there.Read(p)
		got = append(got, p[:n]...)
		there.in.mu.Lock()
		kept := cap(there.in.bytes)
		there.in.mu.Unlock()
		if kept > 2*pipeRoom {
			t.Fatalf("%d bytes are kept", kept)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, want) {
		t.Errorf("read %d bytes, want the %d that were written", len(got), len(want))
	}
}
