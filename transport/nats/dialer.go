package nats

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"
)

// Place is the address of a server.
type Place struct {
	URL string
	// Server is the ID that the server at URL must have, see [Server.ID]; the client refuses another one. Empty: any server.
	Server string
}

// maxInfo bounds a server's INFO line, in bytes.
const maxInfo = 64 << 10

// dialFunc implements [natsgo.CustomDialer].
type dialFunc func(network, addr string) (net.Conn, error)

// Dial implements [natsgo.CustomDialer].
func (f dialFunc) Dial(network, addr string) (net.Conn, error) { return f(network, addr) }

// dialer returns the function by which the client connects to a server. Until b is dialed, ctx ends each attempt: the client itself does not know
// ctx and would wait for a server that is unreachable or silent.
func (b *Bus) dialer(ctx context.Context, locate func() (Place, error), timeout time.Duration) dialFunc {
	return func(network, addr string) (net.Conn, error) {
		ctx := ctx
		if b.dialed.Load() {
			ctx = context.WithoutCancel(ctx)
		}
		var at Place
		if locate != nil { // a restarted server may listen elsewhere
			var err error
			if at, err = locate(); err != nil {
				return nil, err
			}
			u, err := url.Parse(at.URL)
			if err != nil || u.Port() == "" {
				return nil, fmt.Errorf("%s is no address of a NATS server", redact(at.URL))
			}
			addr = u.Host
		}
		c, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		b.reached.Store(true)
		context.AfterFunc(ctx, func() {
			if !b.dialed.Load() {
				c.Close()
			}
		})
		if at.Server == "" {
			return &framed{Conn: c}, nil
		}
		checked, err := recognise(c, at.Server, timeout)
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("%s: %w", redact(at.URL), err)
		}
		return &framed{Conn: checked}, nil
	}
}

// preReadConn is a connection whose INFO line was already read.
type preReadConn struct {
	net.Conn
	reader io.Reader
}

func (h *preReadConn) Read(b []byte) (int, error) { return h.reader.Read(b) }

// recognise returns a connection to the server with this ID. It reads the server's INFO line before anything is sent: another program may listen at
// the address of a server that was killed, and must not receive credentials.
func recognise(c net.Conn, id string, timeout time.Duration) (net.Conn, error) {
	if err := c.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(c, maxInfo)
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	var info struct {
		ID string `json:"server_id"`
	}
	text, ok := bytes.CutPrefix(line, []byte("INFO "))
	if !ok || json.Unmarshal(text, &info) != nil {
		return nil, errors.New("what listens there is no NATS server")
	}
	if info.ID != id {
		return nil, errors.New("another server listens there")
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	return &preReadConn{c, io.MultiReader(bytes.NewReader(bytes.Clone(line)), r)}, nil
}
