package kit

import (
	"context"

	"google.golang.org/grpc/stats"
)

type connKey struct{}

// conn is a connection; its context ends with it.
type conn struct {
	ctx context.Context //nolint:containedctx // for the calls by it
	end context.CancelFunc
}

// Conns has the context of a call of gRPC say which connection it came by, see [Connection].
type Conns struct{}

var _ stats.Handler = Conns{}

// Connection returns a context that ends with the connection of a call, at a server with [Conns]; of any other call, its own.
func Connection(ctx context.Context) context.Context {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		return c.ctx
	}
	return ctx
}

// TagConn implements stats.Handler.
func (Conns) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	alive, end := context.WithCancel(ctx)
	return context.WithValue(ctx, connKey{}, &conn{alive, end})
}

// HandleConn implements stats.Handler.
func (Conns) HandleConn(ctx context.Context, s stats.ConnStats) {
	if _, over := s.(*stats.ConnEnd); !over {
		return
	}
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.end()
	}
}

// TagRPC implements stats.Handler.
func (Conns) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (Conns) HandleRPC(context.Context, stats.RPCStats) {}
