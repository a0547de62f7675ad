package transporttest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

var errTry = errors.New("not now")

var retryCases = []testCase{
	{name: "retry after an error", run: func(e *env) {
		d := e.desk(e.dial(), orchestrator, nil)
		want := e.say(orchestrator, "c1", "first")
		e.say(orchestrator, "c1", "second")
		for i := 1; i <= 3; i++ {
			v := d.expect("first")
			if v.Delivery != i {
				e.Errorf("Delivery = %d, want %d", v.Delivery, i)
			}
			e.same(v.Event, want)
			v.Payload, v.From, v.ContextID = nil, "spoiled", "spoiled" // the handler owns it
			v.done(errTry)
		}
		e.say(orchestrator, "c2", "other") // other conversations continue
		var gone bool
		for !gone {
			v := d.next()
			switch words(v.Event) {
			case "first":
				v.done(errTry)
			case "other":
				v.done(nil)
				gone = true
			default:
				e.Fatalf("%q came, want it to wait for the first", words(v.Event))
			}
		}
		d.take("first")
		if v := d.expect("second"); v.Delivery != 1 {
			e.Errorf("Delivery of the second = %d, want 1", v.Delivery)
		} else {
			v.done(nil)
		}
		d.nothing("both were acknowledged")
	}},
	{name: "retry waits a little", run: func(e *env) {
		// A handler that always fails must not be called in a tight loop.
		d := e.desk(e.dial(), worker, unordered)
		e.say(worker, "c1", "x")
		begin := time.Now()
		for range 3 {
			d.expect("x").done(errTry)
		}
		d.take("x")
		if took := time.Since(begin); took < 10*time.Millisecond {
			e.Errorf("four deliveries in %v, want a delay between them", took)
		}
	}},
	{name: "retry by another subscriber", run: func(e *env) {
		a, b := e.desk(e.dial(), worker, oneByOne), e.desk(e.dial(), worker, oneByOne)
		e.say(worker, "c1", "failing")
		failed, other, v := either(a, b)
		e.say(worker, "c1", "2")
		busy := other.expect("2")
		e.say(worker, "c1", "3")
		v.done(errTry)
		failed.expect("3") // and stays busy with it
		busy.done(nil)
		w := other.expect("failing")
		if w.Delivery != 2 {
			e.Errorf("Delivery = %d, want 2", w.Delivery)
		}
		w.done(nil)
	}},
	{name: "retry not of what is permanent", run: func(e *env) {
		for _, o := range []*transport.SubscribeOptions{nil, unordered} {
			t := transport.Inbox("", fmt.Sprint("worker-", o != nil))
			d := e.desk(e.dial(), t, o)
			e.say(t, "c1", "hopeless")
			d.expect("hopeless").done(fmt.Errorf("wrapped: %w", transport.Permanent(errTry)))
			e.say(t, "c1", "next")
			d.take("next")
			d.nothing("the error was permanent")
		}
	}},
	{
		name:  "dead letters",
		needs: func(_ Node, tr transport.Transport) bool { _, ok := tr.(transport.DeadLetters); return ok },
		run: func(e *env) {
			acme := transport.Inbox("acme", "worker")
			d := e.desk(e.dial(), acme, nil)
			var want []*transport.Event
			for i := range 3 {
				text := fmt.Sprint("bad ", i)
				want = append(want, e.say(acme, "c1", text))
				d.expect(text).done(errTry)
				d.expect(text).done(transport.Permanent(fmt.Errorf("cannot do %d: naïve", i)))
			}
			e.say(acme, "c1", "good")
			d.take("good")
			var dead []*transport.DeadLetter
			e.eventually("three dead letters", func() bool {
				dead = e.dead(e.tr, "acme")
				return len(dead) >= 3
			})
			if len(dead) != 3 {
				e.Fatalf("%d dead letters, want 3", len(dead))
			}
			for i, l := range dead {
				e.same(l.Event, want[i])
				if reason := fmt.Sprintf("cannot do %d: naïve", i); l.Reason != reason || l.Topic != acme || l.Deliveries != 2 {
					e.Errorf("dead letter %d: reason %q, topic %v, deliveries %d, want %q, %v, 2", i, l.Reason, l.Topic, l.Deliveries, reason, acme)
				}
				if age := time.Since(l.Time); age < -time.Minute || age > time.Hour {
					e.Errorf("dead letter %d: time %v is not now", i, l.Time)
				}
			}
			if dead := e.dead(e.tr, ""); len(dead) != 0 {
				e.Errorf("%d dead letters of the default tenant, want none", len(dead))
			}
			for range e.tr.(transport.DeadLetters).DeadLetters(context.Background(), "acme") {
				break // stopping early is allowed
			}
		},
	},
	{
		name:  "dead letters of what cannot be read",
		needs: func(_ Node, tr transport.Transport) bool { _, ok := tr.(transport.DeadLetters); return ok },
		run: func(e *env) {
			d := e.desk(e.dial(), worker, nil)
			var want []*transport.Event
			for _, data := range []string{"{no json", `{"messageId":"m1"}`, ""} {
				ev := e.message(worker, "c1", "")
				ev.Payload = &transport.Opaque{Kind: "message", Version: transport.PayloadVersion, Data: []byte(data)}
				e.publish(e.tr, worker, ev)
				want = append(want, ev)
			}
			e.say(worker, "c1", "good")
			d.take("good")
			var dead []*transport.DeadLetter
			e.eventually("three dead letters", func() bool {
				dead = e.dead(e.tr, "")
				return len(dead) >= 3
			})
			for i, l := range dead {
				e.same(l.Event, want[i])
				if l.Reason == "" {
					e.Errorf("dead letter %d has no reason", i)
				}
			}
		},
	},
}

// dead lists a tenant's dead letters.
func (e *env) dead(tr transport.Transport, tenant string) []*transport.DeadLetter {
	e.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var all []*transport.DeadLetter
	for l, err := range tr.(transport.DeadLetters).DeadLetters(ctx, tenant) {
		if err != nil {
			e.Fatalf("DeadLetters(%q): %v", tenant, err)
		}
		all = append(all, l)
	}
	return all
}
