package transporttest

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// handoverCases are about the events that a subscriber holds when it ends.
var handoverCases = []testCase{
	{name: "handover at once", run: func(e *env) {
		for _, o := range []*transport.SubscribeOptions{nil, unordered} {
			for _, how := range []string{"subscription", "context", "transport"} {
				t := transport.Inbox(how, transport.Cortex)
				if o != nil {
					t = transport.Inbox(how, "worker")
				}
				tr := e.dial()
				a := e.desk(tr, t, o)
				want := e.say(t, "c1", "first")
				e.say(t, "c1", "second")
				v := a.next()
				b := e.desk(e.dial(), t, o)
				switch how {
				case "subscription":
					_ = a.sub.Close()
				case "context":
					a.cancel()
				case "transport":
					_ = tr.Close()
				}
				select {
				case <-v.ctx.Done():
				case <-time.After(patience):
					e.Fatalf("the handler's context did not end with the %s", how)
				}
				a.returned()
				got := map[string]int{}
				var texts []string
				for range 2 {
					v := b.within(soon)
					got[words(v.Event)] = v.Delivery
					texts = append(texts, words(v.Event))
					if v.ID == want.ID {
						e.same(v.Event, want)
					}
					v.done(nil)
				}
				if got["first"] == 0 || got["second"] == 0 {
					e.Errorf("%s closed: %v were delivered again, want both events", how, texts)
				}
				if o == nil && (texts[0] != "first" || got["first"] != 2) {
					e.Errorf("%s closed: %v came with deliveries %v, want the first with 2, then the second", how, texts, got)
				}
				if o != nil && got[words(v.Event)] != 2 {
					e.Errorf("%s closed: delivery %d, want 2", how, got[words(v.Event)])
				}
			}
		}
	}},
	{name: "handover after running handlers", run: func(e *env) {
		for how, o := range map[string]*transport.SubscribeOptions{"subscription": nil, "context": unordered} {
			t := orchestrator
			if o != nil {
				t = worker
			}
			sub := e.subscribe(e.dial(), t, o)
			running, ended, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
			s := e.serve(sub, func(ctx context.Context, _ *transport.Event) error {
				close(running)
				<-ctx.Done()
				close(ended)
				<-release
				return nil // it succeeds after all
			})
			e.say(t, "c1", "x")
			e.await(running, "the event is delivered")
			b := e.desk(e.dial(), t, o)
			if how == "subscription" {
				_ = sub.Close()
			} else {
				s.cancel()
			}
			e.await(ended, "the handler's context ends")
			b.nothing("its handler still runs")
			// Other conversations continue, except those in the same partition.
			e.say(t, farFrom("c1"), "other")
			b.take("other")
			select {
			case <-s.done:
				e.Errorf("Serve returned %v while a handler was running", s.err)
			default:
			}
			close(release)
			_ = s.returned()
			b.nothing("it was acknowledged")
		}
	}},
	{
		name:  "handover without goodbye",
		needs: func(n Node, _ transport.Transport) bool { _, ok := n.(Killer); return ok },
		run: func(e *env) {
			tr := e.dial()
			a, ao := e.desk(tr, worker, oneByOne), e.desk(tr, orchestrator, nil)
			e.say(worker, "c1", "x")
			a.expect("x")
			for i := range 3 {
				e.say(orchestrator, "c1", fmt.Sprint(i))
			}
			ao.take("0")
			ao.expect("1")
			e.node.(Killer).Kill(e.T, tr)
			b, bo := e.desk(e.dial(), worker, oneByOne), e.desk(e.dial(), orchestrator, nil)
			b.take("x")
			if v := bo.next(); words(v.Event) == "0" { // its acknowledgement may have been lost with the client
				v.done(nil)
				bo.take("1")
			} else {
				if words(v.Event) != "1" {
					e.Errorf("%q came first, want 1", words(v.Event))
				}
				v.done(nil)
			}
			bo.take("2")
		},
	},
	{name: "handover not of slow work", run: func(e *env) {
		e.h.Slow = cmp.Or(e.h.Slow, quiet)
		a := []*desk{e.desk(e.dial(), worker, &transport.SubscribeOptions{Unordered: true, Concurrency: 2}), e.desk(e.dial(), orchestrator, nil)}
		var held []*delivery
		for _, t := range []transport.Topic{worker, orchestrator} {
			e.say(t, "c1", "slow")
			e.say(t, "c1", "behind it") // handled beside it or after it
		}
		held = append(held, a[0].next(), a[0].next(), a[1].expect("slow"))
		b := []*desk{e.desk(e.dial(), worker, unordered), e.desk(e.dial(), orchestrator, nil)}
		select {
		case v := <-b[0].in:
			e.Errorf("%q was delivered again (delivery %d) while it was handled", words(v.Event), v.Delivery)
		case v := <-b[1].in:
			e.Errorf("ordered: %q was delivered (delivery %d) while the first was handled", words(v.Event), v.Delivery)
		case v := <-a[0].in:
			e.Errorf("%q was delivered again (delivery %d) while it was handled", words(v.Event), v.Delivery)
		case v := <-a[1].in:
			e.Errorf("ordered: %q was delivered (delivery %d) while the first was handled", words(v.Event), v.Delivery)
		case <-time.After(e.h.Slow):
		}
		for _, v := range held {
			v.done(nil)
		}
		_, _, v := either(a[1], b[1])
		if words(v.Event) != "behind it" || v.Delivery != 1 {
			e.Errorf("%q came with delivery %d, want %q with 1", words(v.Event), v.Delivery, "behind it")
		}
		v.done(nil)
		b[0].nothing("both were acknowledged")
	}},
}

// farFrom returns a conversation whose partition is as far as possible from that of contextID.
func farFrom(contextID string) string {
	p := transport.Partition("", contextID)
	for i := 0; ; i++ {
		if id := fmt.Sprint("far-", i); transport.Partition("", id) == (p+transport.Partitions/2)%transport.Partitions {
			return id
		}
	}
}
