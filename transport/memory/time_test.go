package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

var inbox = transport.Inbox("", "worker")

func event(id, contextID string) *transport.Event {
	return &transport.Event{
		ID: id, From: "user", ContextID: contextID,
		Payload: &a2a.Message{ID: id, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(id)}},
	}
}

func publish(t *testing.T, b *memory.Bus, topic transport.Topic, e *transport.Event) {
	t.Helper()
	if err := b.Publish(t.Context(), topic, e); err != nil {
		t.Fatalf("Publish(%s) = %v, want nil", e.ID, err)
	}
}

// serve handles topic with h until the test ends.
func serve(t *testing.T, b *memory.Bus, topic transport.Topic, o *transport.SubscribeOptions, h func(*transport.Event) error) {
	t.Helper()
	sub, err := b.Subscribe(t.Context(), topic, o)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- sub.Serve(context.Background(), func(_ context.Context, e *transport.Event) error { return h(e) })
	}()
	t.Cleanup(func() {
		_ = sub.Close()
		if err := <-done; !errors.Is(err, transport.ErrClosed) {
			t.Errorf("Serve = %v, want ErrClosed", err)
		}
	})
}

// diary records what is handled and when, one handler at a time.
type diary struct {
	begin time.Time
	lines []string
}

func (d *diary) note(text string) {
	d.lines = append(d.lines, fmt.Sprint(time.Since(d.begin), " ", text))
}

func (d *diary) want(t *testing.T, lines ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(lines, d.lines); diff != "" {
		t.Errorf("handled (-want +got):\n%s", diff)
	}
}

// until lets time pass until at after the beginning.
func (d *diary) until(at time.Duration) { <-time.After(time.Until(d.begin.Add(at))) }

var oneByOne = &transport.SubscribeOptions{Concurrency: 1}

func TestDuplicateWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := memory.New(nil), &diary{begin: time.Now()}
		defer b.Close()
		serve(t, b, inbox, oneByOne, func(e *transport.Event) error { d.note(e.ID); return nil })
		publish(t, b, inbox, event("x", "c"))
		d.until(transport.DuplicateWindow - 1)
		publish(t, b, inbox, event("x", "c")) // does not begin a new window
		d.until(transport.DuplicateWindow)
		publish(t, b, inbox, event("x", "c"))
		publish(t, b, inbox, event("x", "c"))
		d.until(transport.DuplicateWindow * 3 / 2)
		publish(t, b, inbox, event("y", "c"))
		for range 4 { // at any time of its window
			d.until(time.Since(d.begin) + transport.DuplicateWindow/4 - 1)
			publish(t, b, inbox, event("y", "c"))
		}
		d.until(transport.DuplicateWindow * 5 / 2)
		publish(t, b, inbox, event("y", "c"))
		d.want(t, "0s x", "2m0s x", "3m0s y", "5m0s y")
	})
}

func TestDeliverAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := memory.New(nil), &diary{begin: time.Now()}
		defer b.Close()
		serve(t, b, inbox, oneByOne, func(e *transport.Event) error { d.note(e.ID); return nil })
		after := func(id, contextID string, delay time.Duration) {
			e := event(id, contextID)
			e.DeliverAt = time.Now().Add(delay)
			publish(t, b, inbox, e)
		}
		after("day", "c1", 24*time.Hour)
		after("hour", "c2", time.Hour)
		after("replaced", "c3", time.Minute)
		after("instead", "c3", 2*time.Minute)
		after("replaced", "c3", time.Minute) // a repetition changes nothing
		after("now", "c4", 0)
		after("past", "c5", -time.Hour)
		d.until(25 * time.Hour)
		d.want(t, "0s now", "0s past", "2m0s instead", "1h0m0s hour", "24h0m0s day")
	})
}

func TestCardExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := memory.New(nil), &diary{begin: time.Now()}
		defer b.Close()
		h := func(e *transport.Event) error {
			switch p := e.Payload.(type) {
			case *transport.Synced:
				d.note("synced")
			case *transport.Card:
				d.note(p.AgentID + " " + string(p.Gone))
			}
			return nil
		}
		serve(t, b, transport.Cards(""), nil, h)
		synctest.Wait()
		announce(t, b, "a", 90*time.Second)
		announce(t, b, "b", 90*time.Second)
		announce(t, b, "c", 0)
		d.until(89 * time.Second)
		synctest.Wait()
		announce(t, b, "a", 90*time.Second) // refreshed
		d.until(24 * time.Hour)
		d.want(t, "0s synced", "0s a ", "0s b ", "0s c ", "1m29s a ", "1m30s b expired", "2m59s a expired")
		serve(t, b, transport.Cards(""), nil, h)
		synctest.Wait()
		d.want(t, append(d.lines[:7:7], "24h0m0s c ", "24h0m0s synced")...)
	})
}

func announce(t *testing.T, b *memory.Bus, agent string, ttl time.Duration) {
	t.Helper()
	publish(t, b, transport.Cards(""), &transport.Event{
		ID: agent, From: agent, Payload: &transport.Card{AgentID: agent, Instance: "1", TTL: ttl, Card: &a2a.AgentCard{Name: agent}},
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := memory.New(&memory.Options{Backoff: time.Second}), &diary{begin: time.Now()}
		defer b.Close()
		serve(t, b, inbox, oneByOne, func(e *transport.Event) error {
			d.note(fmt.Sprint(e.ID, " ", e.Delivery))
			if e.ID == "bad" && e.Delivery < 10 {
				return transport.ErrUnavailable
			}
			return nil
		})
		publish(t, b, inbox, event("bad", "c1"))
		publish(t, b, inbox, event("behind", "c1"))
		publish(t, b, inbox, event("other", "c2"))
		d.until(time.Hour)
		d.want(t,
			"0s bad 1", "0s other 1", "1s bad 2", "3s bad 3", "7s bad 4", "15s bad 5", "31s bad 6", "1m3s bad 7", "2m7s bad 8",
			"3m47s bad 9", "5m27s bad 10", "5m27s behind 1")
	})
}

func TestWorkIsGivenBackWithoutDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := memory.New(&memory.Options{Backoff: time.Hour}), &diary{begin: time.Now()}
		defer b.Close()
		ctx, cancel := context.WithCancel(t.Context())
		sub, err := b.Subscribe(ctx, inbox, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			publish(t, b, inbox, event(fmt.Sprint(i), "c1"))
		}
		err = sub.Serve(ctx, func(ctx context.Context, _ *transport.Event) error {
			cancel()
			return errors.New("interrupted")
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Serve = %v, want context.Canceled", err)
		}
		serve(t, b, inbox, nil, func(e *transport.Event) error { d.note(fmt.Sprint(e.ID, " ", e.Delivery)); return nil })
		d.want(t, "0s 0 2", "0s 1 1", "0s 2 1")
	})
}

func TestNothingRunsWithoutClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := memory.New(nil), &diary{begin: time.Now()}
		e := event("due", "c1")
		e.DeliverAt = time.Now().Add(time.Minute)
		publish(t, b, inbox, e)
		announce(t, b, "a", time.Minute)
		_ = b.Close()
		d.until(time.Hour)
		b2 := b.Dial() // and everything is made up for
		defer b2.Close()
		serve(t, b2, inbox, oneByOne, func(e *transport.Event) error { d.note(e.ID); return nil })
		synctest.Wait()
		serve(t, b2, transport.Cards(""), nil, func(e *transport.Event) error {
			kind, _ := transport.PayloadKind(e.Payload)
			d.note(kind)
			return nil
		})
		d.want(t, "1h0m0s due", "1h0m0s synced")
		if err := b.Publish(t.Context(), inbox, event("x", "c1")); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("Publish on the closed client = %v, want ErrClosed", err)
		}
	})
}

func TestUnorderedFailuresDoNotWait(t *testing.T) {
	// The events of one conversation fail independently, and an ordered subscriber takes over in order.
	synctest.Test(t, func(t *testing.T) {
		b, d := memory.New(&memory.Options{Backoff: time.Second}), &diary{begin: time.Now()}
		defer b.Close()
		sub, err := b.Subscribe(t.Context(), inbox, &transport.SubscribeOptions{Unordered: true, Concurrency: 1})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			publish(t, b, inbox, event(fmt.Sprint(i), "c1"))
		}
		done := make(chan error)
		var first []string
		go func() {
			done <- sub.Serve(t.Context(), func(_ context.Context, e *transport.Event) error {
				first = append(first, e.ID)
				return errors.New("not now")
			})
		}()
		synctest.Wait()
		_ = sub.Close()
		<-done
		if want := []string{"0", "1", "2", "3", "4"}; !slices.Equal(first, want) {
			t.Errorf("handled %v, want %v", first, want)
		}
		serve(t, b, inbox, nil, func(e *transport.Event) error { d.note(fmt.Sprint(e.ID, " ", e.Delivery)); return nil })
		d.until(time.Minute)
		d.want(t, "1s 0 2", "1s 1 2", "1s 2 2", "1s 3 2", "1s 4 2")
	})
}
