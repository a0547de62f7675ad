package llmtest

import (
	"fmt"
	"sync"
)

var concurrentCases = []testCase{
	{name: "own answers", run: func(e *env) {
		const n = 32
		var mu sync.Mutex
		arrived, all := 0, make(chan struct{}) // closed when all calls are under way
		c := e.wire.Dial(e.T, func(c *Call) *Reply {
			mu.Lock()
			defer mu.Unlock()
			if arrived++; arrived == n {
				close(all)
			}
			text := c.Messages[len(c.Messages)-1].Text
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
