package transporttest

import (
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

var delayCases = []testCase{
	{name: "delay until DeliverAt", run: func(e *env) {
		d := e.desk(e.dial(), worker, nil)
		want := e.delayed(worker, "c1", "later", 400*time.Millisecond)
		e.publish(e.tr, worker, want)
		e.publish(e.tr, worker, want) // the same id
		e.say(worker, "c1", "now")
		d.take("now") // an event that is not due blocks nothing
		got := d.take("later")
		if now := time.Now(); now.Before(want.DeliverAt) {
			e.Errorf("delivered %v before its time", want.DeliverAt.Sub(now))
		}
		e.same(got, want)
		e.publish(e.tr, worker, want)
		d.nothing("its id was published before")
	}},
	{name: "delay replaced by the next", run: func(e *env) {
		other := transport.Inbox("", "other")
		d, od := e.desk(e.dial(), worker, nil), e.desk(e.dial(), other, nil)
		first := e.delayed(worker, "c1", "first", 300*time.Millisecond)
		e.publish(e.tr, worker, first)
		e.publish(e.dial(), worker, e.delayed(worker, "c1", "second", 600*time.Millisecond))
		e.publish(e.tr, worker, first) // a duplicate replaces nothing
		// Other conversations and other inboxes have their own timers.
		e.publish(e.tr, worker, e.delayed(worker, "c2", "c2", 100*time.Millisecond))
		e.publish(e.tr, other, e.delayed(other, "c1", "other", 100*time.Millisecond))
		d.take("c2")
		d.take("second")
		d.nothing("the first was replaced")
		od.take("other")
		// An earlier time replaces a later one as well, and a delivered event replaces nothing.
		e.publish(e.tr, worker, e.delayed(worker, "c1", "far", time.Hour))
		e.publish(e.tr, worker, e.delayed(worker, "c1", "near", 100*time.Millisecond))
		d.take("near")
		e.publish(e.tr, worker, e.delayed(worker, "c1", "after", 100*time.Millisecond))
		d.take("after")
	}},
	{name: "delay already over", run: func(e *env) {
		d := e.desk(e.dial(), worker, nil)
		e.publish(e.tr, worker, e.delayed(worker, "c1", "replaced", 400*time.Millisecond))
		want := e.delayed(worker, "c1", "past", -time.Hour)
		e.publish(e.tr, worker, want)
		e.same(d.take("past"), want)
		e.publish(e.tr, worker, e.delayed(worker, "c2", "last", 500*time.Millisecond))
		d.take("last")
		d.nothing("the first was replaced")
	}},
	{name: "delay while nobody listens", run: func(e *env) {
		want := e.delayed(worker, "c1", "later", 100*time.Millisecond)
		e.publish(e.tr, worker, want)
		<-time.After(time.Until(want.DeliverAt))
		e.same(e.desk(e.dial(), worker, nil).take("later"), want)
	}},
	{name: "delay waits its turn", run: func(e *env) {
		// An event that becomes due is queued like any other.
		d := e.desk(e.dial(), worker, nil)
		e.say(worker, "c1", "running")
		v := d.expect("running")
		due := e.delayed(worker, "c1", "due", 50*time.Millisecond)
		e.publish(e.tr, worker, due)
		<-time.After(time.Until(due.DeliverAt))
		d.nothing("another event of the conversation is handled")
		v.done(nil)
		d.take("due")
	}},
}
