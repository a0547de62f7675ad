package nats

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
)

// maxFrame bounds a message that a server says it sends, in bytes: no nats-server allows larger ones. The client makes room for a message when its first
// line has come.
const maxFrame = 64 << 20

// Types of the records with which a server begins TLS, or refuses to.
const (
	tlsAlert     = 21
	tlsHandshake = 22
)

// framed is a connection to a server that ends when the server sends a line or a message that is too large. The client believes whatever size is said, and
// compares all addresses of an INFO line with each other. When the server goes on with TLS it looks at nothing more.
type framed struct {
	net.Conn
	line  []byte // the beginning of a line
	skip  int64  // bytes of the message that are to come
	lines int    // that have come, at most 2
	blind bool
}

func (f *framed) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if wrong := f.look(b[:n]); wrong != nil {
		return 0, wrong
	}
	return n, err
}

// look follows what the server sends.
func (f *framed) look(b []byte) error {
	for len(b) > 0 && !f.blind {
		if f.skip > 0 {
			n := min(f.skip, int64(len(b)))
			f.skip -= n
			b = b[n:]
			continue
		}
		if f.lines == 1 && len(f.line) == 0 && (b[0] == tlsHandshake || b[0] == tlsAlert) {
			f.blind = true
			return nil
		}
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		if len(f.line)+len(line) > maxInfo {
			return fmt.Errorf("the server sends a line of more than %d bytes", maxInfo)
		}
		if !whole || len(f.line) > 0 {
			f.line = append(f.line, line...)
			line = f.line
		}
		if !whole {
			return nil
		}
		if err := f.begin(line); err != nil {
			return err
		}
		f.line, f.lines, b = f.line[:0], min(f.lines+1, 2), rest
	}
	return nil
}

// begin notes the size of a message, if the line begins one.
func (f *framed) begin(line []byte) error {
	fields := bytes.Fields(line)
	if len(fields) < 4 || !bytes.EqualFold(fields[0], []byte("MSG")) && !bytes.EqualFold(fields[0], []byte("HMSG")) {
		return nil
	}
	size, err := strconv.ParseInt(string(fields[len(fields)-1]), 10, 64)
	if err != nil || size < 0 || size > maxFrame {
		return fmt.Errorf("the server sends a message of %.20q bytes: at most %d are taken", fields[len(fields)-1], maxFrame)
	}
	f.skip = size + int64(len("\r\n"))
	return nil
}
