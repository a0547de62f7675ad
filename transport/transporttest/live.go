package transporttest

import (
	"context"
	"fmt"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

var liveCases = []testCase{
	{name: "live to everyone who listens", run: func(e *env) {
		t := transport.Live("", "c1")
		e.say(t, "c1", "to nobody") // succeeds, and is not retained
		// The publisher's own side subscribes first: once it is active, what was published before has passed. Another side may subscribe while an event
		// is still under way, and may then get it.
		c := e.subscribe(e.tr, t, nil)
		a, b := e.subscribe(e.dial(), t, nil), e.subscribe(e.dial(), t, nil)
		want := e.say(t, "c1", "hello")
		var desks []*desk
		for _, sub := range []transport.Subscription{a, b, c} {
			d := e.open(sub)
			e.same(d.take("hello"), want)
			desks = append(desks, d)
		}
		e.nobody("one event was published since they subscribed", desks...)
	}},
	{name: "live events have one owner each, and one payload", run: func(e *env) {
		// All subscribers read the payload at the same time, while each does what it likes with its event.
		t := transport.Live("", "c1")
		const readers = 4
		got := make(chan *transport.Event, readers)
		for i := range readers {
			tr := e.tr
			if i == 0 {
				tr = e.dial()
			}
			e.serve(e.subscribe(tr, t, nil), func(_ context.Context, ev *transport.Event) error {
				kept := *ev
				_, _, body, err := transport.EncodePayload(ev.Payload)
				if err != nil {
					return err
				}
				*ev = transport.Event{ID: "another", Payload: &transport.Opaque{Data: body}}
				got <- &kept
				return nil
			})
		}
		want := e.message(t, "c1", "hello")
		said := want.Payload.(*a2a.Message)
		said.Metadata = map[string]any{"list": []any{"a", map[string]any{"n": 1.5}}}
		said.Parts = append(said.Parts, a2a.NewDataPart(map[string]any{"rows": []any{1.0, nil, "x"}}), &a2a.Part{Content: a2a.Raw("a file"), Filename: "f"})
		e.publish(e.tr, t, want)
		for range readers {
			select {
			case ev := <-got:
				e.same(ev, want)
			case <-time.After(patience):
				e.Fatalf("an event was not delivered after %v", patience)
			}
		}
	}},
	{name: "live only of its topic", run: func(e *env) {
		topics := []transport.Topic{
			transport.Live("", "c1"), transport.Live("", "c2"), transport.Live("acme", "c1"),
			transport.Control("", "c1"), transport.Control("", "c2"),
		}
		var desks []*desk
		for _, t := range topics {
			desks = append(desks, e.desk(e.dial(), t, nil))
		}
		for i, t := range topics {
			e.say(t, "c1", fmt.Sprint(i))
		}
		for i, d := range desks {
			d.take(fmt.Sprint(i))
		}
		e.nobody("one event per topic was published", desks...)
	}},
	{name: "live in order", run: func(e *env) {
		// Text is streamed in pieces: those of one publisher arrive in order, one at a time.
		t := transport.Live("", "c1")
		d := e.desk(e.dial(), t, nil)
		const n = 50
		for i := range n {
			ev := e.message(t, "c1", "")
			ev.Payload = &transport.Delta{Turn: "t", Attempt: "1", Text: fmt.Sprint(i)}
			e.publish(e.tr, t, ev)
		}
		for i := range n {
			v := d.next()
			if delta, ok := v.Payload.(*transport.Delta); !ok || delta.Text != fmt.Sprint(i) {
				e.Fatalf("piece %d is %+v", i, v.Payload)
			}
			if i == 0 {
				d.nothing("the first piece is still handled")
			}
			v.done(nil)
		}
	}},
	{name: "live failures are not repeated", run: func(e *env) {
		t := transport.Live("", "c1")
		d := e.desk(e.dial(), t, nil)
		e.say(t, "c1", "x")
		e.say(t, "c1", "y")
		d.expect("x").done(errTry)
		d.expect("y").done(transport.Permanent(errTry))
		d.nothing("live events come once")
		e.say(t, "c1", "z")
		d.take("z")
	}},
	{name: "live control reaches all instances", run: func(e *env) {
		t := transport.Control("", "worker")
		a, b := e.desk(e.dial(), t, nil), e.desk(e.dial(), t, nil)
		ev := e.message(t, "c1", "")
		ev.Payload, ev.TaskID = &transport.Cancel{TaskID: "t1", Reason: "no longer needed"}, a2a.TaskID("t1")
		e.publish(e.tr, t, ev)
		for _, d := range []*desk{a, b} {
			v := d.next()
			e.same(v.Event, ev)
			v.done(nil)
		}
	}},
	{name: "live ends with its subscription", run: func(e *env) {
		t := transport.Live("", "c1")
		a, b := e.desk(e.dial(), t, nil), e.desk(e.dial(), t, nil)
		if err := a.sub.Close(); err != nil {
			e.Fatal(err)
		}
		a.returned()
		e.say(t, "c1", "x")
		b.take("x")
	}},
}
