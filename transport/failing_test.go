package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

var errBroken = errors.New("broken")

// desk is a Failing with the event that is read, and its log.
type desk struct {
	*transport.Failing
	logged bytes.Buffer
	e      transport.Event
	unread error
}

func newDesk(o *transport.SubscribeOptions) *desk {
	d := &desk{e: transport.Event{ID: "e1", ContextID: "c1", From: "user"}}
	d.Failing = transport.NewFailing(transport.Inbox("", "worker"), o, slog.New(slog.NewTextHandler(&d.logged, nil)))
	return d
}

// handle handles event 7 with this outcome.
func (d *desk) handle(ctx context.Context, outcome error) error {
	return d.Handle(ctx, func(_ context.Context, e *transport.Event) error {
		e.ID = "spoiled"
		return outcome
	}, 7, func() (*transport.Event, error) {
		e := d.e
		return &e, d.unread
	})
}

// TestFailingGivesUp checks that an event that keeps failing is given up, with the latest reason, and counted.
func TestFailingGivesUp(t *testing.T) {
	d := newDesk(nil)
	for n := 1; n < transport.MaxFailures; n++ {
		if err := d.handle(t.Context(), errBroken); !errors.Is(err, errBroken) || transport.IsPermanent(err) {
			t.Fatalf("failure %d: %v, want the handler's error", n, err)
		}
	}
	if got := d.Trouble(); len(got.Failing) != 1 || got.Failing[0].ID != "e1" || got.Failing[0].Times != transport.MaxFailures-1 || got.GivenUp != 0 {
		t.Errorf("trouble %+v, want e1 and %d failures", got, transport.MaxFailures-1)
	}
	err := d.handle(t.Context(), errBroken)
	if !transport.IsPermanent(err) || !errors.Is(err, errBroken) || !strings.Contains(err.Error(), fmt.Sprint("failed ", transport.MaxFailures, " times")) {
		t.Fatalf("the last failure: %v, want it permanent, with the number", err)
	}
	d.GaveUp(7)
	got := d.Trouble()
	if len(got.Failing) != 0 || got.GivenUp != 1 || got.Last.ID != "e1" || !errors.Is(got.Last.Err, errBroken) {
		t.Errorf("trouble %+v, want one that was given up", got)
	}
	if log := d.logged.String(); !strings.Contains(log, "level=WARN") || !strings.Contains(log, "given up") || !strings.Contains(log, "broken") {
		t.Errorf("logged %q, want a warning with the reason", log)
	}
}

// TestFailingOfTheMoment checks that temporary failures are retried without limit, and that a single other failure does not change that; that a
// warning is logged, and not too often; and that the event is no trouble any more once it is handled.
func TestFailingOfTheMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(nil)
		reasons := []error{
			transport.ErrFull, fmt.Errorf("load: %w", transport.ErrUnavailable), transport.ErrClosed, transport.Temporary(errBroken),
			fmt.Errorf("ask: %w", context.DeadlineExceeded), context.Canceled,
		}
		for range 100 {
			for _, reason := range reasons {
				if err := d.handle(t.Context(), reason); transport.IsPermanent(err) || !errors.Is(err, reason) {
					t.Fatalf("%v: %v", reason, err)
				}
				<-time.After(time.Second)
			}
		}
		if err := d.handle(t.Context(), errBroken); transport.IsPermanent(err) {
			t.Errorf("%v: given up for a single failure", err)
		}
		if n := strings.Count(d.logged.String(), "again and again"); n != 10 {
			t.Errorf("%d warnings in ten minutes, want 10", n)
		}
		if got := d.Trouble(); len(got.Failing) != 1 || got.Failing[0].Times != 601 || time.Since(got.Failing[0].Since) != 10*time.Minute {
			t.Errorf("trouble %+v, want 601 failures in ten minutes", got)
		}
		if err := d.handle(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if got := d.Trouble(); len(got.Failing)+got.GivenUp != 0 {
			t.Errorf("trouble %+v, want none", got)
		}
	})
}

// TestFailingAtTheEnd checks that failures because the subscriber ends do not count.
func TestFailingAtTheEnd(t *testing.T) {
	d := newDesk(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 * transport.MaxFailures {
		if err := d.handle(ctx, errBroken); transport.IsPermanent(err) {
			t.Fatal(err)
		}
	}
	if got := d.Trouble(); len(got.Failing) != 0 {
		t.Errorf("trouble %+v, want none", got)
	}
}

// TestFailingTells checks that OnGivenUp is called for every event that is given up, unchanged and before that; that the event is given up only after
// the call has succeeded; and that a permanent error of the call does not prevent it.
func TestFailingTells(t *testing.T) {
	tests := map[string]struct {
		outcome, unread error
		want            string
	}{
		"permanent":  {outcome: transport.Permanent(errBroken), want: "broken"},
		"unreadable": {unread: errBroken, want: "it cannot be read: broken"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var told []string
			var answer error
			d := newDesk(&transport.SubscribeOptions{OnGivenUp: func(_ context.Context, e *transport.Event, reason error) error {
				told = append(told, e.ID+" "+reason.Error())
				if answer == nil && len(told) > 3 {
					panic("no words")
				}
				return answer
			}})
			d.unread = test.unread
			answer = fmt.Errorf("not now: %w", transport.ErrUnavailable)
			for range 3 {
				if err := d.handle(t.Context(), test.outcome); err == nil || transport.IsPermanent(err) {
					t.Fatalf("%v, want the event again", err)
				}
			}
			answer = nil
			for range 2 { // the second call panics
				if err := d.handle(t.Context(), test.outcome); !transport.IsPermanent(err) || err.Error() != test.want {
					t.Fatalf("%v, want %q for good", err, test.want)
				}
			}
			if want := "e1 " + test.want; len(told) != 5 || told[0] != want || told[4] != want {
				t.Errorf("told %q, want %q five times", told, want)
			}
		})
	}
}

// TestPanicIsAnError checks that a panic of a handler is an error of its event, with the stack in the log.
func TestPanicIsAnError(t *testing.T) {
	var logged bytes.Buffer
	err := transport.Call(t.Context(), slog.New(slog.NewTextHandler(&logged, nil)), func(context.Context, *transport.Event) error {
		panic("the sky falls")
	}, &transport.Event{ID: "e1"})
	var p *transport.PanicError
	if !errors.As(err, &p) || err.Error() != "panic: the sky falls" || transport.IsTemporary(err) {
		t.Errorf("%v, want the panic", err)
	}
	if log := logged.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "TestPanicIsAnError") {
		t.Errorf("logged %q, want an error with the stack", log)
	}
}
