package transporttest

import (
	"context"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

func restarts(n Node, _ transport.Transport) bool { _, ok := n.(Restarter); return ok }

// restart restarts the world and dials it.
func (e *env) restart() {
	e.Helper()
	e.node.(Restarter).Restart(e.T)
	e.tr = e.dial()
}

var restartCases = []testCase{
	{name: "restart keeps inboxes", needs: restarts, run: func(e *env) {
		d := e.desk(e.dial(), orchestrator, nil)
		e.say(orchestrator, "c1", "done")
		d.take("done")
		running := e.say(orchestrator, "c1", "running")
		e.say(orchestrator, "c1", "waiting")
		e.say(orchestrator, "c2", "waiting too")
		for range 2 {
			d.next() // of c1 and c2, never acknowledged
		}
		if depth, ok := e.tr.(transport.InboxDepth); ok { // the acknowledgement has arrived
			e.eventually("three are left", func() bool { n, _ := depth.Waiting(context.Background(), orchestrator); return n == 3 })
		}
		e.restart()
		e.publish(e.tr, orchestrator, running) // still known to the transport
		d = e.desk(e.dial(), orchestrator, nil)
		got := map[string][]string{}
		for range 3 {
			v := d.next()
			got[v.ContextID] = append(got[v.ContextID], words(v.Event))
			if v.ID == running.ID {
				e.same(v.Event, running)
			}
			v.done(nil)
		}
		if fmt.Sprint(got) != "map[c1:[running waiting] c2:[waiting too]]" {
			e.Errorf("after the restart came %v", got)
		}
		d.nothing("the rest was acknowledged, or has a known id")
	}},
	{name: "restart keeps delayed events", needs: restarts, run: func(e *env) {
		overdue := e.delayed(orchestrator, "c1", "overdue", 100*time.Millisecond)
		later := e.delayed(orchestrator, "c2", "later", 1500*time.Millisecond)
		e.publish(e.tr, orchestrator, overdue)
		e.publish(e.tr, orchestrator, later)
		e.restart()
		d := e.desk(e.dial(), orchestrator, nil)
		e.same(d.take("overdue"), overdue)
		e.same(d.take("later"), later)
		if now := time.Now(); now.Before(later.DeliverAt) {
			e.Errorf("delivered %v before its time", later.DeliverAt.Sub(now))
		}
		d.nothing("both came")
	}},
	{name: "restart keeps cards", needs: restarts, run: func(e *env) {
		want := e.announce("", "a", "1", 0)
		e.announce("", "a", "2", time.Hour)
		e.announce("", "dies", "1", time.Second)
		e.announce("", "b", "1", 0)
		e.publish(e.tr, transport.Cards(""), e.left("", "b", "1"))
		e.restart()
		d := e.desk(e.dial(), transport.Cards(""), nil)
		seen := map[string]int{}
		for seen["synced"] == 0 {
			v := d.next()
			seen[label(v.Event)]++
			if label(v.Event) == "a/1" {
				e.same(v.Event, want)
			}
			v.done(nil)
		}
		if seen["a/1"] != 1 || seen["a/2"] != 1 || seen["b/1"] != 0 {
			e.Errorf("after the restart came %v, want a/1 and a/2", seen)
		}
		if seen["dies/1"] == 1 && seen["dies/1 expired"] == 0 { // its TTL had not passed yet
			d.change("dies/1 expired")
		}
		e.desk(e.dial(), transport.Cards(""), nil).retained("a/1", "a/2")
	}},
	{
		name: "restart keeps dead letters",
		needs: func(n Node, tr transport.Transport) bool {
			_, ok := tr.(transport.DeadLetters)
			return ok && restarts(n, tr)
		},
		run: func(e *env) {
			d := e.desk(e.dial(), worker, nil)
			want := e.say(worker, "c1", "bad")
			d.expect("bad").done(transport.Permanent(errTry))
			e.eventually("one dead letter", func() bool { return len(e.dead(e.tr, "")) == 1 })
			if depth, ok := e.tr.(transport.InboxDepth); ok { // the acknowledgement has arrived; the dead letter was stored before
				e.eventually("nothing waits", func() bool { n, _ := depth.Waiting(context.Background(), worker); return n == 0 })
			}
			e.restart()
			dead := e.dead(e.tr, "")
			if len(dead) != 1 || dead[0].Reason != errTry.Error() {
				e.Fatalf("dead letters after the restart: %d, want the one", len(dead))
			}
			e.same(dead[0].Event, want)
			e.desk(e.dial(), worker, nil).nothing("it was given up")
		},
	},
}
