package transporttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
			age := func(t transport.Topic) (int, time.Time) {
				tr, ok := e.tr.(transport.InboxAge)
				if !ok {
					return 0, time.Time{}
				}
				n, oldest, err := tr.Age(context.Background(), t)
				if err != nil {
					e.Fatalf("Age(%v) = %v, want nil", t, err)
				}
				return n, oldest
			}
			if tr, ok := e.tr.(transport.InboxAge); ok {
				_, first := age(worker)
				e.say(transport.Inbox("", "other"), "c", "x")
				n, oldest := age(worker)
				if _, later := age(transport.Inbox("", "other")); n != 5 || first.IsZero() || !oldest.Equal(first) || !later.After(first) {
					e.Errorf("Age = %d, %v, then %v, and of a later event %v; want 5 and the same time, which is the earlier one", n, first, oldest, later)
				}
				if n, oldest := age(transport.Inbox("acme", "nobody")); n != 0 || !oldest.IsZero() {
					e.Errorf("Age = %d, %v for an inbox that nobody used, want 0 and no time", n, oldest)
				}
				if _, _, err := tr.Age(context.Background(), transport.Live("", "c")); !errors.Is(err, transport.ErrInvalid) {
					e.Errorf("Age of what is no inbox = %v, want ErrInvalid", err)
				}
			}
			if tr, ok := e.tr.(transport.InboxBacklog); ok {
				if n, err := tr.Untaken(context.Background(), worker); n != 5 || err != nil {
					e.Errorf("Untaken = %d, %v after five events without a subscriber, want 5", n, err)
				}
				e.wantIs(errOf(tr.Untaken(context.Background(), transport.Live("", "c"))), transport.ErrInvalid, "Untaken of what is no inbox")
			}
			d := e.desk(e.dial(), worker, nil)
			v := d.next()
			// A server may count one that it is just handing out neither as waiting nor as handed out.
			e.eventually("five are waiting while they are handled", func() bool { return depth(worker) == 5 })
			if _, ok := e.tr.(transport.InboxAge); ok {
				e.eventually("five, and a time, are waiting while they are handled", func() bool {
					n, oldest := age(worker)
					return n == 5 && !oldest.IsZero()
				})
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
		name:  "search of an inbox",
		needs: func(_ Node, tr transport.Transport) bool { _, ok := tr.(transport.InboxSearch); return ok },
		run: func(e *env) {
			search := e.tr.(transport.InboxSearch)
			sent := e.say(worker, "c1", "x")
			about := *sent
			about.ID, about.TaskID = "of-a-task", "t1"
			e.publish(e.tr, worker, &about)
			// with returns a changed copy of the event.
			with := func(change func(*transport.Event)) *transport.Event {
				other := about
				change(&other)
				return &other
			}
			holds := func(when string, t transport.Topic, of *transport.Event, want bool) {
				e.Helper()
				if got, err := search.Holds(context.Background(), t, of); got != want || err != nil {
					e.Errorf("Holds(%s, %q of task %q) = %v, %v %s, want %v", t.ID, of.ID, of.TaskID, got, err, when, want)
				}
			}
			some := with(func(o *transport.Event) { o.ID = "" })
			check := func(when string, want bool) {
				e.Helper()
				holds(when, worker, &about, want)
				holds(when, worker, some, want)
			}
			check("while it waits", true)
			holds("while it waits", worker, sent, true)
			for _, other := range []*transport.Event{
				with(func(o *transport.Event) { o.ID = "another" }), with(func(o *transport.Event) { o.TaskID = "t2" }),
				with(func(o *transport.Event) { o.ContextID = "c2" }), with(func(o *transport.Event) { o.From = "somebody" }),
			} {
				holds("of another one", worker, other, false)
			}
			holds("elsewhere", transport.Inbox("acme", worker.ID), &about, false)
			holds("elsewhere", transport.Inbox("", "nobody"), &about, false)
			d := e.desk(e.dial(), worker, nil)
			d.take("x")
			v := d.expect("x")
			check("while it is handled", true)
			v.done(nil)
			e.eventually("it is gone when it is acknowledged", func() bool {
				held, err := search.Holds(context.Background(), worker, &about)
				return !held && err == nil
			})
			e.wantIs(errOf(search.Holds(context.Background(), transport.Live("", "c"), &about)), transport.ErrInvalid, "Holds of what is no inbox")
			_ = e.tr.Close()
			e.wantIs(errOf(search.Holds(context.Background(), worker, &about)), transport.ErrClosed, "Holds after Close")
		},
	},
	{
		name:  "watch of many inboxes",
		needs: func(_ Node, tr transport.Transport) bool { _, ok := tr.(transport.InboxWatcher); return ok },
		run: func(e *env) {
			inbox := func(i int) transport.Topic { return transport.Inbox("", fmt.Sprint("agent.", i)) }
			e.say(inbox(0), "c", "before")
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			watch, err := e.dial().(transport.InboxWatcher).WatchInboxes(ctx)
			if err != nil {
				e.Fatalf("WatchInboxes = %v", err)
			}
			woken, served := make(chan transport.Topic, 100), make(chan error, 1)
			go func() { served <- watch.Serve(ctx, func(t transport.Topic) { woken <- t }) }()
			// wakes waits for an inbox to be woken; others may be woken again, except those in not.
			wakes := func(want transport.Topic, not ...transport.Topic) {
				e.Helper()
				for timeout := time.After(patience); ; {
					select {
					case t := <-woken:
						if slices.Contains(not, t) {
							e.Errorf("woken for %v, which is not watched", t)
						}
						if t == want {
							return
						}
					case <-timeout:
						e.Fatalf("not woken for %v", want)
					}
				}
			}
			if err := watch.Add(ctx, inbox(0), inbox(1), inbox(2)); err != nil {
				e.Fatalf("Add = %v", err)
			}
			wakes(inbox(0))
			e.say(inbox(3), "c", "not watched")
			e.say(transport.Inbox("acme", "agent.1"), "c", "another tenant's")
			e.say(inbox(1), "c", "x")
			wakes(inbox(1), inbox(3), transport.Inbox("acme", "agent.1"))
			d := e.desk(e.dial(), inbox(1), nil)
			d.take("x")
			e.say(inbox(1), "c", "y")
			d.take("y")
			wakes(inbox(1), inbox(3))
			if err := watch.Add(ctx, inbox(3), inbox(2)); err != nil {
				e.Fatalf("Add = %v", err)
			}
			wakes(inbox(3))
			watch.Remove(inbox(0))
			e.say(inbox(2), "c", "x")
			wakes(inbox(2))
			e.wantIs(watch.Add(ctx, transport.Live("", "c")), transport.ErrInvalid, "Add of what is no inbox")
			e.wantIs(errors.Join(watch.Close(), watch.Close()), nil, "Close")
			e.wantIs(<-served, transport.ErrClosed, "Serve after Close")
			e.wantIs(watch.Add(ctx, inbox(4)), transport.ErrClosed, "Add after Close")
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
			e.wantIs(h.Healthy(ctx), nil, "Healthy")
			_ = e.tr.Close()
			e.wantIs(h.Healthy(ctx), transport.ErrClosed, "Healthy after Close")
		},
	},
	{name: "questions after close", run: func(e *env) {
		_ = e.tr.Close()
		if tr, ok := e.tr.(transport.InboxDepth); ok {
			e.wantIs(errOf(tr.Waiting(context.Background(), worker)), transport.ErrClosed, "Waiting after Close")
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
