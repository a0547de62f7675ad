package agentstest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/cortex-orchestrator/cortex/agents"
)

// Spans is an [agents.Tracer] that keeps the spans that have ended. Its zero value is ready. It is safe for concurrent use.
type Spans struct {
	mu    sync.Mutex
	begun int
	ended []EndedSpan
}

// EndedSpan is a span with what came of it.
type EndedSpan struct {
	agents.Span
	Own     string // its W3C traceparent
	Failure string
	More    map[string]string // all of its attributes
}

var _ agents.Tracer = (*Spans)(nil)

// Begin implements [agents.Tracer].
func (s *Spans) Begin(ctx context.Context, span agents.Span) (in context.Context, traceparent, tracestate string, end func(string, ...slog.Attr)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun++
	e := EndedSpan{Span: span, Own: fmt.Sprintf("00-%032x-%016x-01", 1, s.begun), More: map[string]string{}}
	return ctx, e.Own, span.Tracestate, func(failure string, more ...slog.Attr) {
		s.mu.Lock()
		defer s.mu.Unlock()
		e.Failure = failure
		for _, a := range append(append([]slog.Attr(nil), span.Attributes...), more...) {
			e.More[a.Key] = a.Value.String()
		}
		s.ended = append(s.ended, e)
	}
}

// Take returns the spans that have ended, in the order of their ends, and forgets them.
func (s *Spans) Take() []EndedSpan {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.ended
	s.ended = nil
	return all
}
