package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/internal/openfiles"
)

// Pauses of Accept after errors.
const (
	minPause = 5 * time.Millisecond
	maxPause = time.Second
)

// How long a connection cannot be closed for another: a request comes with a connection or soon after, and Cortex answers quickly.
const (
	askGrace  = 100 * time.Millisecond
	workGrace = time.Second // while a handler runs
)

// aside is the part of the connections, one in so many, that those with running handlers leave to others. While they do, none of them is closed: many who
// connect at once, and send nothing, would have all handlers end.
const aside = 4

// listener bounds the connections of another listener.
type listener struct {
	net.Listener
	most   int
	logger *slog.Logger
	// lasting is whether a connection goes on when its calls are over. The server of HTTP ends it then, while all connections are taken.
	lasting bool

	began  time.Time // times of connections count from here, so that nobody sets them
	closed chan struct{}
	once   sync.Once
	freed  chan struct{} // holds one after a connection was closed

	failing, full rate.Sometimes // limit the log lines

	mu    sync.Mutex
	conns map[*conn]struct{}
}

func newListener(l net.Listener, most int, logger *slog.Logger) *listener {
	return &listener{
		Listener: l, most: most, logger: logger, began: time.Now(), closed: make(chan struct{}), freed: make(chan struct{}, 1), conns: make(map[*conn]struct{}),
		failing: rate.Sometimes{First: 1, Interval: toldTime}, full: rate.Sometimes{First: 1, Interval: toldTime},
	}
}

// Accept implements [net.Listener]. It closes another connection if it has to make room.
func (l *listener) Accept() (net.Conn, error) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		c, err := l.Listener.Accept()
		if err == nil {
			if n := l.admit(c); n != nil {
				return n, nil
			}
			return nil, net.ErrClosed
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

// admit makes room for c; it returns nil when l is closed before. While no connection may be closed it waits, and later clients wait in the queue
// of the operating system in the order of their arrival.
func (l *listener) admit(c net.Conn) *conn {
	n := &conn{Conn: c, of: l, from: c.RemoteAddr().String()}
	for {
		l.mu.Lock()
		if len(l.conns) < l.most {
			n.hear()
			n.step()
			n.came.Store(n.stepped.Load())
			l.conns[n] = struct{}{}
			l.mu.Unlock()
			return n
		}
		old, wait := l.dispensable(l.now())
		l.mu.Unlock()
		l.full.Do(func() {
			l.logger.Warn("all connections are taken: those that nothing is heard of are closed", "address", l.Addr().String(), "connections", l.most)
		})
		if old != nil {
			old.Close() //nolint:errcheck // it is gone either way
			continue
		}
		again := time.NewTimer(wait)
		select {
		case <-l.freed:
		case <-again.C:
		case <-l.closed:
		}
		again.Stop()
		if l.isClosed() {
			c.Close() //nolint:errcheck // nobody was told of it
			return nil
		}
	}
}

// now returns the time since l began. It does not follow the wall clock: when that was set back, no connection could be closed for so long.
func (l *listener) now() time.Duration { return time.Since(l.began) }

func (l *listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// dispensable returns the connection to close for a new one: the one that has waited longest for a request or, when most have running handlers, of those
// of whoever has most connections the one with the oldest read or write. When none may be closed yet, it returns nil and the time to wait. The caller holds
// l.mu.
func (l *listener) dispensable(now time.Duration) (found *conn, wait time.Duration) {
	idle := 0
	at := map[string]int{} // connections, by who has them
	var held []int64       // when the calls began
	for c := range l.conns {
		busy := c.serving.Load() > 0
		if !busy {
			idle++
		}
		if busy || c.who != "" {
			at[c.who]++
		}
		if c.held.Load() > 0 {
			held = append(held, c.since.Load())
		}
	}
	stay := int64(-1) // what was held then, or before, stays
	if n := l.most - l.most/aside; len(held) > 0 {
		slices.Sort(held)
		stay = held[min(n, len(held))-1]
	}
	most := 0 // connections of whoever has most, of those of whom one can be closed: all that some have may stay
	for c := range l.conns {
		if c.serving.Load() > 0 && !c.stays(stay) {
			most = max(most, at[c.who])
		}
	}
	wait = workGrace
	for c := range l.conns {
		switch busy := c.serving.Load() > 0; {
		case busy && idle*aside >= l.most: // one without a handler can soon be closed
		case busy && c.stays(stay):
		case busy && at[c.who] < most: // also while theirs may not be closed yet: they would have others' calls end by coming again and again
		default:
			if owed := c.owed(now, at[c.who]); owed > 0 {
				wait = min(wait, owed)
			} else if found == nil || c.before(found) {
				found = c
			}
		}
	}
	return found, wait
}

// crowded reports whether all connections are taken.
func (l *listener) crowded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns) >= l.most
}

// conn is a connection that listener counts.
type conn struct {
	net.Conn
	of   *listener
	from string // its address

	heard   atomic.Int64 // time of the last read or write, by the listener's clock
	came    atomic.Int64 // likewise, when the connection began
	stepped atomic.Int64 // likewise, when the connection, or a handler on it, last began or ended
	serving atomic.Int32 // number of running handlers
	held    atomic.Int32 // how many of these their client does not begin again
	since   atomic.Int64 // when the first of these began, by the listener's clock
	idle    atomic.Bool  // the last answer is complete, and no request has begun
	who     string       // for whom the handler works, or the last one of a Guard, "" if that is not known; guarded by the listener's mu
	once    sync.Once
}

func (c *conn) hear() { c.heard.Store(int64(c.of.now())) }

func (c *conn) step() { c.stepped.Store(int64(c.of.now())) }

// stays reports whether a call on c is one that is held, and began by that time.
func (c *conn) stays(by int64) bool { return c.held.Load() > 0 && c.since.Load() <= by }

// owed returns for how long c may not be closed for another: a new connection needs time to send a request, and a request to be answered, unless it is of
// somebody who has many. theirs is how many connections whoever has c has.
func (c *conn) owed(now time.Duration, theirs int) time.Duration {
	from, grace := c.stepped.Load(), askGrace
	known := c.who != ""
	if c.of.lasting && known && theirs > 1 {
		from = c.came.Load() // or they would keep all of them by one short call after the other
	}
	switch {
	case c.idle.Load():
		return 0
	case c.serving.Load() > 0 && !(known && theirs*aside > c.of.most):
		grace = workGrace
	}
	return time.Duration(from) + grace - now
}

// before reports whether c is to be closed rather than d. Bytes of an incomplete request do not count as progress.
func (c *conn) before(d *conn) bool {
	busy, other := c.serving.Load() > 0, d.serving.Load() > 0
	held, kept := c.held.Load() > 0, d.held.Load() > 0
	switch {
	case busy != other:
		return other
	case held != kept:
		return kept
	case busy:
		return c.heard.Load() < d.heard.Load()
	default:
		return c.stepped.Load() < d.stepped.Load()
	}
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

// Close frees the connection's place.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.of.mu.Lock()
		delete(c.of.conns, c)
		c.of.mu.Unlock()
		select {
		case c.of.freed <- struct{}{}:
		default:
		}
	})
	return err
}

type connKey struct{}

// withConn adds the connection to a handler's context.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, counted(c))
}

// counted returns the connection that listener counts, below TLS.
func counted(c net.Conn) net.Conn {
	if t, ok := c.(*tls.Conn); ok {
		return t.NetConn()
	}
	return c
}

// By says for whom the handler of a request works. When all connections are taken, whoever has most of those with running handlers has one of theirs
// closed, so that nobody has the calls of others end.
func By(ctx context.Context, who string) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.by(who)
	}
}

func (c *conn) by(who string) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.who = who
}

// note records net/http's state of a connection.
func note(c net.Conn, state http.ConnState) {
	if c, ok := counted(c).(*conn); ok {
		c.idle.Store(state == http.StateIdle)
	}
}

// mark counts the running requests of each connection. While all connections are taken, it closes each one after its answer, so that others get
// their turn.
func (l *listener) mark(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.crowded() {
			w.Header().Set("Connection", "close")
		}
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.step()
			c.serving.Add(1)
			defer func() {
				c.step() // the server writes the end of the answer after the handler
				c.by("")
				c.serving.Add(-1)
			}()
		}
		h.ServeHTTP(w, r)
	})
}
