package grpc

import (
	"context"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/proto"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
)

// span is the time in which a call takes room: until its handler has returned, and its answers are written. They are encoded before that, and written as
// fast as the client reads.
type span struct {
	uses atomic.Int64 // the handler, and answers that are not written
	end  func()
}

// newSpan returns the span of a call whose handler runs: the handler is to leave it. It also ends with the connection, when answers are dropped.
func newSpan(ctx context.Context, end func()) *span {
	s := &span{end: sync.OnceFunc(end)}
	s.uses.Store(1)
	if conn, ok := ctx.Value(connKey{}).(*conn); ok {
		over := s.end
		gone := context.AfterFunc(conn.ctx, over)
		s.end = func() {
			gone()
			over()
		}
	}
	return s
}

func (s *span) leave() {
	if s.uses.Add(-1) == 0 {
		s.end()
	}
}

// answer returns a message as the codec takes it, which is to encode it once: then the span lasts until it is written.
func (s *span) answer(message any) any {
	m, ok := message.(proto.Message)
	if !ok || s == nil {
		return message
	}
	s.uses.Add(1)
	return &kit.Told{Message: m, Written: s.leave}
}

// conn is a connection; its context ends with it.
type conn struct {
	ctx context.Context //nolint:containedctx // for the calls by it
	end func()
}

type connKey struct{}

// conns has the context of a call say which connection it came by.
type conns struct{}

var _ stats.Handler = conns{}

// TagConn implements stats.Handler.
func (conns) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	alive, end := context.WithCancel(ctx)
	return context.WithValue(ctx, connKey{}, &conn{alive, end})
}

// HandleConn implements stats.Handler.
func (conns) HandleConn(ctx context.Context, s stats.ConnStats) {
	if _, over := s.(*stats.ConnEnd); !over {
		return
	}
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.end()
	}
}

// TagRPC implements stats.Handler.
func (conns) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (conns) HandleRPC(context.Context, stats.RPCStats) {}
