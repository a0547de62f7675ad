package transporttest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// topics has one topic of each kind.
var topics = []transport.Topic{worker, transport.Cards(""), transport.Live("", "c1")}

var closeCases = []testCase{
	{name: "close ends Serve", run: func(e *env) {
		for _, t := range topics {
			tr := e.dial()
			byTransport := e.desk(tr, t, nil)
			bySubscription := e.desk(tr, t, nil)
			byContext := e.desk(tr, t, nil)

			bySubscription.drain()
			byContext.drain()
			byTransport.drain()

			byContext.cancel()
			e.wantIs(byContext.returned(), context.Canceled, "%v: Serve after its context ended", t)
			e.wantIs(bySubscription.sub.Close(), nil, "%v: Subscription.Close", t)
			e.wantIs(bySubscription.returned(), transport.ErrClosed, "%v: Serve after the subscription's Close", t)
			e.wantIs(tr.Close(), nil, "Close")
			e.wantIs(byTransport.returned(), transport.ErrClosed, "%v: Serve after the transport's Close", t)
		}
	}},
	{name: "close before Serve", run: func(e *env) {
		ignore := func(_ context.Context, ev *transport.Event) error {
			e.Errorf("%s was handled after Close", ev.ID)
			return nil
		}
		e.say(worker, "c1", "waits")
		e.announce("", "a", "1", 0)
		for _, t := range topics {
			sub := e.subscribe(e.dial(), t, nil)
			if t.Kind == transport.KindLive {
				e.say(t, "c1", "was under way")
			}
			e.wantIs(sub.Close(), nil, "%v: Close", t)
			e.wantIs(sub.Serve(context.Background(), ignore), transport.ErrClosed, "%v: Serve after Close", t)
			tr := e.dial()
			sub = e.subscribe(tr, t, nil)
			e.wantIs(tr.Close(), nil, "%v: Close", t)
			e.wantIs(sub.Serve(context.Background(), ignore), transport.ErrClosed, "%v: Serve after the transport's Close", t)
			e.wantIs(sub.Close(), nil, "%v: Close after the transport's", t)
		}
	}},
	{name: "close makes every call fail", run: func(e *env) {
		tr := e.dial()
		e.wantIs(tr.Close(), nil, "Close")
		for _, t := range topics {
			ev := e.message(t, "c1", "x")
			if t.Kind == transport.KindCards {
				ev = e.card("", "a", "1", 0)
			}
			e.wantIs(tr.Publish(context.Background(), t, ev), transport.ErrClosed, "Publish(%v) after Close", t)
			e.wantIs(errOf(tr.Subscribe(context.Background(), t, nil)), transport.ErrClosed, "Subscribe(%v) after Close", t)
		}
		e.desk(e.dial(), worker, nil).nothing("a closed transport stores nothing")
	}},
	{name: "close many times at once", run: func(e *env) {
		tr := e.dial()
		var subs []transport.Subscription
		var servers []*server
		for _, t := range topics {
			d := e.desk(tr, t, nil)
			subs, servers = append(subs, d.sub), append(servers, d.server)
			go func() {
				for {
					select {
					case v := <-d.in:
						v.done(nil)
					case <-d.done:
						return
					}
				}
			}()
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				e.wantIs(tr.Close(), nil, "Close")
			})
			for _, s := range subs {
				wg.Go(func() {
					e.wantIs(s.Close(), nil, "Subscription.Close")
				})
			}
			wg.Go(func() {
				err := tr.Publish(context.Background(), worker, e.message(worker, "c1", "x"))
				if err != nil && !errors.Is(err, transport.ErrClosed) {
					e.Errorf("Publish beside Close = %v, want nil or ErrClosed", err)
				}
			})
		}
		wg.Wait()
		for _, s := range servers {
			e.wantIs(s.returned(), transport.ErrClosed, "Serve")
		}
	}},
	{name: "close from inside a handler", run: func(e *env) {
		for _, end := range []string{"subscription", "transport"} {
			tr := e.dial()
			t := transport.Inbox("", end)
			sub := e.subscribe(tr, t, nil)
			s := e.serve(sub, func(context.Context, *transport.Event) error {
				if end == "transport" {
					return tr.Close()
				}
				return sub.Close()
			})
			e.say(t, "c1", "x")
			e.wantIs(s.returned(), transport.ErrClosed, "Serve after its handler closed the %s", end)
		}
	}},
	{name: "close of a context", run: func(e *env) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		e.wantIs(e.tr.Publish(ctx, worker, e.message(worker, "c1", "x")), context.Canceled, "Publish with an ended context")
		e.wantIs(errOf(e.tr.Subscribe(ctx, worker, nil)), context.Canceled, "Subscribe with an ended context")
		d := e.desk(e.tr, worker, nil)
		d.nothing("its Publish failed")

		// The context of Subscribe is only for the call, not for the subscription.
		ctx, cancel = context.WithCancel(context.Background())
		sub, err := e.tr.Subscribe(ctx, transport.Inbox("", "w2"), nil)
		if err != nil {
			e.Fatal(err)
		}
		cancel()
		e.say(transport.Inbox("", "w2"), "c1", "y")
		e.open(sub).take("y")
	}},
}

// drain takes the first events of a new subscriber of cards, so that they do not delay its end.
func (d *desk) drain() {
	d.e.Helper()
	for {
		select {
		case v := <-d.in:
			v.done(nil)
			if _, ok := v.Payload.(*transport.Synced); ok {
				return
			}
		case <-time.After(quiet / 3):
			return
		}
	}
}
