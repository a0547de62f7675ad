package httpserver

import (
	"cmp"
	"log/slog"
	"net"
)

// Guard is a listener for servers of other protocols, with the bound of connections that Serve has. Its methods are safe for concurrent use.
type Guard struct{ *listener }

// NewGuard returns a Guard around l with at most so many open connections. A nil logger discards.
func NewGuard(l net.Listener, most int, logger *slog.Logger) *Guard {
	logger = cmp.Or(logger, slog.New(slog.DiscardHandler))
	g := &Guard{newListener(l, max(most, 1), logger)}
	g.lasting = true
	return g
}

// Begin says that a call of somebody who may make it has begun on the connection from an address; who is "" where nobody says who they are, see [By]. While
// all connections are taken, those without such a call are closed first. The returned function ends it; the connection stays theirs until its next call.
func (g *Guard) Begin(from net.Addr, who string) (end func()) { return g.begin(from, who, 0) }

// Hold is as Begin for a call that lasts, and that its client does not make again, such as a subscription. Of the connections with such
// a call those that came first stay, as many as three quarters of all.
func (g *Guard) Hold(from net.Addr, who string) (end func()) { return g.begin(from, who, 1) }

// Cut closes the connection from an address.
func (g *Guard) Cut(from string) {
	g.mu.Lock()
	var all []*conn
	for c := range g.conns {
		if c.from == from {
			all = append(all, c)
		}
	}
	g.mu.Unlock()
	for _, c := range all {
		c.Close() //nolint:errcheck // it is gone either way
	}
}

func (g *Guard) begin(from net.Addr, who string, held int32) (end func()) {
	address := from.String()
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		if c.from == address {
			if c.serving.Add(1) == 1 { // the calls beside it give the connection no more time
				c.step()
			}
			c.who = who
			if held > 0 && c.held.Add(held) == held {
				c.since.Store(int64(g.now()))
			}
			return func() {
				g.mu.Lock()
				defer g.mu.Unlock()
				c.held.Add(-held)
				if c.serving.Add(-1) == 0 {
					c.step()
				}
			}
		}
	}
	return func() {} // it has just been closed
}
