package transporttest

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/cortex-orchestrator/cortex/transport"
)

var orderCases = []testCase{
	{name: "order of each conversation", run: func(e *env) {
		const contexts, each = 20, 15
		var (
			mu      sync.Mutex
			running = map[string]bool{}
			got     = map[string]int{}
			total   int
			all     = make(chan struct{})
		)
		for i := range each / 3 { // some wait before the subscriber starts
			for c := range contexts {
				e.say(orchestrator, fmt.Sprint("c", c), fmt.Sprint(i))
			}
		}
		sub := e.subscribe(e.dial(), orchestrator, nil)
		e.serve(sub, func(_ context.Context, ev *transport.Event) error {
			mu.Lock()
			if running[ev.ContextID] {
				e.Errorf("two events of %s are handled at once", ev.ContextID)
			}
			running[ev.ContextID] = true
			if want := fmt.Sprint(got[ev.ContextID]); words(ev) != want {
				e.Errorf("%s: event %s came, want %s", ev.ContextID, words(ev), want)
			}
			got[ev.ContextID]++
			mu.Unlock()
			runtime.Gosched() // let other goroutines run
			mu.Lock()
			running[ev.ContextID] = false
			if total++; total == contexts*each {
				close(all)
			}
			mu.Unlock()
			return nil
		})
		for i := each / 3; i < each; i++ {
			for c := range contexts {
				e.say(orchestrator, fmt.Sprint("c", c), fmt.Sprint(i))
			}
		}
		e.await(all, "every event is handled")
	}},
	{name: "order one conversation blocks no other", run: func(e *env) {
		d := e.desk(e.dial(), orchestrator, nil)
		e.say(orchestrator, "c1", "c1 first")
		blocked := d.expect("c1 first")
		e.say(orchestrator, "c1", "c1 second")
		for i := range 10 {
			e.say(orchestrator, fmt.Sprint("d", i), "free")
		}
		for range 10 {
			d.take("free")
		}
		d.nothing("the first of c1 is still handled")
		blocked.done(nil)
		d.take("c1 second")
	}},
	{name: "order not asked for", run: func(e *env) {
		d := e.desk(e.dial(), worker, unordered)
		e.say(worker, "c1", "x")
		e.say(worker, "c1", "x")
		v, w := d.next(), d.next() // both run at once
		v.done(nil)
		w.done(nil)
	}},
	{name: "order concurrency is bounded", run: func(e *env) {
		for _, o := range []*transport.SubscribeOptions{{Concurrency: 2}, {Concurrency: 2, Unordered: true}} {
			t := transport.Inbox("", fmt.Sprint("worker-", o.Unordered))
			d := e.desk(e.dial(), t, o)
			for i := range 6 {
				e.say(t, fmt.Sprint("c", i), "x")
			}
			v, w := d.next(), d.next()
			d.nothing("two handlers run")
			v.done(nil)
			v = d.next()
			d.nothing("two handlers run")
			v.done(nil)
			w.done(nil)
			for range 3 {
				d.take("x")
			}
		}
	}},
}
