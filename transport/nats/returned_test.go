package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestReturned has the subscribers of two inboxes hand back an event again and again: the tenant's is told of from the tenth time on, by its inbox.
func TestReturned(t *testing.T) {
	w := newTown(t)
	ctx, stop := context.WithCancel(t.Context())
	told := make(chan transport.Returned, 1000)
	ended := make(chan error, 1)
	before := w.cortex.nc.NumSubscriptions()
	go func() { ended <- w.cortex.WatchReturned(ctx, "", func(r transport.Returned) { told <- r }) }()
	eventually(t, "it listens", func() bool { return w.cortex.nc.NumSubscriptions() > before })
	if err := w.cortex.nc.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	inbox := transport.Inbox("", "w.1")
	if err := w.cortex.Publish(t.Context(), inbox, message(inbox, "c", "look")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.cortex.ensurePartition(t.Context(), partitionID{inbox, whole}); err != nil {
		t.Fatal(err)
	}
	c, err := w.cortex.js.Consumer(t.Context(), inboxStream, partitionID{inbox, whole}.consumer())
	if err != nil {
		t.Fatal(err)
	}
	for range 12 {
		m, err := c.Next(jetstream.FetchMaxWait(patience))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Nak(); err != nil {
			t.Fatal(err)
		}
	}
	for want := 10; want <= 12; want++ {
		if r := <-told; r.Inbox != inbox || r.Times != want || r.Stored.IsZero() {
			t.Errorf("told of %+v, want the inbox of w.1 with %d times", r, want)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("WatchReturned = %v", err)
	}
}

// TestManyReturned has a subscriber that hands back events faster than they are told of: those that are left out are no fault of the connection.
func TestManyReturned(t *testing.T) {
	w := newTown(t)
	var log textLog
	bus := w.dial(t, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	inbox := transport.Inbox("", "w.1")
	if err := bus.Publish(t.Context(), inbox, message(inbox, "c", "look")); err != nil {
		t.Fatal(err)
	}
	is, err := bus.js.Stream(t.Context(), inboxStream)
	if err != nil {
		t.Fatal(err)
	}
	about := fmt.Appendf(nil, `{"stream_seq":%d,"deliveries":10}`, is.CachedInfo().State.LastSeq)
	ctx, stop := context.WithCancel(t.Context())
	telling, goOn := make(chan struct{}, 1), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- bus.WatchReturned(ctx, "", func(transport.Returned) {
			select {
			case telling <- struct{}{}:
			default:
			}
			<-goOn
		})
	}()
	advise := func() {
		if err := w.cortex.nc.Publish(nakAdvisory+inboxStream+".x", about); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "it tells", func() bool {
		advise()
		return len(telling) > 0
	})
	for range returnedWaiting + 1000 {
		advise()
	}
	if err := errors.Join(w.cortex.nc.FlushTimeout(patience), bus.nc.FlushTimeout(patience)); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	stop()
	if err := <-ended; err != nil {
		t.Errorf("WatchReturned = %v", err)
	}
	_ = bus.Close()
	if said := log.String(); strings.Contains(said, nakAdvisory) {
		t.Errorf("the log says %.300s", said)
	}
}
