package transporttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cortex-orchestrator/cortex/transport"
)

// env is the context of a case: a world, a client of it, and helpers.
type env struct {
	*testing.T
	h    Harness
	node Node
	tr   transport.Transport // the first client
	seq  atomic.Int64
}

func newEnv(t *testing.T, h Harness) *env {
	e := &env{T: t, h: h, node: h.New(t)}
	e.tr = e.dial()
	return e
}

func (e *env) dial() transport.Transport {
	e.Helper()
	return e.node.Dial(e.T)
}

var (
	// worker is the inbox that most cases use.
	worker = transport.Inbox("", "worker")
	// orchestrator is for cases about order; a transport may treat this inbox differently.
	orchestrator = transport.Inbox("", transport.Cortex)
)

// message makes an event for topic t with a message as payload.
func (e *env) message(t transport.Topic, contextID, text string) *transport.Event {
	id := fmt.Sprintf("ev-%d", e.seq.Add(1))
	ev := &transport.Event{
		ID: id, Time: time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC), From: "user", Tenant: t.Tenant, ContextID: contextID,
		Payload: &a2a.Message{ID: id, ContextID: contextID, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(text)}},
	}
	if t.Kind == transport.KindInbox {
		ev.To = t.ID
	}
	return ev
}

// delayed makes an event like message, due after d.
func (e *env) delayed(t transport.Topic, contextID, text string, d time.Duration) *transport.Event {
	ev := e.message(t, contextID, text)
	ev.DeliverAt = time.Now().Add(d).UTC()
	return ev
}

// publish publishes ev through tr; an error fails the case.
func (e *env) publish(tr transport.Transport, t transport.Topic, ev *transport.Event) {
	e.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := tr.Publish(ctx, t, ev); err != nil {
		e.Fatalf("Publish(%v, %s) = %v, want nil", t, ev.ID, err)
	}
}

// say publishes a message through the first client.
func (e *env) say(t transport.Topic, contextID, text string) *transport.Event {
	e.Helper()
	ev := e.message(t, contextID, text)
	e.publish(e.tr, t, ev)
	return ev
}

func (e *env) subscribe(tr transport.Transport, t transport.Topic, o *transport.SubscribeOptions) transport.Subscription {
	e.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := tr.Subscribe(ctx, t, o)
	if err != nil {
		e.Fatalf("Subscribe(%v) = %v, want nil", t, err)
	}
	return s
}

// server is a running Serve.
type server struct {
	e      *env
	sub    transport.Subscription
	cancel context.CancelFunc
	done   chan struct{} // closed when Serve has returned
	err    error         // its result
}

// serve runs sub.Serve with h until the case or its cleanup ends it.
func (e *env) serve(sub transport.Subscription, h transport.Handler) *server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{e: e, sub: sub, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.err = sub.Serve(ctx, h)
	}()
	e.Cleanup(func() {
		cancel()
		s.returned()
	})
	return s
}

// returned waits for Serve to return, and returns its error.
func (s *server) returned() error {
	s.e.Helper()
	select {
	case <-s.done:
		return s.err
	case <-time.After(patience):
		s.e.Fatalf("Serve has not returned after %v", patience)
		return nil
	}
}

// desk is a subscriber whose handler passes each event to the case and waits for its reply.
type desk struct {
	*server
	in chan *delivery
}

// delivery is one running call of the handler.
type delivery struct {
	*transport.Event
	ctx   context.Context
	reply chan error
}

// done makes the handler return err.
func (d *delivery) done(err error) { d.reply <- err }

// desk subscribes to t and serves it. The handler returns the case's reply, or its context's error if that ends first.
func (e *env) desk(tr transport.Transport, t transport.Topic, o *transport.SubscribeOptions) *desk {
	e.Helper()
	return e.open(e.subscribe(tr, t, o))
}

// open serves sub as a desk.
func (e *env) open(sub transport.Subscription) *desk {
	d := &desk{in: make(chan *delivery)}
	d.server = e.serve(sub, func(ctx context.Context, ev *transport.Event) error {
		v := &delivery{Event: ev, ctx: ctx, reply: make(chan error, 1)}
		select {
		case d.in <- v:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case err := <-v.reply:
			return err
		case <-ctx.Done():
		}
		select {
		case err := <-v.reply: // it was given before
			return err
		default:
			return ctx.Err()
		}
	})
	return d
}

// next waits for the next call of the handler, at most patience.
func (d *desk) next() *delivery {
	d.e.Helper()
	return d.within(patience)
}

// within is next with another limit.
func (d *desk) within(limit time.Duration) *delivery {
	d.e.Helper()
	select {
	case v := <-d.in:
		return v
	case <-d.done:
		d.e.Fatalf("Serve = %v while an event was awaited", d.err)
	case <-time.After(limit):
		d.e.Fatalf("no event after %v", limit)
	}
	return nil
}

// take waits for the next event, checks its text, and acknowledges it.
func (d *desk) take(text string) *transport.Event {
	d.e.Helper()
	v := d.expect(text)
	v.done(nil)
	return v.Event
}

// expect waits for the next event and checks its text.
func (d *desk) expect(text string) *delivery {
	d.e.Helper()
	v := d.next()
	if got := words(v.Event); got != text {
		d.e.Fatalf("next event says %q (id %s, delivery %d), want %q", got, v.ID, v.Delivery, text)
	}
	return v
}

// nothing checks for the duration quiet that the handler is not called.
func (d *desk) nothing(why string) {
	d.e.Helper()
	select {
	case v := <-d.in:
		d.e.Fatalf("event %q (id %s, delivery %d) was delivered, want none: %s", words(v.Event), v.ID, v.Delivery, why)
	case <-time.After(quiet):
	}
}

// either waits for the next event at a or b, and returns the desk that got it and the other one.
func either(a, b *desk) (got, other *desk, v *delivery) {
	a.e.Helper()
	select {
	case v = <-a.in:
		return a, b, v
	case v = <-b.in:
		return b, a, v
	case <-time.After(patience):
		a.e.Fatalf("no event at either subscriber after %v", patience)
	}
	return nil, nil, nil
}

// words returns the text of an event's message.
func words(ev *transport.Event) string {
	m, ok := ev.Payload.(*a2a.Message)
	if !ok {
		return fmt.Sprintf("<%T>", ev.Payload)
	}
	return transport.Text(m.Parts)
}

// nobody checks for the duration quiet that none of the desks gets an event.
func (e *env) nobody(why string, desks ...*desk) {
	e.Helper()
	<-time.After(quiet)
	for _, d := range desks {
		select {
		case v := <-d.in:
			e.Errorf("event %q (id %s, tenant %q) was delivered, want none: %s", words(v.Event), v.ID, v.Tenant, why)
		default:
		}
	}
}

// asBytes compares byte slices fast.
var asBytes = cmp.FilterValues(func(x, y []byte) bool { return len(x) > 0 && len(y) > 0 }, cmp.Comparer(bytes.Equal))

// wantIs checks that a call, which format describes, has returned want, or an error that wraps it; nil: no error.
func (e *env) wantIs(err, want error, format string, args ...any) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Errorf("%s = %v, want %v", fmt.Sprintf(format, args...), err, want)
	}
}

// errOf returns the error of a call.
func errOf[T any](_ T, err error) error { return err }

// same fails the case unless got equals want as published, with times to the nanosecond.
func (e *env) same(got, want *transport.Event) {
	e.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(transport.Event{}, "Delivery", "Epoch", "Stored"), cmpopts.IgnoreUnexported(transport.Event{}),
		cmpopts.EquateEmpty(), asBytes); diff != "" {
		e.Errorf("the event has changed on its way (-want +got):\n%s", diff)
	}
}

// await waits until ch is closed.
func (e *env) await(ch <-chan struct{}, what string) {
	e.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		e.Fatalf("%s: not so after %v", what, patience)
	}
}

// eventually polls ok until it returns true, for changes that a transport makes without a signal.
func (e *env) eventually(what string, ok func() bool) {
	e.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			e.Fatalf("%s: not so after %v", what, patience)
		}
	}
}
