package memory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

func TestMaxInbox(t *testing.T) {
	b := memory.New(&memory.Options{MaxInbox: 2})
	defer b.Close()
	inbox := transport.Inbox("", transport.Cortex)
	later := event("later", "c2")
	later.DeliverAt = time.Now().Add(time.Hour)
	publish(t, b, inbox, event("1", "c1"))
	publish(t, b, inbox, later)
	third := event("3", "c1")
	if err := b.Publish(t.Context(), inbox, third); !errors.Is(err, transport.ErrFull) {
		t.Errorf("Publish to a full inbox = %v, want ErrFull", err)
	}
	publish(t, b, inbox, event("1", "c1"))             // known: nothing to store
	other := transport.Inbox("acme", transport.Cortex) // other events have a bound, too
	cancel := func(i int) *transport.Event {
		e := event(fmt.Sprint(i), "c1")
		e.Tenant, e.Payload = "acme", &transport.Cancel{}
		return e
	}
	for i := range 4 {
		publish(t, b, other, cancel(i))
	}
	if err := b.Publish(t.Context(), other, cancel(4)); !errors.Is(err, transport.ErrUnavailable) || errors.Is(err, transport.ErrFull) {
		t.Errorf("Publish of a cancellation to an inbox that holds twice the bound = %v, want ErrUnavailable", err)
	}
	handled := make(chan string)
	serve(t, b, inbox, nil, func(e *transport.Event) error { handled <- e.ID; return nil })
	if got := <-handled; got != "1" {
		t.Errorf("handled %s, want 1", got)
	}
	for { // there is room after the acknowledgement
		err := b.Publish(t.Context(), inbox, third)
		if err == nil {
			break
		}
		if !errors.Is(err, transport.ErrFull) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	if got := <-handled; got != "3" {
		t.Errorf("handled %s, want 3, which was refused at first", got)
	}
}

func TestSlowLiveSubscriberLosesTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := transport.Live("", "c1")
		b := memory.New(nil)
		defer b.Close()
		for _, c := range []struct {
			events, size int
			want         string
		}{
			{2000, 1, "1024 from 976"},
			{100, 1 << 20, "16 from 84"},
			{3, 4 << 20, "3 from 0"},
		} {
			sub, err := b.Subscribe(t.Context(), live, nil)
			if err != nil {
				t.Fatal(err)
			}
			data := []byte(strings.Repeat("x", c.size))
			for i := range c.events {
				e := event(fmt.Sprint(i), "c1")
				e.Payload = &transport.Opaque{Kind: "x", Version: "1", Data: data}
				publish(t, b, live, e)
			}
			var got []string
			done := make(chan error)
			go func() {
				done <- sub.Serve(t.Context(), func(_ context.Context, e *transport.Event) error {
					got = append(got, e.ID)
					return nil
				})
			}()
			synctest.Wait()
			_ = sub.Close()
			<-done
			if s := fmt.Sprint(len(got), " from ", got[0]); s != c.want {
				t.Errorf("%d events of %d bytes: got %s, want %s", c.events, c.size, s, c.want)
			}
		}
	})
}

func TestSlowCardsSubscriberGetsTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(nil)
		defer b.Close()
		announce(t, b, "early", 0)
		announce(t, b, "leaves", 0)
		var got []string
		told := 0
		hold := make(chan struct{})
		serve(t, b, transport.Cards(""), nil, func(e *transport.Event) error {
			if len(got) == 0 {
				<-hold
			}
			switch p := e.Payload.(type) {
			case *transport.Synced:
				got = append(got, "synced")
			case *transport.Card:
				got = append(got, fmt.Sprint(p.AgentID, " ", p.TTL, " ", p.Gone))
			case *transport.AgentEvent:
				told++
			}
			return nil
		})
		synctest.Wait() // it handles the first card
		publish(t, b, transport.Cards(""), &transport.Event{
			ID: "bye", From: "leaves", Payload: &transport.Card{AgentID: "leaves", Instance: "1", Gone: transport.GoneLeft},
		})
		for i := range 10_000 {
			announce(t, b, fmt.Sprint("a", i%3), time.Hour+time.Duration(i))
			publish(t, b, transport.Cards(""), &transport.Event{
				ID: fmt.Sprint(i), From: transport.Cortex, Payload: &transport.AgentEvent{Kind: "seen", AgentID: "a"},
			})
		}
		close(hold)
		synctest.Wait()
		if len(got)+told > 9000 {
			t.Fatalf("%d events and %d that are told, want those that were overtaken left out", len(got), told)
		}
		if got[0] != "early 0s " || got[len(got)-1] != fmt.Sprint("a0 ", time.Hour+9999, " ") {
			t.Errorf("first %q, last %q", got[0], got[len(got)-1])
		}
		count := map[string]int{}
		for _, s := range got {
			count[s]++
		}
		if count["synced"] != 1 || count["leaves 0s left"] != 1 {
			t.Errorf("%d times synced, %d times left, want one of each", count["synced"], count["leaves 0s left"])
		}
	})
}

func TestDeadLettersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(nil)
		defer b.Close()
		serve(t, b, inbox, oneByOne, func(e *transport.Event) error {
			return transport.Permanent(errors.New(e.ID + strings.Repeat("é", 4096)))
		})
		for i := range 10_005 {
			publish(t, b, inbox, event(fmt.Sprint(i), "c1"))
		}
		synctest.Wait()
		n, first := 0, ""
		for l, err := range b.DeadLetters(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 1 {
				first = l.Event.ID
				if len(l.Reason) > 4096 || len(l.Reason) < 4000 {
					t.Errorf("a reason of %d bytes is kept, want it cut at 4096", len(l.Reason))
				}
			}
		}
		if n != 10_000 || first != "5" {
			t.Errorf("%d dead letters from %s, want 10000 from 5", n, first)
		}
	})
}

func TestServeOnce(t *testing.T) {
	b := memory.New(nil)
	defer b.Close()
	ignore := func(context.Context, *transport.Event) error { return nil }
	for _, topic := range []transport.Topic{inbox, transport.Cards(""), transport.Live("", "c1")} {
		sub, err := b.Subscribe(t.Context(), topic, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := sub.Serve(ctx, ignore); !errors.Is(err, context.Canceled) {
			t.Errorf("%v: Serve = %v, want context.Canceled", topic, err)
		}
		if err := sub.Serve(t.Context(), ignore); err == nil || errors.Is(err, transport.ErrClosed) {
			t.Errorf("%v: Serve again = %v, want an error that says so", topic, err)
		}
	}
}
