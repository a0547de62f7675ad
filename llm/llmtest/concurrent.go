package llmtest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
)

// together returns what each of n calls does when it arrives, and a channel that is closed when all are under way.
func together(n int) (arrive func(), all chan struct{}) {
	all = make(chan struct{})
	var arrived atomic.Int64
	return func() {
		if arrived.Add(1) == int64(n) {
			close(all)
		}
	}, all
}

var concurrentCases = []testCase{
	{name: "own answers", run: func(e *env) {
		const n = 32
		arrive, all := together(n)
		c := e.wire.Dial(e.T, func(c *Call) *Reply {
			arrive()
			text := c.Messages[len(c.Messages)-1].Text()
			return &Reply{Pieces: []string{"you ", "said ", text}, Hold: all}
		}, Options{Key: key})
		var calls []*calling
		for i := range n {
			calls = append(calls, e.start(e.Context(), c, request(fmt.Sprint("number ", i)), 0))
		}
		for i, k := range calls {
			e.wantText(e.await(k), fmt.Sprint("you said number ", i))
		}
	}},
	{name: "own ends", run: func(e *env) {
		const n = 32
		arrive, all := together(n)
		rest := make(chan struct{}) // closed when the calls that fail have ended
		c := e.wire.Dial(e.T, func(c *Call) *Reply {
			arrive()
			text := c.Messages[len(c.Messages)-1].Text()
			switch kind, _, _ := strings.Cut(text, " "); kind {
			case "fail":
				return &Reply{Error: &Fault{Status: 503, Message: text}, Hold: all}
			case "cut":
				return &Reply{Pieces: []string{"you ", "said ", text}, Cut: true, Orderly: true, Hold: all} // other calls share the connection
			case "cancel":
				return &Reply{Hold: e.over}
			}
			return &Reply{Pieces: []string{"you ", "said ", text}, Hold: rest}
		}, Options{Key: key})
		canceled, cancel := context.WithCancel(e.Context())
		defer cancel()
		calls := map[string][]*calling{}
		for i := range n {
			kind, ctx := []string{"answer", "fail", "cut", "cancel"}[i%4], e.Context()
			if kind == "cancel" {
				ctx = canceled
			}
			calls[kind] = append(calls[kind], e.start(ctx, c, request(fmt.Sprint(kind, " ", i)), 0))
		}
		select {
		case <-all:
		case <-time.After(e.wire.patience):
			e.Fatalf("the server does not get %d calls at once", n)
		}
		cancel()
		for i, k := range calls["cancel"] {
			e.wantEnd(e.await(k), context.Canceled)
			if err := e.wantError(e.await(calls["fail"][i]), llm.ErrUnavailable); !strings.Contains(err.Message, fmt.Sprint("fail ", 4*i+1)) {
				e.Errorf("the error has the message %q, want that of call %d", err.Message, 4*i+1)
			}
			a := e.await(calls["cut"][i])
			e.wantError(a, llm.ErrTruncated)
			e.wantStart(a, fmt.Sprint("you said cut ", 4*i+2))
		}
		close(rest)
		for i, k := range calls["answer"] {
			e.wantText(e.await(k), fmt.Sprint("you said answer ", 4*i))
		}
	}},
	{name: "one request", run: func(e *env) {
		c, _ := e.serve(&Reply{Pieces: decision})
		r := full()
		var calls []*calling
		for range 8 {
			calls = append(calls, e.start(e.Context(), c, r, 0))
		}
		for _, k := range calls {
			if a := e.await(k); len(a.done) != 1 {
				e.Errorf("Generate = %q, error %v, want an answer", a.text(), a.err)
			}
		}
	}},
}
