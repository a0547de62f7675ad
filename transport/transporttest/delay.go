package transporttest

import (
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

var delayCases = []testCase{
	{name: "delay until DeliverAt", run: func(e *env) {
		e.inTime(func(inbox transport.Topic, wait time.Duration) bool {
			d := e.desk(e.dial(), inbox, nil)
			want := e.delayed(inbox, "c1", "later", wait)
			e.publish(e.tr, inbox, want)
			e.publish(e.tr, inbox, want) // the same id
			e.say(inbox, "c1", "now")
			v := d.next()
			if time.Now().After(want.DeliverAt) {
				return false
			}
			if v.done(nil); words(v.Event) != "now" {
				e.Fatalf("next event says %q: an event that is not due blocks nothing", words(v.Event))
			}
			got := d.take("later")
			if now := time.Now(); now.Before(want.DeliverAt) {
				e.Errorf("delivered %v before its time", want.DeliverAt.Sub(now))
			}
			e.same(got, want)
			e.publish(e.tr, inbox, want)
			d.nothing("its id was published before")
			return true
		})
	}},
	{name: "delay replaced by the next", run: func(e *env) {
		e.inTime(func(inbox transport.Topic, wait time.Duration) bool {
			other, second := transport.Inbox("", "other-"+inbox.ID), e.dial()
			d, od := e.desk(e.dial(), inbox, nil), e.desk(e.dial(), other, nil)
			first := e.delayed(inbox, "c1", "first", wait)
			e.publish(e.tr, inbox, first)
			e.publish(second, inbox, e.delayed(inbox, "c1", "second", 2*wait))
			e.publish(e.tr, inbox, first) // a duplicate replaces nothing
			// Other conversations and other inboxes have their own timers.
			e.publish(e.tr, inbox, e.delayed(inbox, "c2", "c2", wait/4))
			e.publish(e.tr, other, e.delayed(other, "c1", "other", wait/4))
			if time.Now().After(first.DeliverAt) {
				return false
			}
			d.take("c2")
			d.take("second")
			d.nothing("the first was replaced")
			od.take("other")
			// An earlier time replaces a later one as well, and a delivered event replaces nothing.
			e.publish(e.tr, inbox, e.delayed(inbox, "c1", "far", time.Hour))
			e.publish(e.tr, inbox, e.delayed(inbox, "c1", "near", 100*time.Millisecond))
			d.take("near")
			e.publish(e.tr, inbox, e.delayed(inbox, "c1", "after", 100*time.Millisecond))
			d.take("after")
			return true
		})
	}},
	{name: "delay already over", run: func(e *env) {
		e.inTime(func(inbox transport.Topic, wait time.Duration) bool {
			d := e.desk(e.dial(), inbox, nil)
			replaced := e.delayed(inbox, "c1", "replaced", wait)
			e.publish(e.tr, inbox, replaced)
			want := e.delayed(inbox, "c1", "past", -time.Hour)
			e.publish(e.tr, inbox, want)
			if time.Now().After(replaced.DeliverAt) {
				return false
			}
			e.same(d.take("past"), want)
			e.publish(e.tr, inbox, e.delayed(inbox, "c2", "last", wait+wait/4))
			d.take("last")
			d.nothing("the first was replaced")
			return true
		})
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

// inTime runs try until the machine is fast enough for it. try gets its own inbox and a wait, and returns false if it was not ready within that
// wait, so that what came then proves nothing. The wait doubles each time.
func (e *env) inTime(try func(inbox transport.Topic, wait time.Duration) bool) {
	e.Helper()
	wait := 400 * time.Millisecond
	for n := range 6 {
		if try(transport.Inbox("", fmt.Sprintf("worker-%d", n)), wait) {
			return
		}
		wait *= 2
	}
	e.Fatalf("not ready within %v: the machine is too slow", wait/2)
}
