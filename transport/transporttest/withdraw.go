package transporttest

import (
	"context"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

func withdraws(_ Node, tr transport.Transport) bool {
	_, ok := tr.(transport.Withdrawer)
	return ok
}

// withdraw withdraws ev.
func (e *env) withdraw(t transport.Topic, ev *transport.Event) {
	e.Helper()
	e.wantIs(e.tr.(transport.Withdrawer).Withdraw(context.Background(), t, ev.ContextID, ev.From, ev.ID), nil, "Withdraw(%s)", ev.ID)
}

// waiting returns the depth of an inbox, or -1 if the transport does not report it.
func (e *env) waiting(t transport.Topic) int {
	e.Helper()
	tr, ok := e.tr.(transport.InboxDepth)
	if !ok {
		return -1
	}
	n, err := tr.Waiting(context.Background(), t)
	if err != nil {
		e.Fatalf("Waiting(%v) = %v, want nil", t, err)
	}
	return n
}

// drained waits until an inbox is empty.
func (e *env) drained(t transport.Topic) {
	e.Helper()
	e.eventually("the inbox is empty", func() bool { return e.waiting(t) <= 0 })
}

var withdrawCases = []testCase{
	{name: "withdraw what waits", needs: withdraws, run: func(e *env) {
		for _, o := range []*transport.SubscribeOptions{nil, oneByOne} {
			t := transport.Inbox("acme", "ordered")
			if o != nil {
				t.ID = "unordered"
			}
			first, second, third := e.say(t, "c1", "first"), e.say(t, "c1", "second"), e.say(t, "c1", "third")
			e.withdraw(t, second)
			e.withdraw(t, second) // already withdrawn: no error
			// The same id elsewhere is another event.
			other := *third
			other.From = "somebody"
			e.publish(e.tr, t, &other)
			e.withdraw(t, third)
			e.withdraw(transport.Inbox("", t.ID), first)
			e.withdraw(transport.Inbox("acme", "nobody"), first)
			d := e.desk(e.dial(), t, o)
			d.take("first")
			if got := d.take("third"); got.From != "somebody" {
				e.Errorf("the third is from %s, want the one that was not withdrawn", got.From)
			}
			d.nothing("the second was withdrawn")
			e.drained(t)
		}
	}},
	{name: "withdraw what waits for its time", needs: withdraws, run: func(e *env) {
		late := e.delayed(worker, "c1", "late", 200*time.Millisecond)
		e.publish(e.tr, worker, late)
		kept := e.delayed(worker, "c2", "kept", 300*time.Millisecond)
		e.publish(e.tr, worker, kept)
		e.withdraw(worker, late)
		d := e.desk(e.dial(), worker, nil)
		d.take("kept")
		d.nothing("the other one was withdrawn")
	}},
	{name: "withdraw what is handled", needs: withdraws, run: func(e *env) {
		for _, o := range []*transport.SubscribeOptions{nil, unordered} {
			t := transport.Inbox("", "ordered")
			if o != nil {
				t.ID = "unordered"
			}
			d := e.desk(e.dial(), t, o)
			running := e.say(t, "c1", "running")
			v := d.expect("running")
			e.withdraw(t, running)
			select {
			case <-v.ctx.Done():
				e.Errorf("the handler's context ended, want it not to be told")
			case <-time.After(quiet):
			}
			v.done(nil)
			e.say(t, "c1", "next")
			d.take("next")
			e.drained(t)
			e.withdraw(t, running) // already acknowledged: no error

			// A later subscriber does not get it.
			failing := e.say(t, "c2", "failing")
			v = d.expect("failing")
			e.withdraw(t, failing)
			v.done(nil)
			e.drained(t)
			_ = d.sub.Close()
			d.returned()
			e.desk(e.dial(), t, o).nothing("all was withdrawn or acknowledged")
		}
	}},
	{name: "withdraw from what is no inbox", needs: withdraws, run: func(e *env) {
		w := e.tr.(transport.Withdrawer)
		e.wantIs(w.Withdraw(context.Background(), transport.Cards(""), "c1", "user", "x"), transport.ErrInvalid, "Withdraw from the cards")
		_ = e.tr.Close()
		e.wantIs(w.Withdraw(context.Background(), worker, "c1", "user", "x"), transport.ErrClosed, "Withdraw after Close")
	}},
}
