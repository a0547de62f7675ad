package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestListenersShare has a hundred listen to one conversation by one connection, and handle nothing for a while: what they are told comes once to the process,
// is decoded once, and waits once.
func TestListenersShare(t *testing.T) {
	n := newNode(t, ServerOptions{})
	b, other := n.dial(t, nil), n.dial(t, nil)
	topic := transport.Live("", "c1")
	const listeners, events = 100, 20
	begin := make(chan struct{})
	heard := make(chan *a2a.Message, listeners*events)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, listeners)
	for range listeners {
		s, err := b.Subscribe(t.Context(), topic, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			ended <- s.Serve(ctx, func(_ context.Context, e *transport.Event) error {
				<-begin
				heard <- e.Payload.(*a2a.Message)
				return nil
			})
		}()
	}
	for i := range events {
		text := fmt.Sprintf("%02d%s", i, strings.Repeat("x", 50_000))
		e := &transport.Event{ID: fmt.Sprint("e", i), ContextID: "c1", From: transport.Cortex, Payload: &a2a.Message{ID: fmt.Sprint("m", i), Role: a2a.MessageRoleAgent, Parts: a2a.ContentParts{a2a.NewTextPart(text)}}}
		if err := other.Publish(t.Context(), topic, e); err != nil {
			t.Fatal(err)
		}
	}
	waiting := func() int64 {
		b.lives.mu.Lock()
		defer b.lives.mu.Unlock()
		return b.lives.waiting
	}
	eventually(t, "all but the first wait", func() bool { return waiting() >= (events-1)*50_000 })
	if is := waiting(); is > 2*events*50_000 {
		t.Errorf("%d bytes wait for all listeners, want those of %d events", is, events)
	}
	all, err := n.srv.current().Connz(&server.ConnzOptions{Subscriptions: true})
	if err != nil {
		t.Fatal(err)
	}
	subs := 0
	for _, c := range all.Conns {
		for _, s := range c.Subs {
			if s == liveFilter(topic) {
				subs++
			}
		}
	}
	if subs != 1 {
		t.Errorf("the server has %d subscriptions to the conversation, want 1", subs)
	}
	close(begin)
	of, decoded := map[string]int{}, map[*a2a.Message]bool{}
	for range listeners * events {
		m := receive(t, heard)
		of[transport.Text(m.Parts)[:2]]++
		decoded[m] = true
	}
	if len(decoded) != events {
		t.Errorf("%d events were decoded %d times", events, len(decoded))
	}
	for i := range events {
		if key := fmt.Sprintf("%02d", i); of[key] != listeners {
			t.Errorf("event %s was heard by %d of %d", key, of[key], listeners)
		}
	}
	stop()
	for range listeners {
		if err := receive(t, ended); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if len(b.lives.of) > 0 || waiting() > 0 || b.lives.handled > 0 {
		t.Errorf("%d topics and %d bytes are left of nobody, and %d that nobody handles", len(b.lives.of), waiting(), b.lives.handled)
	}
}

// TestListenersAreBounded checks that all that waits in a process has a bound: beyond it, those for whom most waits lose it, and who takes each at once loses nothing.
func TestListenersAreBounded(t *testing.T) {
	lost := 0
	v := newLives(100_000, func(string) { lost++ }, func(_ string, err error) { t.Error(err) })
	topic := transport.Live("", "c1")
	var hear func(*natsgo.Msg)
	listen := func(_ context.Context, _ string, h func(*natsgo.Msg)) (*natsgo.Subscription, error) {
		hear = h
		return &natsgo.Subscription{}, nil
	}
	enter := func() *liveListener {
		l := &liveListener{in: v, wake: make(chan struct{}, 1)}
		if err := v.enter(t.Context(), l, topic, listen); err != nil {
			t.Fatal(err)
		}
		return l
	}
	slow, quick := enter(), enter()
	values := slices.Repeat([]any{map[string]any{}}, 100) // which take twenty times what their text does
	for i := range 100 {
		hear(liveEvent(t, topic, fmt.Sprint(i), a2a.NewDataPart(values)))
		m := quick.next()
		if m == nil || m.event.ID != fmt.Sprint(i) {
			t.Fatalf("event %d is lost for who waits for it", i)
		}
		v.putBack(m)
		if v.waiting > v.most {
			t.Fatalf("%d bytes wait", v.waiting)
		}
	}
	if lost == 0 {
		t.Error("nothing was said to be lost")
	}
	last := ""
	for before, m := -1, slow.next(); m != nil; m = slow.next() {
		var i int
		if _, err := fmt.Sscan(m.event.ID, &i); err != nil || i <= before {
			t.Fatalf("after event %d comes %s, %v", before, m.event.ID, err)
		}
		before = i
		last = m.event.ID
		v.putBack(m)
	}
	if last != "99" {
		t.Errorf("the last event for who is slow is %q, want the newest", last)
	}
	v.leave(slow)
	v.leave(quick)
	if v.waiting != 0 || v.handled != 0 || len(v.of) > 0 {
		t.Errorf("%d bytes and %d topics are left of nobody", v.waiting, len(v.of))
	}
}

// TestHandledIsBounded has many handlers be slow with large events, each of another conversation: what they have together has a bound, above which large events
// are lost and small ones are not. When one has done with its event, another one gets a large one.
func TestHandledIsBounded(t *testing.T) {
	lost := 0
	v := newLives(1<<20, func(string) { lost++ }, func(_ string, err error) { t.Error(err) })
	var hear func(*natsgo.Msg)
	listen := func(_ context.Context, _ string, h func(*natsgo.Msg)) (*natsgo.Subscription, error) {
		hear = h
		return &natsgo.Subscription{}, nil
	}
	tell := func(i int, id string, part *a2a.Part) *liveListener {
		topic := transport.Live("", fmt.Sprint("c", i))
		l := &liveListener{in: v, wake: make(chan struct{}, 1)}
		if err := v.enter(t.Context(), l, topic, listen); err != nil {
			t.Fatal(err)
		}
		hear(liveEvent(t, topic, id, part))
		return l
	}
	large := a2a.NewTextPart(strings.Repeat("x", 400_000))
	var has []*liveMessage
	for i := range 10 {
		if m := tell(i, "large", large).next(); m != nil {
			has = append(has, m)
		}
		if len(has) == 2 {
			v.most = v.handled + 100 // not even a small one fits
		}
		if m := tell(i+100, "small", a2a.NewTextPart("hello")).next(); m == nil {
			t.Fatal("a small event is lost")
		} else {
			v.putBack(m)
		}
	}
	if len(has) != 2 || lost != 8 || v.handled > v.most {
		t.Errorf("%d handlers have %d bytes, %d events are said to be lost; want 2 and 8", len(has), v.handled, lost)
	}
	v.putBack(has[0])
	l := tell(200, "large", large)
	m := l.next()
	if m == nil {
		t.Fatal("a large event is lost when there is room again")
	}
	v.putBack(m)
	v.putBack(has[1])
	huge := tell(201, "huge", a2a.NewDataPart(strings.Repeat("x", 2<<20))).next()
	if huge == nil || huge.size <= v.most {
		t.Fatalf("%+v: want one that is larger than all may have, when nobody has anything", huge)
	}
	v.putBack(huge)
	if v.waiting != 0 || v.handled != 0 {
		t.Errorf("%d bytes wait, and %d are handled by nobody", v.waiting, v.handled)
	}
}

// TestListenersFailAlone checks that whoever listens to a topic tries it itself when the one before could not.
func TestListenersFailAlone(t *testing.T) {
	v := newLives(1000, nil, func(_ string, err error) { t.Error(err) })
	topic := transport.Live("", "c1")
	refused := errors.New("refused")
	begun, end := make(chan struct{}), make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		l := &liveListener{in: v, wake: make(chan struct{}, 1)}
		failed <- v.enter(t.Context(), l, topic, func(_ context.Context, _ string, hear func(*natsgo.Msg)) (*natsgo.Subscription, error) {
			hear(liveEvent(t, topic, "e1", a2a.NewTextPart("heard before it failed")))
			close(begun)
			<-end
			return nil, refused
		})
	}()
	receive(t, begun)
	entered := make(chan error, 1)
	go func() {
		entered <- v.enter(t.Context(), &liveListener{in: v, wake: make(chan struct{}, 1)}, topic, func(context.Context, string, func(*natsgo.Msg)) (*natsgo.Subscription, error) {
			return &natsgo.Subscription{}, nil
		})
	}()
	eventually(t, "the other one waits", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.of[topic] != nil && len(v.of[topic].listeners) == 2
	})
	close(end)
	if err := receive(t, failed); !errors.Is(err, refused) {
		t.Errorf("the first one: %v, want %v", err, refused)
	}
	if err := receive(t, entered); err != nil {
		t.Errorf("the other one: %v", err)
	}
	if v.waiting != 0 {
		t.Errorf("%d bytes wait for who could not listen", v.waiting)
	}
}

// liveEvent returns an event of a live topic as it comes from the server.
func liveEvent(t testing.TB, topic transport.Topic, id string, part *a2a.Part) *natsgo.Msg {
	t.Helper()
	e := &transport.Event{ID: id, ContextID: topic.ID, From: transport.Cortex, Payload: &a2a.Message{ID: id, Role: a2a.MessageRoleAgent, Parts: a2a.ContentParts{part}}}
	m, err := encode(liveSubject(topic, e.From), e, false)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
