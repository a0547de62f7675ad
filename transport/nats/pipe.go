package nats

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/nats-io/nats-server/v2/server"
)

// createClientInProcess has a server accept a connection from its own process. [server.Server.InProcessConn] does so with a [net.Pipe] only, and
// nothing else is exported. With a server that has no such method the program does not link.
//
//go:linkname createClientInProcess github.com/nats-io/nats-server/v2/server.(*Server).createClientInProcess
func createClientInProcess(*server.Server, net.Conn) unsafe.Pointer

// pipeRoom is how many bytes one direction of a pipe buffers: more than a large message, since a client that writes keeps all others of its process waiting. Of an
// empty buffer no more than keptRoom is kept.
const (
	pipeRoom = 2 << 20
	keptRoom = 256 << 10
)

// pipe returns the two ends of a connection in memory. It is buffered, unlike that of [net.Pipe], where writer and reader wait for each other at
// each write and each read.
func pipe() (here, there *pipeEnd) {
	to, from := newStretch(), newStretch()
	return &pipeEnd{in: from, out: to}, &pipeEnd{in: to, out: from}
}

// stretch is one direction of a pipe.
type stretch struct {
	mu             sync.Mutex
	bytes          []byte
	begin          int  // of the unread bytes
	unread, closed bool // the reader, the writer has closed
	reader, writer pipeSide
}

// pipeSide is the reader or the writer of a stretch, who waits for a change until the deadline end.
type pipeSide struct {
	changed sync.Cond
	end     time.Time
}

func newStretch() *stretch {
	s := &stretch{}
	s.reader.changed.L, s.writer.changed.L = &s.mu, &s.mu
	return s
}

// wait waits for a change. The caller holds the lock of the stretch.
func (w *pipeSide) wait() error {
	if !w.end.IsZero() {
		left := time.Until(w.end)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		defer time.AfterFunc(left, func() {
			w.changed.L.Lock()
			defer w.changed.L.Unlock()
			w.changed.Broadcast()
		}).Stop()
	}
	w.changed.Wait()
	return nil
}

// until sets the deadline.
func (w *pipeSide) until(end time.Time) {
	w.changed.L.Lock()
	defer w.changed.L.Unlock()
	w.end = end
	w.changed.Broadcast()
}

// over reports whether the deadline has passed.
func (w *pipeSide) over() bool { return !w.end.IsZero() && time.Until(w.end) <= 0 }

func (s *stretch) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.unread:
			return 0, io.ErrClosedPipe
		case s.reader.over():
			return 0, os.ErrDeadlineExceeded
		case s.begin < len(s.bytes):
			if len(s.bytes)-s.begin == pipeRoom {
				s.writer.changed.Broadcast()
			}
			n := copy(p, s.bytes[s.begin:])
			if s.begin += n; s.begin == len(s.bytes) {
				s.bytes, s.begin = s.bytes[:0], 0
				if cap(s.bytes) > keptRoom {
					s.bytes = nil
				}
			}
			return n, nil
		case s.closed:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		if err := s.reader.wait(); err != nil {
			return 0, err
		}
	}
}

func (s *stretch) write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.unread || s.closed:
			return n, io.ErrClosedPipe
		case s.writer.over():
			return n, os.ErrDeadlineExceeded
		}
		kept := len(s.bytes) - s.begin
		part := p[n:][:min(len(p)-n, pipeRoom-kept)]
		if s.begin > 0 && len(s.bytes)+len(part) > cap(s.bytes) {
			s.bytes, s.begin = append(s.bytes[:0], s.bytes[s.begin:]...), 0
		}
		if kept == 0 {
			s.reader.changed.Broadcast()
		}
		s.bytes = append(s.bytes, part...)
		if n += len(part); n == len(p) {
			return n, nil
		}
		if err := s.writer.wait(); err != nil {
			return n, err
		}
	}
}

// end closes one side: which is unread or closed.
func (s *stretch) end(which *bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*which = true
	s.reader.changed.Broadcast()
	s.writer.changed.Broadcast()
}

// pipeEnd is an end of a pipe.
type pipeEnd struct{ in, out *stretch }

func (p *pipeEnd) Read(b []byte) (int, error)  { return p.in.read(b) }
func (p *pipeEnd) Write(b []byte) (int, error) { return p.out.write(b) }

// Close closes both directions. The other end still reads what was written before.
func (p *pipeEnd) Close() error {
	p.in.end(&p.in.unread)
	p.out.end(&p.out.closed)
	return nil
}

func (p *pipeEnd) LocalAddr() net.Addr  { return pipeAddr{} }
func (p *pipeEnd) RemoteAddr() net.Addr { return pipeAddr{} }

func (p *pipeEnd) SetDeadline(t time.Time) error {
	p.in.reader.until(t)
	p.out.writer.until(t)
	return nil
}

func (p *pipeEnd) SetReadDeadline(t time.Time) error {
	p.in.reader.until(t)
	return nil
}

func (p *pipeEnd) SetWriteDeadline(t time.Time) error {
	p.out.writer.until(t)
	return nil
}

// pipeAddr is the address of both ends.
type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
