package storecheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// queue returns a store with a work queue, as after a kill. Of messages 1 to 12 for the worker, and of as many for another consumer, 1 to 5 were
// acknowledged and 6 to 8 delivered; the rest was never pulled.
func queue(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	js, stop := serve(t, dir)
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: stream, Subjects: []string{"test.>"}, Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"worker", "other"} {
		if _, err := s.CreateConsumer(t.Context(), jetstream.ConsumerConfig{
			Durable: who, FilterSubject: "test." + who + ".>", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Second,
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 {
		for _, who := range []string{"worker", "other"} {
			if _, err := js.Publish(t.Context(), fmt.Sprintf("test.%s.%d", who, i+1), []byte("words")); err != nil {
				t.Fatal(err)
			}
		}
	}
	c, err := s.Consumer(t.Context(), "worker")
	if err != nil {
		t.Fatal(err)
	}
	batch, err := c.Fetch(8)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for m := range batch.Messages() {
		if n++; n <= 5 {
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	if err := os.Remove(streamFile(dir, "msgs/index.db")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// waiting starts a server on a store and returns how many messages the worker gets.
func waiting(t *testing.T, dir string, want int) int {
	t.Helper()
	js, stop := serve(t, dir)
	defer stop()
	c, err := js.Consumer(t.Context(), stream, "worker")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for len(got) < want && ctx.Err() == nil {
		m, err := c.Next(jetstream.FetchMaxWait(100 * time.Millisecond))
		if errors.Is(err, nats.ErrTimeout) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got[m.Subject()] = true
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	return len(got)
}

// TestDelivered flips each bit of the state of a work queue's consumer, which has no checksum, after a kill. Whatever the state says then, every
// unacknowledged message is delivered.
func TestDelivered(t *testing.T) {
	from := queue(t)
	o, err := os.ReadFile(streamFile(from, "obs/worker/o.dat"))
	if err != nil {
		t.Fatal(err)
	}
	if r := examine(t, from, Options{}); len(r.Findings) > 0 {
		t.Fatalf("the check finds %+v in a store that is not damaged", r.Findings)
	}
	for i := range len(o) * 8 {
		t.Run(fmt.Sprintf("byte %d bit %d", i/8, i%8), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			b := append([]byte{}, o...)
			b[i/8] ^= 1 << (i % 8)
			if err := os.WriteFile(streamFile(dir, "obs/worker/o.dat"), b, 0o600); err != nil {
				t.Fatal(err)
			}
			r := examine(t, dir, Options{Aside: t.TempDir()})
			for _, f := range r.Findings {
				if f.Level != Made && f.Level != Unfinished || f.File != "obs/worker/o.dat" {
					t.Errorf("the check finds %+v", f)
				}
			}
			if got := waiting(t, dir, 7); got != 7 {
				t.Errorf("%d of 7 messages are delivered, with %v", got, b)
			}
		})
	}
}

// TestKilledBetween has a consumer's state, as an older version may leave it after a kill, that marks an existing message as acknowledged. That is
// no damage: the message is delivered again.
func TestKilledBetween(t *testing.T) {
	dir := queue(t)
	state := []byte{stateMagic, 2, 8, 15, 8, 15, 0, 0} // eight messages, up to the sequence 15, and none of them pending
	if _, ok := parseState(state, 24, time.Now()); !ok {
		t.Fatal("this is no state")
	}
	if err := os.WriteFile(streamFile(dir, "obs/worker/o.dat"), state, 0o600); err != nil {
		t.Fatal(err)
	}
	r := examine(t, dir, Options{Aside: t.TempDir()})
	if len(r.Findings) != 1 || r.Findings[0].Level != Unfinished || !strings.Contains(r.Findings[0].What, "message 11, which is there still, as when its process is killed") {
		t.Errorf("the check finds %+v, want that a write was not finished", r.Findings)
	}
	if got := waiting(t, dir, 7); got != 7 {
		t.Errorf("%d of 7 messages are delivered", got)
	}
}
