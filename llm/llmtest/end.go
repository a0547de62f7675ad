package llmtest

import (
	"context"
	"iter"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
)

// endCases are the cases of calls that the caller ends.
var endCases = []testCase{
	{name: "canceled before the call", run: func(e *env) {
		c, s := e.serve(&Reply{Pieces: []string{"Hello."}})
		ctx, cancel := context.WithCancel(e.Context())
		cancel()
		e.wantEnd(e.await(e.start(ctx, c, request("hi"), 0)), context.Canceled)
		if n := s.count(); n != 0 {
			e.Errorf("the server got %d calls, want none", n)
		}
	}},
	{name: "canceled before the head", run: func(e *env) {
		c, s := e.serve(&Reply{Hold: e.over})
		canceledBeforeHead(e, c, s)
	}},
	{name: "canceled in mid-stream", run: func(e *env) {
		c, s := e.serve(&Reply{Pieces: []string{"Once ", "upon"}, Hold: e.over})
		canceledInStream(e, c, s)
	}},
	{name: "canceled by the reader", run: func(e *env) {
		c, s := e.serve(&Reply{Pieces: []string{"Once ", "upon"}, Hold: e.over})
		ctx, cancel := context.WithCancel(e.Context())
		defer cancel()
		e.wantEnd(e.await(e.start(ctx, canceling{c, cancel}, request("hi"), 0)), context.Canceled)
		s.gone()
	}},
	{name: "left early", run: func(e *env) {
		c, s := e.serve(&Reply{Pieces: []string{"Once ", "upon"}, Hold: e.over})
		leftEarly(e, c, s)
	}},
	{name: "deadline before the head", run: func(e *env) {
		c, s := e.serve(&Reply{Hold: e.over})
		deadline(e, c, s)
	}},
	{name: "deadline in mid-stream", run: func(e *env) {
		c, s := e.serve(&Reply{Pieces: []string{"Once ", "upon"}, Hold: e.over})
		deadline(e, c, s)
	}},
	{name: "usable afterwards", run: func(e *env) {
		c, s := e.serve(&Reply{Pieces: []string{"Once ", "upon"}, Hold: e.over})
		canceledInStream(e, c, s)
		leftEarly(e, c, s)
		s.say(&Reply{Hold: e.over})
		canceledBeforeHead(e, c, s)
		s.say(&Reply{Pieces: []string{"Hel", "lo."}})
		e.wantText(e.ask(c, request("hi")), "Hello.")
	}},
}

// canceling is a client whose caller cancels within the loop.
type canceling struct {
	llm.Client
	cancel context.CancelFunc
}

func (c canceling) Generate(ctx context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for chunk, err := range c.Client.Generate(ctx, r) {
			c.cancel()
			if !yield(chunk, err) {
				return
			}
		}
	}
}

// canceledBeforeHead cancels a call that the server has received and not answered.
func canceledBeforeHead(e *env, c llm.Client, s *server) {
	e.Helper()
	ctx, cancel := context.WithCancel(e.Context())
	defer cancel()
	k := e.start(ctx, c, request("hi"), 0)
	got := s.call()
	cancel()
	e.wantEnd(e.await(k), context.Canceled)
	e.wantGone(got)
}

// canceledInStream cancels a call after the first piece of its answer.
func canceledInStream(e *env, c llm.Client, s *server) {
	e.Helper()
	ctx, cancel := context.WithCancel(e.Context())
	defer cancel()
	k := e.start(ctx, c, request("hi"), 0)
	e.awaitFirst(k)
	cancel()
	e.wantEnd(e.await(k), context.Canceled)
	s.gone()
}

// leftEarly leaves the loop after the first piece of an answer.
func leftEarly(e *env, c llm.Client, s *server) {
	e.Helper()
	if a := e.await(e.start(e.Context(), c, request("hi"), 1)); len(a.pieces) != 1 {
		e.Errorf("Generate = %q, error %v, want one piece", a.pieces, a.err)
	}
	s.gone()
}

// deadline makes a call whose deadline passes while the server is silent.
func deadline(e *env, c llm.Client, s *server) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), 100*time.Millisecond)
	defer cancel()
	e.wantEnd(e.await(e.start(ctx, c, request("hi"), 0)), context.DeadlineExceeded)
	// On a slow machine the deadline may pass before the call reaches the server.
	if s.count() > 0 {
		s.gone()
	}
}
