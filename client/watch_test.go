package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/client/clienttest"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestSend sends a message of several parts under a given id and sender; another client watches its turn.
func TestSend(t *testing.T) {
	got := make(chan *transport.Event, 2)
	s, c := clienttest.New(t, func(_ *clienttest.Script, e *transport.Event) { got <- e })
	m := &client.Message{
		ContextID: "ctx", ID: "m1", From: "user:ann", Metadata: map[string]any{"k": "v"},
		Parts: a2a.ContentParts{a2a.NewTextPart("look"), a2a.NewRawPart([]byte{0, 1, 2})},
		To:    &transport.Direct{Agent: "shop", Skill: "find"},
	}
	for range 2 {
		turn, err := c.Send(t.Context(), m)
		if want := (client.Turn{ContextID: "ctx", From: "user:ann", MessageID: "m1"}); turn != want || err != nil {
			t.Fatalf("Send() = %+v, %v, want %+v", turn, err, want)
		}
	}
	e := <-got
	said := e.Payload.(*a2a.Message)
	if d, ok := transport.DirectOf(said); e.From != "user:ann" || e.ID != "m1" || said.ID != "m1" || len(said.Parts) != 2 || said.Metadata["k"] != "v" || !ok || d.Agent != "shop" {
		t.Errorf("it says %+v with %+v", e, said)
	}
	if len(m.Metadata) != 1 || m.Parts[0].Content == nil {
		t.Errorf("the message of the caller was changed: %+v", m)
	}
	other := &client.Client{Transport: c.Transport, Poll: time.Hour, Log: func(_ context.Context, asks client.Turn) (*a2a.Message, bool, error) {
		return clienttest.AnswerTo(e, "seen by "+asks.From), true, nil
	}}
	answer, err := other.Answer(t.Context(), client.Turn{ContextID: "ctx", From: "user:ann", MessageID: "m1"})
	if err != nil || transport.Text(answer.Parts) != "seen by user:ann" {
		t.Errorf("Answer() = %v, %v", answer, err)
	}
	if next, err := other.Reply(t.Context(), client.Turn{ContextID: "ctx", From: "user:ann", MessageID: "m1"}, a2a.NewTextPart("yes")); err != nil || next.From != "user:ann" || next.MessageID == "m1" {
		t.Errorf("Reply() = %+v, %v", next, err)
	}
	_ = s
}

// TestSendNothing checks that a message without text is refused, unless it has another part.
func TestSendNothing(t *testing.T) {
	_, c := clienttest.New(t, func(*clienttest.Script, *transport.Event) {})
	for name, parts := range map[string]a2a.ContentParts{"none": nil, "nil": {nil}, "blank": {a2a.NewTextPart(" \n")}} {
		if _, err := c.Send(t.Context(), &client.Message{ContextID: "c", Parts: parts}); !errors.Is(err, transport.ErrInvalid) {
			t.Errorf("%s: Send() = %v, want ErrInvalid", name, err)
		}
	}
	if _, err := c.Send(t.Context(), &client.Message{ContextID: "c", Parts: a2a.ContentParts{a2a.NewRawPart([]byte{1})}}); err != nil {
		t.Errorf("Send(bytes) = %v", err)
	}
}

// TestWatchLeavesTheTurn ends a Watch: the turn goes on, and is not canceled.
func TestWatchLeavesTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard atomic.Int64
		s, c := clienttest.New(t, func(*clienttest.Script, *transport.Event) { heard.Add(1) })
		turn, err := c.Send(t.Context(), client.Text("ctx", "hi"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.Answer(ctx, turn); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Answer() = %v, want the deadline", err)
		}
		synctest.Wait()
		if n := heard.Load(); n != 1 {
			t.Errorf("Cortex heard %d messages, want the first one only", n)
		}
		go func() {
			time.Sleep(time.Second)
			s.Answer(&transport.Event{ID: turn.MessageID, From: turn.From, ContextID: turn.ContextID}, "later")
		}()
		if m, err := c.Answer(t.Context(), turn); err != nil || transport.Text(m.Parts) != "later" {
			t.Errorf("Answer() = %v, %v, want what came later", m, err)
		}
	})
}

// TestLogIsReadMoreAndMoreSeldom waits for a turn that takes long: the pauses between readings of the log grow, to four times the first one.
func TestLogIsReadMoreAndMoreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := clienttest.New(t, func(*clienttest.Script, *transport.Event) {})
		var began time.Time
		var read []time.Duration
		c.Poll, c.Log = 2*time.Second, func(context.Context, client.Turn) (*a2a.Message, bool, error) {
			read = append(read, time.Since(began))
			return nil, false, nil
		}
		turn, err := c.Send(t.Context(), client.Text("ctx", "hi"))
		if err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		if _, err := c.Answer(ctx, turn); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Answer() = %v, want the deadline", err)
		}
		if want := []time.Duration{0, 2 * time.Second, 6 * time.Second, 14 * time.Second, 22 * time.Second}; !slices.Equal(read, want) {
			t.Errorf("the log was read after %v, want %v", read, want)
		}
	})
}

// loads counts the loads of a store, and the entries that are read.
type loads struct {
	*memstore.Store
	n, entries int
}

func (s *loads) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	s.n++
	return func(yield func(*conversation.Entry, error) bool) {
		for e, err := range s.Store.Load(ctx, tenant, contextID, after) {
			s.entries++
			if !yield(e, err) {
				return
			}
		}
	}
}

// slowLoads has loads wait until they may go on, one after the other.
type slowLoads struct {
	*memstore.Store
	begun int
	on    chan struct{}
}

func (s *slowLoads) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	return func(yield func(*conversation.Entry, error) bool) {
		s.begun++
		select {
		case <-s.on:
			s.Store.Load(ctx, tenant, contextID, after)(yield)
		case <-ctx.Done():
			yield(nil, ctx.Err())
		}
	}
}

// TestLogIsReadOnceForAll has many ask for the answer to one turn at the same time. Whoever reads the log for all leaves, and another one does it.
func TestLogIsReadOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowLoads{Store: memstore.New(), on: make(chan struct{})}
		read := client.ReadLog(s, "")
		turn := client.Turn{ContextID: "ctx", From: "user", MessageID: "m1"}
		e := &conversation.Entry{
			Seq: 1, Time: time.Now(), Turn: transport.TurnID("", "ctx", "user", "m0"), Failure: "no",
			Cause: &transport.Event{ID: "m0", From: "user", To: transport.Cortex, ContextID: "ctx", Payload: &a2a.Message{ID: "m0", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("hi")}}},
		}
		if _, err := s.Append(t.Context(), "", "ctx", 0, e); err != nil {
			t.Fatal(err)
		}
		leaving, leave := context.WithCancel(t.Context())
		const all = 50
		errs := make(chan error, all)
		ask := func(ctx context.Context) {
			m, found, err := read(ctx, turn)
			if found || m != nil {
				t.Errorf("%v, %v; want no answer", m, found)
			}
			errs <- err
		}
		go ask(leaving)
		synctest.Wait()
		for range all - 1 {
			go ask(t.Context())
		}
		synctest.Wait()
		if s.begun != 1 || len(errs) > 0 {
			t.Fatalf("the log is read %d times, and %d have their answer", s.begun, len(errs))
		}
		leave()
		synctest.Wait()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("who left: %v", err)
		}
		s.on <- struct{}{}
		synctest.Wait()
		if s.begun != 2 || len(errs) != all-1 {
			t.Fatalf("the log was read %d times, and %d have their answer; want 2, and all", s.begun, len(errs))
		}
		for range all - 1 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestNewOfLogIsRead asks for the answer to a turn again and again, while other turns of the conversation go on: no entry of theirs is read twice.
func TestNewOfLogIsRead(t *testing.T) {
	s := &loads{Store: memstore.New()}
	read := client.ReadLog(s, "")
	turn := client.Turn{ContextID: "ctx", From: "user", MessageID: "m0"}
	var at conversation.Version
	seq := uint64(0)
	add := func(e *conversation.Entry) {
		t.Helper()
		seq++
		e.Seq, e.Time = seq, time.Now()
		v, err := s.Append(t.Context(), "", "ctx", at, e)
		if err != nil {
			t.Fatal(err)
		}
		at = v
	}
	event := func(id string, p transport.Payload) *transport.Event {
		return &transport.Event{ID: id, From: "user", To: transport.Cortex, ContextID: "ctx", Payload: p}
	}
	say := func(id string) *conversation.Entry {
		return &conversation.Entry{
			Turn: transport.TurnID("", "ctx", "user", id), Deadline: time.Now(),
			Cause:    event(id, &a2a.Message{ID: id, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("hi")}}),
			Decision: &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: "1", Agent: "echo", Task: "hi"}}},
		}
	}
	add(say("m0"))
	const others = 20
	for i := 1; i <= others; i++ {
		add(say(fmt.Sprint("m", i)))
		before := s.entries
		if m, found, err := read(t.Context(), turn); m != nil || found || err != nil {
			t.Fatalf("%v, %v, %v; want no answer", m, found, err)
		}
		if n, want := s.entries-before, 1; i > 1 && n != want {
			t.Errorf("behind another turn, %d entries were read, want %d", n, want)
		}
	}
	add(&conversation.Entry{Turn: transport.TurnID("", "ctx", "user", "m1"), Cause: event("c1", &transport.Cancel{Turn: transport.TurnID("", "ctx", "user", "m1")})})
	if m, found, err := read(t.Context(), turn); m != nil || found || err != nil {
		t.Errorf("another turn is canceled: %v, %v, %v", m, found, err)
	}
	add(say("m21"))
	add(&conversation.Entry{Turn: transport.TurnID("", "ctx", "user", "m2"), Cause: event("c2", &transport.Cancel{})})
	if m, found, err := read(t.Context(), turn); !found || err != nil || transport.Text(m.Parts) != conversation.AnswerCanceled {
		t.Errorf("all turns are canceled: %v, %v, %v", m, found, err)
	}
}

// TestLogIsReadWhenItHasGrown asks for the answer to a turn again and again, while the conversation begins and goes on.
func TestLogIsReadWhenItHasGrown(t *testing.T) {
	s := &loads{Store: memstore.New()}
	read := client.ReadLog(s, "")
	turn := client.Turn{ContextID: "ctx", From: "user", MessageID: "m1"}
	unanswered := func(why string, want int) {
		t.Helper()
		before := s.n
		for range 3 {
			if m, found, err := read(t.Context(), turn); m != nil || found || err != nil {
				t.Fatalf("%s: %v, %v, %v; want no answer", why, m, found, err)
			}
		}
		if n := s.n - before; n != want {
			t.Errorf("%s: the log was loaded %d times, want %d", why, n, want)
		}
	}
	unanswered("an empty log", 1)
	other := &conversation.Entry{
		Seq: 1, Time: time.Now(), Turn: "m0", Failure: "no",
		Cause: &transport.Event{ID: "m0", From: "user", To: transport.Cortex, ContextID: "ctx", Payload: &a2a.Message{ID: "m0", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("hi")}}},
	}
	v, err := s.Append(t.Context(), "", "ctx", 0, other)
	if err != nil {
		t.Fatal(err)
	}
	unanswered("another turn has come", 1)
	ours := &conversation.Entry{
		Seq: 2, Time: time.Now(), Turn: transport.TurnID("", "ctx", "user", "m1"), Deadline: time.Now(),
		Cause:    &transport.Event{ID: "m1", From: "user", To: transport.Cortex, ContextID: "ctx", Payload: &a2a.Message{ID: "m1", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("hi")}}},
		Decision: &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: "1", Agent: "echo", Task: "hi"}}},
	}
	if _, err := s.Append(t.Context(), "", "ctx", v, ours); err != nil {
		t.Fatal(err)
	}
	unanswered("it is given to an agent", 0)
	if err := new(storage.Refusals).Keep(t.Context(), s, "", &transport.Event{ID: "m1", From: "user", ContextID: "ctx"}, "it is given up", time.Now()); err != nil {
		t.Fatal(err)
	}
	if m, found, err := read(t.Context(), turn); !found || err != nil || !strings.Contains(transport.Text(m.Parts), "given up") {
		t.Errorf("a turn that has ended beside its log: %v, %v, %v", m, found, err)
	}
	turn.MessageID = "m2"
	unanswered("another turn works", 1)
	if err := new(storage.Refusals).Keep(t.Context(), s, "", &transport.Event{ID: "m2", From: "user", ContextID: "ctx"}, "it is refused", time.Now()); err != nil {
		t.Fatal(err)
	}
	if m, found, err := read(t.Context(), turn); !found || err != nil || !strings.Contains(transport.Text(m.Parts), "refused") {
		t.Errorf("a refusal: %v, %v, %v", m, found, err)
	}
}

// lossy is a transport on which the next subscriptions of live topics are lost at once or fail.
type lossy struct {
	transport.Transport
	mu     sync.Mutex
	losses int // how many of the next subscriptions are lost or fail
	subs   int
}

func (l *lossy) Subscribe(ctx context.Context, topic transport.Topic, o *transport.SubscribeOptions) (transport.Subscription, error) {
	if topic.Kind != transport.KindLive {
		return l.Transport.Subscribe(ctx, topic, o)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subs++
	if l.losses > 0 {
		if l.losses--; l.losses%2 == 0 {
			return nil, transport.ErrUnavailable
		}
		s, err := l.Transport.Subscribe(ctx, topic, o)
		return lost{s}, err
	}
	return l.Transport.Subscribe(ctx, topic, o)
}

// lost is a subscription that ends at once.
type lost struct{ transport.Subscription }

func (lost) Serve(context.Context, transport.Handler) error { return transport.ErrUnavailable }

// TestWatchGoesOn loses the subscription again and again: Ask and Watch subscribe again, and neither loses the answer.
func TestWatchGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := make(chan *transport.Event, 1)
		s, c := clienttest.New(t, func(_ *clienttest.Script, e *transport.Event) { said <- e })
		for _, watching := range []bool{false, true} {
			net := &lossy{Transport: s.Bus, losses: 4}
			c := &client.Client{Transport: net, NewID: c.NewID}
			go func() {
				e := <-said
				time.Sleep(time.Minute) // the subscription has been renewed by then
				s.Delta(e, "a", "he")
				s.Answer(e, "here")
			}()
			events := c.Ask(t.Context(), client.Text("ctx", "hi"))
			if watching {
				turn, err := c.Send(t.Context(), client.Text("ctx", "hi"))
				if err != nil {
					t.Fatal(err)
				}
				events = c.Watch(t.Context(), turn)
			}
			var got []string
			for e, err := range events {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, brief(e))
			}
			if diff := cmp.Diff([]string{"delta he", "answer here"}, got); diff != "" {
				t.Errorf("watching: %v, events (-want +got):\n%s", watching, diff)
			}
			if net.subs < 5 {
				t.Errorf("%d subscriptions, want one after each that was lost", net.subs)
			}
		}
	})
}

// TestWatchClosed closes the transport: nobody waits for events that cannot come.
func TestWatchClosed(t *testing.T) {
	s, c := clienttest.New(t, func(*clienttest.Script, *transport.Event) {})
	turn, err := c.Send(t.Context(), client.Text("ctx", "hi"))
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Bus.Close()
	if _, err := c.Answer(t.Context(), turn); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Answer() = %v, want ErrClosed", err)
	}
	if _, err := c.Send(t.Context(), client.Text("ctx", "hi")); !errors.Is(err, client.ErrUnsent) || !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Send() = %v, want ErrUnsent and ErrClosed", err)
	}
}

// TestSaid checks that Said is called before the message is published, so that it can be shown first.
func TestSaid(t *testing.T) {
	var order []string
	_, c := clienttest.New(t, func(s *clienttest.Script, e *transport.Event) { s.Answer(e, "hello") })
	c.OnSend = func(e *transport.Event) { order = append(order, clienttest.Text(e)) }
	for e, err := range c.Ask(t.Context(), client.Text("ctx", "hi")) {
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, clienttest.Text(e))
	}
	if want := []string{"hi", "hello"}; !slices.Equal(order, want) {
		t.Errorf("%s, want %s", strings.Join(order, ", "), strings.Join(want, ", "))
	}
}

// TestListen hears all turns of a conversation, and none of another one, until it is to end.
func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := clienttest.New(t, func(s *clienttest.Script, e *transport.Event) { s.Answer(e, "to "+clienttest.Text(e)) })
		ctx, end := context.WithCancel(t.Context())
		var heard []string
		ended := make(chan error)
		go func() {
			ended <- c.Listen(ctx, "ctx", func(e *transport.Event) { heard = append(heard, brief(e)) })
		}()
		synctest.Wait()
		for _, say := range [][2]string{{"ctx", "one"}, {"other", "two"}, {"ctx", "three"}} {
			if _, err := turn(t.Context(), c, say[0], say[1]); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		end()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v, want its context's error", err)
		}
		if diff := cmp.Diff([]string{"answer to one", "answer to three"}, heard); diff != "" {
			t.Errorf("heard (-want +got):\n%s", diff)
		}
	})
}

// TestFollow stops waiting before the answer comes: the turn goes on, and the same message again is the same turn.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []*transport.Event
		answer := make(chan struct{})
		_, c := clienttest.New(t, func(s *clienttest.Script, e *transport.Event) {
			if asked = append(asked, e); len(asked) == 1 {
				s.Task(e, "t1", "clock", "time?")
				go func() {
					<-answer
					s.Answer(e, "noon")
				}()
			}
		})
		m := client.Text("c1", "time?")
		m.ID = "m1"
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		var seen []string
		var err error
		for e, failed := range c.Follow(ctx, m) {
			if err = failed; err == nil {
				seen = append(seen, brief(e))
			}
		}
		if diff := cmp.Diff([]string{"task t1 for clock"}, seen); diff != "" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s, error %v", diff, err)
		}
		synctest.Wait()
		if len(asked) != 1 {
			t.Errorf("Cortex got %d events, want the message alone", len(asked))
		}
		time.AfterFunc(time.Second, func() { close(answer) })
		seen = nil
		for e, err := range c.Follow(t.Context(), m) {
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, brief(e))
		}
		if diff := cmp.Diff([]string{"answer noon"}, seen); diff != "" {
			t.Error(diff)
		}
	})
}

// handing counts the events that a transport has handed over, and those that are done with.
type handing struct {
	transport.Transport
	begun, done atomic.Int64
}

func (h *handing) Subscribe(ctx context.Context, t transport.Topic, o *transport.SubscribeOptions) (transport.Subscription, error) {
	s, err := h.Transport.Subscribe(ctx, t, o)
	return handed{s, h}, err
}

type handed struct {
	transport.Subscription
	of *handing
}

func (s handed) Serve(ctx context.Context, h transport.Handler) error {
	return s.Subscription.Serve(ctx, func(ctx context.Context, e *transport.Event) error {
		s.of.begun.Add(1)
		defer s.of.done.Add(1)
		return h(ctx, e)
	})
}

// TestSlowWatchersHaveOneEvent has somebody take long with an event: the transport, which bounds what is handled, knows of it until then, and keeps all others.
func TestSlowWatchersHaveOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := make(chan *transport.Event, 1)
		s, c := clienttest.New(t, func(_ *clienttest.Script, e *transport.Event) { said <- e })
		h := &handing{Transport: c.Transport}
		c.Transport = h
		go func() {
			m := <-said
			for i := range 5 {
				s.Delta(m, "a", fmt.Sprint(i))
			}
			s.Answer(m, "done")
		}()
		n := int64(0)
		for e, err := range c.Ask(t.Context(), client.Text("ctx", "hi")) {
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n++; h.begun.Load() != n || h.done.Load() != n-1 {
				t.Errorf("at event %d, %s, %d were handed over, and %d are done with", n, brief(e), h.begun.Load(), h.done.Load())
			}
		}
		if n != 6 {
			t.Errorf("%d events, want all", n)
		}
	})
}
