package transporttest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

var eraseCases = []testCase{
	{
		name: "erase a conversation",
		needs: func(n Node, tr transport.Transport) bool {
			_, ok := tr.(transport.Eraser)
			return ok && keepsDead(n, tr)
		},
		run: func(e *env) {
			eraser := e.tr.(transport.Eraser)
			gone, alike := "c.1", "c" // one token is a prefix of the other
			away, late := transport.Inbox("acme", "away"), transport.Inbox("acme", "late")
			acme := transport.Inbox("acme", "worker")
			d := e.desk(e.dial(), acme, nil)
			for _, c := range []string{gone, alike} {
				e.bury(d, acme, c, "bad")
				for i := range 3 {
					e.say(away, c, fmt.Sprint(i))
				}
				e.publish(e.tr, late, e.delayed(late, c, "late", 500*time.Millisecond))
			}
			defaults := transport.Inbox("", "away")
			e.say(defaults, gone, "of another tenant")
			for range 2 {
				e.erase(eraser, "acme", gone)
			}
			if n := e.waiting(away); n > 3 {
				e.Errorf("%d events wait after erasing, want 3", n)
			}
			if dead := e.dead(e.tr, "acme"); len(dead) != 1 || dead[0].Event.ContextID != alike {
				e.Errorf("%d dead letters are left, want the one of the other conversation", len(dead))
			}
			a := e.desk(e.dial(), away, nil)
			for i := range 3 {
				if got := a.take(fmt.Sprint(i)); got.ContextID != alike {
					e.Errorf("an event of %s was delivered, which is erased", got.ContextID)
				}
			}
			l := e.desk(e.dial(), late, nil)
			if got := l.take("late"); got.ContextID != alike {
				e.Errorf("the timer of %s fired, which is erased", got.ContextID)
			}
			a.nothing("the rest is erased")
			l.nothing("the other one is erased")
			e.desk(e.dial(), defaults, nil).take("of another tenant")

			// The conversation can begin again.
			e.say(away, gone, "anew")
			a.take("anew")
			e.drained(away)
		},
	},
	{
		name:  "erase what is handled",
		needs: func(_ Node, tr transport.Transport) bool { _, ok := tr.(transport.Eraser); return ok },
		run: func(e *env) {
			d := e.desk(e.dial(), worker, nil)
			e.say(worker, "c1", "running")
			v := d.expect("running")
			e.say(worker, "c1", "waiting")
			e.erase(e.tr.(transport.Eraser), "", "c1")
			e.say(worker, "c1", "anew")
			v.done(nil)
			w := d.next()
			if words(w.Event) == "waiting" { // it may have reached the subscriber before
				w.done(nil)
				w = d.next()
			}
			if got := words(w.Event); got != "anew" {
				e.Errorf("%q was delivered, want what was said after erasing", got)
			}
			w.done(nil)
			e.drained(worker)
			_ = e.tr.Close()
			e.wantIs(e.tr.(transport.Eraser).Erase(context.Background(), "", "c1"), transport.ErrClosed, "Erase after Close")
		},
	},
}

// erase erases a conversation, and repeats that while the transport is unavailable.
func (e *env) erase(eraser transport.Eraser, tenant, contextID string) {
	e.Helper()
	end := time.Now().Add(3 * patience) // it rewrites files, which takes long on a slow machine with the race detector
	for {
		err := eraser.Erase(context.Background(), tenant, contextID)
		if err == nil {
			return
		}
		if !errors.Is(err, transport.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) || time.Now().After(end) {
			e.Fatalf("Erase = %v, want nil", err)
		}
	}
}
