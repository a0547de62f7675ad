package nats

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// running returns the stacks of goroutines that this package has started with one of the functions.
func running(t *testing.T, functions ...string) []string {
	t.Helper()
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		t.Fatal(err)
	}
	var all []string
	for stack := range strings.SplitSeq(b.String(), "\n\n") {
		for _, f := range functions {
			if strings.Contains(stack, "transport/nats."+f) {
				all = append(all, stack)
			}
		}
	}
	return all
}

// method returns the name of a method in stacks, so that renaming the method cannot make running find nothing.
func method(f any) string {
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	return name[strings.LastIndex(name, "nats.")+len("nats."):]
}

// TestCloseWaitsForTheGateway closes an orchestrator while agents open their inboxes.
func TestCloseWaitsForTheGateway(t *testing.T) {
	dir := keys(t)
	n := newNode(t, ServerOptions{Auth: dir})
	b := n.dial(t, nil)
	if _, err := b.Subscribe(t.Context(), transport.Inbox("", transport.Cortex), nil); err != nil {
		t.Fatal(err)
	}
	w := &town{node: n, dir: dir}
	answered := make(chan struct{}, 1000)
	for i := range 8 {
		id := fmt.Sprint("a", i)
		in := w.intruder(t, agentCreds(t, dir, "", id))
		if _, err := in.Subscribe(auth.Replies(in.who)+".>", func(*natsgo.Msg) { answered <- struct{}{} }); err != nil {
			t.Fatal(err)
		}
		for j := range 100 {
			m := &natsgo.Msg{
				Subject: auth.Gateway(in.who) + jsAPI + "CONSUMER.CREATE." + inboxStream + "." + consumerName(transport.Inbox("", id)) + ".x",
				Reply:   fmt.Sprint(auth.Replies(in.who), ".", j), Data: []byte(`{}`),
			}
			if err := in.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
		if err := in.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	receive(t, answered)
	runs := []string{method((*gateway).drain), method((*gateway).sweep)}
	if len(running(t, runs...)) == 0 {
		t.Fatal("no goroutine of the gateway is seen before Close")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if left := running(t, runs...); len(left) > 0 {
		t.Errorf("%d goroutines run after Close:\n%s", len(left), left[0])
	}
}

// TestServeWaits checks that no goroutine of a subscription runs when Serve has returned.
func TestServeWaits(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	for i := range 200 {
		sub, err := b.Subscribe(t.Context(), transport.Live("", fmt.Sprint("c", i)), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = sub.Serve(ctx, func(context.Context, *transport.Event) error { return nil })
		}()
		cancel()
		<-served
		if left := running(t, "(*subscription).Serve.func"); len(left) > 0 {
			t.Fatalf("%d goroutines run after Serve:\n%s", len(left), left[0])
		}
	}
}

// TestSubscriptionsEnd makes subscriptions begin and fail in several ways, and checks the client's subscriptions at the end.
func TestSubscriptionsEnd(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	whole := &transport.SubscribeOptions{Unordered: true}
	topics := []transport.Topic{transport.Live("", "c1"), transport.Cards(""), transport.Inbox("", "a"), transport.Inbox("", transport.Cortex)}
	each := func() {
		for _, topic := range topics {
			var o *transport.SubscribeOptions
			if topic.ID == "a" {
				o = whole
			}
			for _, patience := range []time.Duration{0, time.Microsecond, 100 * time.Microsecond, time.Millisecond, time.Minute} {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				sub, err := b.Subscribe(ctx, topic, o)
				cancel()
				if err == nil {
					ended, end := context.WithCancel(t.Context())
					end()
					_ = sub.Serve(ended, func(context.Context, *transport.Event) error { return nil })
				}
				if sub, err := b.Subscribe(t.Context(), topic, o); err != nil {
					t.Fatal(err)
				} else if err := sub.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	each() // makes what is made once and stays
	before := b.nc.NumSubscriptions()
	for range 5 {
		each()
	}
	eventually(t, "as many subscriptions as before", func() bool { return b.nc.NumSubscriptions() <= before })

	// Two subscriptions made at the same moment for answers of a cluster's servers.
	p, subs := &peers{}, [2]*natsgo.Subscription{}
	for i := range subs {
		var err error
		if subs[i], err = b.nc.SubscribeSync(b.nc.NewInbox()); err != nil {
			t.Fatal(err)
		}
		if got := p.listen(subs[i]); got != subs[0] {
			t.Errorf("question %d is answered elsewhere", i)
		}
	}
	if !subs[0].IsValid() || subs[1].IsValid() {
		t.Error("both listen, or the wrong one does")
	}
}
