package nats

import (
	"context"
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
