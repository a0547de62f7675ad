package nats

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
)

// said is a connection to a server that says what a reader has.
type said struct {
	net.Conn
	io.Reader
}

func (s said) Read(b []byte) (int, error) { return s.Reader.Read(b) }

// TestFramed checks that what a server sends is passed on as it is, in whatever pieces it comes, and that lines and messages that are too large are not.
func TestFramed(t *testing.T) {
	const info = "INFO {\"server_id\":\"x\"}\r\n"
	long := strings.Repeat("x", maxInfo)
	for name, c := range map[string]struct{ text, wrong string }{
		"messages":           {info + "PONG\r\nMSG a 1 5\r\nMSG \n\r\nHMSG a 1 r 3 9\r\n\nMSG a 9\r\n+OK\r\nMSG a 1 0\r\n\r\nPING\r\n", ""},
		"a large message":    {info + "MSG a 1 100000\r\n" + strings.Repeat("MSG a 1 9999999999\r\n", 5000) + "\r\nPING\r\n", ""},
		"TLS":                {info + "\x16\x03\x01" + long + long, ""},
		"an alert of TLS":    {info + "\x15\x03\x01" + long + long, ""},
		"not TLS":            {info + "PONG\r\n\x16" + long + long, "line"},
		"an endless INFO":    {"INFO " + long + long, "line"},
		"a long line":        {info + "PONG\r\nINFO " + long + "\r\n", "line"},
		"a huge message":     {info + "MSG a 1 64424509440\r\nx", "64424509440"},
		"a huge one":         {info + "hmsg\ta 1 r 5 99999999\r\nx", "99999999"},
		"less than nothing":  {info + "MSG a 1 -5\r\nx", "-5"},
		"more than a number": {info + "MSG a 1 99999999999999999999\r\nx", "9999"},
	} {
		for _, pieces := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.HalfReader, iotest.OneByteReader} {
			b, err := io.ReadAll(&framed{Conn: said{Reader: pieces(strings.NewReader(c.text))}})
			switch {
			case c.wrong == "" && (err != nil || string(b) != c.text):
				t.Errorf("%s: %d of %d bytes, %v", name, len(b), len(c.text), err)
			case c.wrong != "" && (err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), c.wrong)):
				t.Errorf("%s: %v, want an error that says %q", name, err, c.wrong)
			}
		}
	}
}
