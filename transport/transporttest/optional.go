package transporttest

import (
	"context"
	"errors"
	"fmt"

	"github.com/cortex-orchestrator/cortex/transport"
)

var optionalCases = []testCase{
	{
		name:  "depth of an inbox",
		needs: func(_ Node, tr transport.Transport) bool { _, ok := tr.(transport.InboxDepth); return ok },
		run: func(e *env) {
			depth := func(t transport.Topic) int {
				n, err := e.tr.(transport.InboxDepth).Waiting(context.Background(), t)
				if err != nil {
					e.Fatalf("Waiting(%v) = %v, want nil", t, err)
				}
				return n
			}
			if n := depth(worker); n != 0 {
				e.Errorf("Waiting = %d for an inbox that nobody used, want 0", n)
			}
			for i := range 5 {
				e.say(worker, fmt.Sprint("c", i), "x")
				e.say(transport.Inbox("acme", "worker"), "c", "x")
			}
			if n := depth(worker); n != 5 {
				e.Errorf("Waiting = %d after five events, want 5", n)
			}
			if tr, ok := e.tr.(transport.InboxBacklog); ok {
				if n, err := tr.Untaken(context.Background(), worker); n != 5 || err != nil {
					e.Errorf("Untaken = %d, %v after five events without a subscriber, want 5", n, err)
				}
				if _, err := tr.Untaken(context.Background(), transport.Live("", "c")); !errors.Is(err, transport.ErrInvalid) {
					e.Errorf("Untaken of what is no inbox = %v, want ErrInvalid", err)
				}
			}
			d := e.desk(e.dial(), worker, nil)
			v := d.next()
			if n := depth(worker); n != 5 {
				e.Errorf("Waiting = %d while they are handled, want 5", n)
			}
			v.done(nil)
			e.eventually("four are waiting", func() bool { return depth(worker) == 4 })
			d.next().done(transport.Permanent(errTry))
			for range 3 {
				d.take("x")
			}
			e.eventually("none is waiting", func() bool { return depth(worker) == 0 })
		},
	},
	{
		name:  "backlog of an inbox",
		needs: func(_ Node, tr transport.Transport) bool { _, ok := tr.(transport.InboxBacklog); return ok },
		run: func(e *env) {
			untaken := func() int {
				n, err := e.tr.(transport.InboxBacklog).Untaken(context.Background(), worker)
				if err != nil {
					e.Fatalf("Untaken(%v) = %v, want nil", worker, err)
				}
				return n
			}
			d := e.desk(e.dial(), worker, &transport.SubscribeOptions{Concurrency: 2, Unordered: true})
			for i := range 5 {
				e.say(worker, fmt.Sprint("c", i), "x")
			}
			first := d.next()
			e.eventually("two are being handled", func() bool { return untaken() == 3 })
			first.done(nil)
			e.eventually("another one is taken", func() bool { return untaken() == 2 })
			for range 4 {
				d.next().done(nil)
			}
			e.eventually("all are taken", func() bool { return untaken() == 0 })
		},
	},
	{
		name:  "health",
		needs: func(_ Node, tr transport.Transport) bool { _, ok := tr.(transport.Health); return ok },
		run: func(e *env) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			h := e.tr.(transport.Health)
			if err := h.Healthy(ctx); err != nil {
				e.Errorf("Healthy = %v, want nil", err)
			}
			_ = e.tr.Close()
			if err := h.Healthy(ctx); !errors.Is(err, transport.ErrClosed) {
				e.Errorf("Healthy after Close = %v, want ErrClosed", err)
			}
		},
	},
	{name: "questions after close", run: func(e *env) {
		_ = e.tr.Close()
		if tr, ok := e.tr.(transport.InboxDepth); ok {
			if _, err := tr.Waiting(context.Background(), worker); !errors.Is(err, transport.ErrClosed) {
				e.Errorf("Waiting after Close = %v, want ErrClosed", err)
			}
		}
		if tr, ok := e.tr.(transport.DeadLetters); ok {
			n := 0
			for l, err := range tr.DeadLetters(context.Background(), "") {
				if n++; !errors.Is(err, transport.ErrClosed) {
					e.Errorf("DeadLetters after Close = %v, %v, want ErrClosed", l, err)
				}
			}
			if n != 1 {
				e.Errorf("DeadLetters after Close yielded %d times, want one error", n)
			}
		}
	}},
}
