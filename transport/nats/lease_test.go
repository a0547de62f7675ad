package nats

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// forge writes a key of the orchestrator's inbox to the bucket of leases, without a TTL.
func forge(t *testing.T, b *Bus, key string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.js.Publish(t.Context(), leaseSubject(orchestratorInbox, key), data); err != nil {
		t.Fatal(err)
	}
}

// TestDeadOwner finds leases of an owner whose connection is gone: nobody waits until they expire.
func TestDeadOwner(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	forge(t, b, memberKey+"dead", member{Label: "dead"})
	for g := range transport.Partitions {
		forge(t, b, partitionKey+strconv.Itoa(g), lease{Owner: "dead", Epoch: 1 << 63})
	}
	got := make(chan *transport.Event, 10)
	serveTopic(t, b, orchestratorInbox, nil, func(e *transport.Event) error {
		got <- e
		return nil
	})
	publish(t, b, orchestratorInbox, "c1", "x")
	if e := receive(t, got); e.Epoch <= 1<<63 {
		t.Errorf("epoch %d, want one behind the last", e.Epoch)
	}
	eventually(t, "the one that lives owns everything", func() bool {
		list, err := b.Owners(t.Context(), orchestratorInbox)
		return err == nil && len(list) == 1 && len(list[0].Partitions) == transport.Partitions
	})
}

// TestNoLeases has another stream in the place of the bucket of leases, so that nobody can serve an inbox: that is told.
func TestNoLeases(t *testing.T) {
	var log syncedLog
	n := newNode(t, ServerOptions{})
	b := n.dial(t, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err := b.js.DeleteStream(t.Context(), leaseStream); err != nil {
		t.Fatal(err)
	}
	if _, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: leaseStream, Subjects: []string{"other"}}); err != nil {
		t.Fatal(err)
	}
	serveTopic(t, b, orchestratorInbox, nil, func(*transport.Event) error { return nil })
	eventually(t, "that nobody serves the inbox is told", func() bool { return strings.Contains(log.String(), "cannot be read or written") })
}

// TestSlowPeer serves an inbox beside a subscriber that runs but takes no partition: after a while every event is handled all the same, and the
// partitions stay with their owner.
func TestSlowPeer(t *testing.T) {
	n := newNode(t, ServerOptions{})
	b, slow := n.dial(t, nil), n.dial(t, nil)
	if _, err := slow.nc.Subscribe(peerSubject(orchestratorInbox, "slow"), func(m *natsgo.Msg) { _ = m.Respond(nil) }); err != nil {
		t.Fatal(err)
	}
	if err := slow.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	forge(t, b, memberKey+"slow", member{Label: "slow"})
	owned := make(chan int, 100)
	serveTopic(t, b, orchestratorInbox, &transport.SubscribeOptions{OnOwned: func(parts []int) { owned <- len(parts) }},
		func(*transport.Event) error { return nil })
	last := -1
	for last < transport.Partitions {
		next := receive(t, owned)
		if next <= last {
			t.Fatalf("%d partitions are owned after %d, want more and more", next, last)
		}
		last = next
	}
}

// TestReleased checks that a subscriber that ends leaves nothing behind for which others would have to wait.
func TestReleased(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	owned := make(chan int, 100)
	end := serveTopic(t, b, orchestratorInbox, &transport.SubscribeOptions{OnOwned: func(parts []int) { owned <- len(parts) }},
		func(*transport.Event) error { return nil })
	for receive(t, owned) < transport.Partitions {
	}
	end()
	l, err := b.leaseTable(t.Context(), orchestratorInbox)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.members) > 0 {
		t.Errorf("members %v, want none", l.members)
	}
	for g, lease := range l.leases {
		if lease.Owner != "" {
			t.Errorf("partition %d is still owned by %s", g, lease.Owner)
		}
	}
}

// TestHandedOver runs handlers in all partitions when another subscriber joins: those of the partitions that are handed over end, and the new owner
// gets their events; the others continue.
func TestHandedOver(t *testing.T) {
	n := newNode(t, ServerOptions{})
	a, b := n.dial(t, nil), n.dial(t, nil)
	running, ended := make(chan *transport.Event, 100), make(chan *transport.Event, 100)
	sub, err := a.Subscribe(t.Context(), orchestratorInbox, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = sub.Serve(ctx, func(ctx context.Context, e *transport.Event) error {
			running <- e
			<-ctx.Done()
			ended <- e
			return ctx.Err()
		})
	}()
	defer func() { cancel(); <-served }()
	contexts := map[int]string{}
	for i := 0; len(contexts) < transport.Partitions; i++ {
		c := string(rune('a'+i%26)) + string(rune('a'+i/26))
		if p := transport.Partition("", c); contexts[p] == "" {
			contexts[p] = c
			publish(t, a, orchestratorInbox, c, "x")
		}
	}
	epochs := map[string]uint64{}
	for range transport.Partitions {
		e := receive(t, running)
		epochs[e.ContextID] = e.Epoch
	}
	got := make(chan *transport.Event, 100)
	serveTopic(t, b, orchestratorInbox, nil, func(e *transport.Event) error {
		got <- e
		return nil
	})
	moved := map[string]bool{}
	for range transport.Partitions / 2 {
		moved[receive(t, ended).ContextID] = true
	}
	for range transport.Partitions / 2 {
		e := receive(t, got)
		if !moved[e.ContextID] || e.Delivery != 2 || e.Epoch == epochs[e.ContextID] {
			t.Errorf("%s came with delivery %d and epoch %d, want what was handled before, with 2 and another than %d",
				e.ContextID, e.Delivery, e.Epoch, epochs[e.ContextID])
		}
	}
	eventually(t, "the other half goes on", func() bool {
		list, err := b.Owners(t.Context(), orchestratorInbox)
		return err == nil && len(list) == 2 && len(list[0].Partitions) == transport.Partitions/2
	})
	if len(ended) > 0 {
		t.Errorf("the handler of %s ended as well", (<-ended).ContextID)
	}
}

// TestMixedOrder makes a subscriber without order join one with order, and the reverse: the second one gets an error, and the first continues.
func TestMixedOrder(t *testing.T) {
	inbox := transport.Inbox("", "worker")
	ordered, unordered := &transport.SubscribeOptions{}, &transport.SubscribeOptions{Unordered: true}
	for name, o := range map[string][2]*transport.SubscribeOptions{"ordered first": {ordered, unordered}, "unordered first": {unordered, ordered}} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, ServerOptions{})
			first, second := n.dial(t, nil), n.dial(t, nil)
			got := make(chan *transport.Event, 10)
			end := serveTopic(t, first, inbox, o[0], func(e *transport.Event) error {
				got <- e
				return nil
			})
			publish(t, second, inbox, "c1", "before")
			receive(t, got)
			if _, err := second.Subscribe(t.Context(), inbox, o[1]); !errors.Is(err, transport.ErrInvalid) {
				t.Fatalf("Subscribe = %v, want ErrInvalid", err)
			}
			publish(t, second, inbox, "c1", "after")
			if e := receive(t, got); text(e) != "after" || e.Delivery != 1 {
				t.Errorf("%s came with delivery %d, want what was published after, once", text(e), e.Delivery)
			}
			end()
			taken := make(chan *transport.Event, 10)
			serveTopic(t, second, inbox, o[1], func(e *transport.Event) error {
				taken <- e
				return nil
			})
			publish(t, first, inbox, "c1", "other")
			if e := receive(t, taken); text(e) != "other" {
				t.Errorf("%s came, want what was published when the first had ended", text(e))
			}
		})
	}
}

// TestPartitionOfNobody publishes to a partition that no subscriber reads: the server refuses it.
func TestPartitionOfNobody(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	for _, p := range []string{"64", "-1", "00", "x", "_"} {
		subject := inboxPrefix + "_.cortex." + p + ".c1.u"
		if _, err := b.js.Publish(t.Context(), subject, nil, jetstream.WithRetryAttempts(0)); !errors.Is(err, jetstream.ErrNoStreamResponse) {
			t.Errorf("Publish to %s = %v, want ErrNoStreamResponse", subject, err)
		}
		timer := &natsgo.Msg{Subject: timerPrefix + "_.cortex.c" + p, Header: natsgo.Header{
			jetstream.ScheduleHeader: {"@at 2000-01-01T00:00:00Z"}, jetstream.ScheduleTargetHeader: {subject},
		}}
		if _, err := b.js.PublishMsg(t.Context(), timer); err == nil {
			t.Errorf("a timer for %s is taken", subject)
		}
	}
}
