package transporttest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

var giveUpCases = []testCase{
	{name: "given up after too many failures", run: func(e *env) { e.giveUp(orchestrator, nil) }},
	{name: "given up after too many failures, without order", run: func(e *env) { e.giveUp(worker, unordered) }},
	{name: "panics are failures", run: func(e *env) {
		sub := e.subscribe(e.dial(), orchestrator, nil)
		var calls atomic.Int64
		done := make(chan struct{})
		e.serve(sub, func(_ context.Context, ev *transport.Event) error {
			switch words(ev) {
			case "bad":
				if calls.Add(1); ev.Delivery == 2 {
					return transport.Permanent(errTry)
				}
				panic("cannot bear it")
			case "behind":
				close(done)
			}
			return nil
		})
		e.say(orchestrator, "c1", "bad")
		e.say(orchestrator, "c1", "behind")
		e.await(done, "the event behind one whose handler panics is handled")
		if n := calls.Load(); n != 2 {
			e.Errorf("the handler was called %d times, want twice", n)
		}
		if got := e.trouble(sub); got.GivenUp != 1 {
			e.Errorf("trouble %+v, want one that was given up", got)
		}
	}},
	{name: "panics on live topics and cards", run: func(e *env) {
		for _, t := range []transport.Topic{transport.Live("", "c1"), transport.Cards("")} {
			came := make(chan struct{}, 64)
			tr := e.dial()
			e.serve(e.subscribe(tr, t, nil), func(context.Context, *transport.Event) error {
				came <- struct{}{}
				panic("cannot bear it")
			})
			for i := range 2 {
				ev := e.message(t, "c1", "x")
				if t.Kind == transport.KindCards {
					ev = e.card("", fmt.Sprint("agent", i), "1", 0)
				}
				e.publish(e.tr, t, ev)
			}
			for range 2 {
				select {
				case <-came:
				case <-time.After(patience):
					e.Fatalf("%v: nothing came behind an event whose handler panicked", t)
				}
			}
		}
	}},
	{name: "somebody is told before the dead letter", run: func(e *env) {
		type told struct {
			*transport.Event
			reason error
			answer chan error
		}
		asked := make(chan told)
		o := &transport.SubscribeOptions{OnGivenUp: func(ctx context.Context, ev *transport.Event, reason error) error {
			v := told{ev, reason, make(chan error, 1)}
			select {
			case asked <- v:
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case err := <-v.answer:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		next := func() told {
			select {
			case v := <-asked:
				return v
			case <-time.After(patience):
				e.Fatalf("nobody is told that an event is given up")
				panic("not reached")
			}
		}
		first := e.dial()
		d := e.desk(first, orchestrator, o)
		unreadable := e.message(orchestrator, "c1", "")
		unreadable.TaskID = "t1"
		unreadable.Payload = &transport.Opaque{Kind: "task", Version: transport.PayloadVersion, Data: []byte(`{"id":"t1","status":null`)}
		e.publish(e.tr, orchestrator, unreadable)
		e.say(orchestrator, "c1", "hopeless")
		next().answer <- fmt.Errorf("%w: not now", transport.ErrUnavailable)
		v := next()
		e.same(v.Event, unreadable)
		if !strings.Contains(v.reason.Error(), "cannot be read") {
			e.Errorf("reason %q, want that it cannot be read", v.reason)
		}
		e.wantDead(orchestrator, 0, "")
		// An event whose handler is ended in between is left to the next subscriber.
		first.Close()
		d.returned()
		d = e.desk(e.dial(), orchestrator, o)
		v = next()
		e.same(v.Event, unreadable)
		v.answer <- nil
		d.expect("hopeless").done(transport.Permanent(errTry))
		if v := next(); words(v.Event) != "hopeless" || v.reason.Error() != errTry.Error() {
			e.Errorf("told of %q: %v, want %q: %v", words(v.Event), v.reason, "hopeless", errTry)
		} else {
			v.answer <- errTry // not ErrUnavailable: the event is given up all the same
		}
		e.say(orchestrator, "c1", "good")
		d.take("good")
		e.wantDead(orchestrator, 2, errTry.Error())
	}},
}

// giveUp makes one event fail by itself until it is given up, and another one for a while because a dependency is unavailable.
func (e *env) giveUp(t transport.Topic, o *transport.SubscribeOptions) {
	e.Helper()
	d := e.desk(e.dial(), t, o)
	e.say(t, "c1", "bad")
	e.say(t, "c2", "later")
	left := map[string]bool{"later": true}
	if o == nil {
		e.say(t, "c1", "behind")
		left["behind"] = true
	}
	for fails, waits := 0, 0; fails < transport.MaxFailures || len(left) > 0; {
		v := d.next()
		switch text := words(v.Event); {
		case text == "bad" && fails < transport.MaxFailures:
			fails++
			v.done(fmt.Errorf("bad for the %d. time", fails))
		case text == "later" && waits < transport.MaxFailures/2:
			waits++
			v.done(fmt.Errorf("%w: for the %d. time", transport.ErrUnavailable, waits))
		case left[text] && (text == "later" || fails == transport.MaxFailures):
			v.done(nil)
			delete(left, text)
		default:
			e.Fatalf("%q came (delivery %d) after %d failures, want it given up, and what is behind it then", text, v.Delivery, fails)
		}
	}
	e.wantDead(t, 1, fmt.Sprintf("bad for the %d. time", transport.MaxFailures))
	e.eventually("it counts as given up", func() bool { return e.trouble(d.sub).GivenUp > 0 }) // behind its dead letter
	if got := e.trouble(d.sub); got.GivenUp != 1 || got.Last.ContextID != "c1" || !strings.Contains(fmt.Sprint(got.Last.Err), "bad for the") {
		e.Errorf("trouble %+v, want the one that was given up", got)
	}
}

// trouble returns the Trouble of an inbox's subscription.
func (e *env) trouble(s transport.Subscription) transport.Trouble {
	e.Helper()
	t, ok := s.(transport.Troubled)
	if !ok {
		e.Fatalf("%T is no Troubled", s)
	}
	return t.Trouble()
}

// wantDead waits for n dead letters of an inbox, the last one with this reason, if the transport keeps dead letters.
func (e *env) wantDead(t transport.Topic, n int, reason string) {
	e.Helper()
	if _, ok := e.tr.(transport.DeadLetters); !ok {
		return
	}
	var of []*transport.DeadLetter
	e.eventually(fmt.Sprint(n, " dead letters"), func() bool {
		of = nil
		for _, l := range e.dead(e.tr, t.Tenant) {
			if l.Topic == t {
				of = append(of, l)
			}
		}
		return len(of) == n
	})
	if n > 0 && !strings.Contains(of[n-1].Reason, reason) {
		e.Errorf("the reason is %q, want %q in it", of[n-1].Reason, reason)
	}
}
