package grpc

import (
	"context"
	"sync"
	"sync/atomic"

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
	over := s.end
	gone := context.AfterFunc(kit.Connection(ctx), over)
	s.end = func() {
		gone()
		over()
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
