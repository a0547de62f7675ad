package transporttest

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/cortex-orchestrator/cortex/transport"
)

var hammerCases = []testCase{
	{name: "hammer", run: func(e *env) {
		// Many publishers and one subscriber. Each publisher has its own conversations and publishes them in order. Nothing fails: every event comes
		// once, in order.
		const publishers, contexts, each = 8, 5, 25
		const total = publishers * contexts * each
		var (
			mu      sync.Mutex
			got     = map[string]int{}
			running = map[string]bool{}
			n       int
			all     = make(chan struct{})
		)
		e.serve(e.subscribe(e.dial(), orchestrator, nil), func(_ context.Context, ev *transport.Event) error {
			mu.Lock()
			if running[ev.ContextID] {
				e.Errorf("two events of %s are handled at once", ev.ContextID)
			}
			running[ev.ContextID] = true
			mu.Unlock()
			runtime.Gosched() // let other goroutines run
			mu.Lock()
			defer mu.Unlock()
			if want := strconv.Itoa(got[ev.ContextID]); words(ev) != want || ev.Delivery != 1 {
				e.Errorf("%s: event %s came (delivery %d), want %s", ev.ContextID, words(ev), ev.Delivery, want)
			}
			got[ev.ContextID]++
			running[ev.ContextID] = false
			if n++; n == total {
				close(all)
			}
			return nil
		})
		e.hammer(orchestrator, publishers, contexts, each)
		e.await(all, "every event is handled")
	}},
	{name: "hammer shared", run: func(e *env) {
		// Three subscribers share the work, some of which fails once: every event is acknowledged exactly once.
		const publishers, contexts, each = 4, 5, 20
		const total = publishers * contexts * each
		var (
			mu    sync.Mutex
			acked = map[string]int{}
			n     int
			all   = make(chan struct{})
		)
		for range 3 {
			e.serve(e.subscribe(e.dial(), worker, &transport.SubscribeOptions{Unordered: true, Concurrency: 16}), func(_ context.Context, ev *transport.Event) error {
				if ev.Delivery == 1 && strings.HasSuffix(words(ev), "7") {
					return errTry
				}
				mu.Lock()
				defer mu.Unlock()
				if acked[ev.ID]++; acked[ev.ID] > 1 {
					e.Errorf("event %s was acknowledged before", ev.ID)
				}
				if n++; n == total {
					close(all)
				}
				return nil
			})
		}
		e.hammer(worker, publishers, contexts, each)
		e.await(all, "every event is handled")
	}},
}

// hammer publishes from several clients at once.
func (e *env) hammer(t transport.Topic, publishers, contexts, each int) {
	var wg sync.WaitGroup
	for p := range publishers {
		tr := e.dial()
		wg.Go(func() {
			for i := range each {
				for c := range contexts {
					ev := e.message(t, fmt.Sprintf("c-%d-%d", p, c), strconv.Itoa(i))
					if err := tr.Publish(context.Background(), t, ev); err != nil {
						e.Errorf("Publish = %v, want nil", err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}
