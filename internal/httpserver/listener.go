package httpserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/internal/openfiles"
)

// How long Accept waits after an error.
const (
	minPause = 5 * time.Millisecond
	maxPause = time.Second
)

// listener bounds the connections of another one.
type listener struct {
	net.Listener
	most   int
	logger *slog.Logger

	closed chan struct{}
	once   sync.Once

	failing, full rate.Sometimes // what is told

	mu    sync.Mutex
	conns map[*conn]struct{}
}

func newListener(l net.Listener, most int, logger *slog.Logger) *listener {
	return &listener{
		Listener: l, most: most, logger: logger, closed: make(chan struct{}), conns: make(map[*conn]struct{}),
		failing: rate.Sometimes{First: 1, Interval: toldTime}, full: rate.Sometimes{First: 1, Interval: toldTime},
	}
}

// Accept implements [net.Listener]. It makes room for the connection that it returns.
func (l *listener) Accept() (net.Conn, error) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		c, err := l.Listener.Accept()
		if err == nil {
			return l.admit(c), nil
		}
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		l.failing.Do(func() {
			advice := ""
			if openfiles.None(err) {
				advice = openfiles.Advice()
			}
			l.logger.Warn("no connection can be accepted: it is tried again", "address", l.Addr().String(), "err", err, "advice", advice)
		})
		select {
		case <-time.After(pause):
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

func (l *listener) admit(c net.Conn) *conn {
	n := &conn{Conn: c, of: l}
	n.hear()
	for {
		l.mu.Lock()
		if len(l.conns) < l.most {
			l.conns[n] = struct{}{}
			l.mu.Unlock()
			return n
		}
		old := l.quietest()
		l.mu.Unlock()
		l.full.Do(func() {
			l.logger.Warn("all connections are taken: those that nothing is heard of are closed", "address", l.Addr().String(), "connections", l.most)
		})
		old.Close() //nolint:errcheck // it is gone either way
	}
}

// quietest returns the connection that nothing was heard of for longest, one that waits for an answer only when all do. l.mu is held, and
// there is one.
func (l *listener) quietest() *conn {
	var found *conn
	for c := range l.conns {
		if found == nil || c.before(found) {
			found = c
		}
	}
	return found
}

// conn is a connection that counts.
type conn struct {
	net.Conn
	of *listener

	heard   atomic.Int64 // when something was read or written last
	serving atomic.Int32 // handlers at work
	once    sync.Once
}

func (c *conn) hear() { c.heard.Store(time.Now().UnixNano()) }

// before reports whether c is to be closed rather than d.
func (c *conn) before(d *conn) bool {
	if busy, other := c.serving.Load() > 0, d.serving.Load() > 0; busy != other {
		return other
	}
	return c.heard.Load() < d.heard.Load()
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.hear()
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.hear()
	}
	return n, err
}

// Close gives the connection's place free.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.of.mu.Lock()
		delete(c.of.conns, c)
		c.of.mu.Unlock()
	})
	return err
}

type connKey struct{}

// withConn lets a handler's context tell its connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// mark marks connections for which h is at work.
func (l *listener) mark(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.serving.Add(1)
			defer func() {
				c.hear() // the server writes the end of the answer behind the handler
				c.serving.Add(-1)
			}()
		}
		h.ServeHTTP(w, r)
	})
}
