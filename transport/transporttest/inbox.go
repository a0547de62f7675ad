package transporttest

import (
	"context"
	"fmt"
	"sync"

	"github.com/cortex-orchestrator/cortex/transport"
)

var (
	unordered = &transport.SubscribeOptions{Unordered: true}
	oneByOne  = &transport.SubscribeOptions{Unordered: true, Concurrency: 1}
)

var inboxCases = []testCase{
	{name: "inbox active after subscribe", run: func(e *env) {
		sub := e.subscribe(e.dial(), worker, nil)
		want := e.say(worker, "c1", "hello")
		d := e.open(sub)
		got := d.take("hello")
		e.same(got, want)
		if got.Delivery != 1 {
			e.Errorf("Delivery = %d, want 1", got.Delivery)
		}
	}},
	{name: "inbox waits while nobody listens", run: func(e *env) {
		for i := range 5 {
			e.say(worker, "c1", fmt.Sprint(i))
		}
		d := e.desk(e.dial(), worker, nil)
		for i := range 5 {
			d.take(fmt.Sprint(i))
		}
		d.cancel()
		d.returned()
		e.say(worker, "c1", "between")
		e.desk(e.dial(), worker, nil).take("between")
	}},
	{name: "inbox not held by who does not serve", run: func(e *env) {
		e.subscribe(e.dial(), worker, nil) // active, but never served
		for i := range 10 {
			e.say(worker, "c1", fmt.Sprint(i))
		}
		d := e.desk(e.dial(), worker, nil)
		for i := range 10 {
			d.take(fmt.Sprint(i))
		}
	}},
	{name: "inbox shared by subscribers", run: func(e *env) {
		a, b := e.desk(e.dial(), worker, oneByOne), e.desk(e.dial(), worker, oneByOne)
		seen := map[string]int{}
		const n = 40
		for i := range n {
			e.say(worker, fmt.Sprint("c", i%3), fmt.Sprint(i))
		}
		for range n / 2 { // neither acknowledges before both have an event
			va, vb := a.next(), b.next()
			seen[words(va.Event)]++
			seen[words(vb.Event)]++
			va.done(nil)
			vb.done(nil)
		}
		e.nobody("all were handled", a, b)
		if len(seen) != n {
			e.Errorf("%d different events were handled, want %d: %v", len(seen), n, seen)
		}
	}},
	{name: "inbox shared by subscribers of one client", run: func(e *env) {
		a, b := e.desk(e.tr, worker, oneByOne), e.desk(e.tr, worker, oneByOne)
		e.say(worker, "c1", "x")
		e.say(worker, "c1", "y")
		va, vb := a.next(), b.next()
		if words(va.Event) == words(vb.Event) {
			e.Errorf("both subscribers got %q", words(va.Event))
		}
		va.done(nil)
		vb.done(nil)
	}},
	{name: "inbox ordered subscribers share too", run: func(e *env) {
		// The transport decides how they share; each event comes once.
		a, b := e.desk(e.dial(), worker, nil), e.desk(e.dial(), worker, nil)
		seen := map[string]int{}
		const n = 20
		for i := range n {
			e.say(worker, fmt.Sprint("c", i), fmt.Sprint(i))
		}
		for range n {
			_, _, v := either(a, b)
			seen[words(v.Event)]++
			v.done(nil)
		}
		e.nobody("all were handled", a, b)
		if len(seen) != n {
			e.Errorf("%d different events were handled, want %d: %v", len(seen), n, seen)
		}
	}},
	{name: "inbox only its own", run: func(e *env) {
		topics := []transport.Topic{worker, transport.Inbox("", "worker2"), transport.Inbox("acme", "worker"), transport.Inbox("", transport.Cortex)}
		var desks []*desk
		for _, t := range topics {
			desks = append(desks, e.desk(e.dial(), t, nil))
		}
		for _, t := range topics {
			e.say(t, "c1", t.Tenant+"/"+t.ID)
		}
		for i, t := range topics {
			desks[i].take(t.Tenant + "/" + t.ID)
		}
		e.nobody("one event per inbox was published", desks...)
	}},
	{name: "inbox same id stored once", run: func(e *env) {
		d := e.desk(e.dial(), worker, nil)
		first := e.message(worker, "c1", "first")
		e.publish(e.tr, worker, first)
		e.publish(e.dial(), worker, first)
		d.take("first")
		e.say(worker, "c1", "second")
		d.take("second")
		e.publish(e.tr, worker, first) // it was handled already
		e.say(worker, "c1", "third")
		d.take("third")
		d.nothing("its id was published before")
	}},
	{name: "inbox same id of others is another event", run: func(e *env) {
		d := e.desk(e.dial(), worker, nil)
		first := e.message(worker, "c1", "first")
		e.publish(e.tr, worker, first)
		d.take("first")
		elsewhere := e.message(worker, "c2", "elsewhere")
		elsewhere.ID = first.ID
		e.publish(e.tr, worker, elsewhere)
		d.take("elsewhere")
		another := e.message(worker, "c1", "another sender")
		another.ID, another.From = first.ID, "somebody-else"
		e.publish(e.tr, worker, another)
		d.take("another sender")
	}},
	{name: "inbox same id at once stored once", run: func(e *env) {
		d := e.desk(e.dial(), worker, unordered)
		ev := e.message(worker, "c1", "once")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				e.wantIs(e.tr.Publish(context.Background(), worker, ev), nil, "Publish")
			})
		}
		wg.Wait()
		d.take("once")
		d.nothing("one id was published")
	}},
	{name: "inbox same id in two inboxes stored twice", run: func(e *env) {
		for _, t := range []transport.Topic{worker, transport.Inbox("", "other"), transport.Inbox("acme", "worker")} {
			ev := e.message(t, "c1", "for "+t.Tenant+t.ID)
			ev.ID = "the-same"
			e.publish(e.tr, t, ev)
			e.desk(e.dial(), t, nil).take("for " + t.Tenant + t.ID)
		}
	}},
}
