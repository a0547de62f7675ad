package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// newPartitions returns an ordered subscriber of the orchestrator's inbox that serves no partition.
func newPartitions(b *Bus, o transport.SubscribeOptions) *inbox {
	if o.Concurrency == 0 {
		o.Concurrency = transport.DefaultConcurrency
	}
	return newInbox(b, orchestratorInbox, o)
}

// owner is newPartitions with the first partition acquired but not served.
func owner(t *testing.T, b *Bus) (*inbox, *partition) {
	t.Helper()
	in := newPartitions(b, transport.SubscribeOptions{})
	g := in.partitions[0]
	var err error
	if g.ctx, err = in.take(t.Context(), g, lease{}); err != nil {
		t.Fatal(err)
	}
	return in, g
}

// inBucket returns the lease of the first partition in the bucket.
func inBucket(t *testing.T, b *Bus) lease {
	t.Helper()
	l, err := b.leaseTable(t.Context(), orchestratorInbox)
	if err != nil {
		t.Fatal(err)
	}
	return l.leases[0]
}

// TestRenew renews a lease, also after the answer to the last renewal or the bucket was lost.
func TestRenew(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	in, g := owner(t, b)
	epoch := g.lease.Epoch
	for range 2 {
		if err := g.renew(t.Context()); err != nil {
			t.Fatalf("renew = %v", err)
		}
	}
	if got := inBucket(t, b); got.Owner != in.id || got.Epoch != epoch {
		t.Errorf("the lease is %+v, want the same owner and epoch %d", got, epoch)
	}
	forge(t, b, partitionKey+"0", lease{Owner: in.id, Epoch: epoch}) // written, but the answer was lost
	if err := g.renew(t.Context()); !errors.Is(err, errLeaseTaken) {
		t.Errorf("renew of what is ours already = %v, want errLeaseTaken", err)
	}
	if err := g.renew(t.Context()); err != nil || inBucket(t, b).Epoch != epoch {
		t.Errorf("the next renew = %v, epoch %d, want nil and %d", err, inBucket(t, b).Epoch, epoch)
	}
	s, err := b.js.Stream(t.Context(), leaseStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.renew(t.Context()); !errors.Is(err, errLeaseTaken) {
		t.Errorf("renew in a bucket that is new = %v, want errLeaseTaken", err)
	}
	if err := g.renew(t.Context()); err != nil || inBucket(t, b).Epoch <= epoch {
		t.Errorf("the next renew = %v, epoch %d, want nil and one behind %d: another may have had it", err, inBucket(t, b).Epoch, epoch)
	}
}

// TestRenewLost renews a lease that another subscriber has or had.
func TestRenewLost(t *testing.T) {
	for name, spoil := range map[string]func(b *Bus, in *inbox, g *partition){
		"another's": func(b *Bus, _ *inbox, g *partition) {
			forge(t, b, partitionKey+"0", lease{Owner: "other", Epoch: g.lease.Epoch})
		},
		"ours, and another's before": func(b *Bus, in *inbox, g *partition) {
			forge(t, b, partitionKey+"0", lease{Owner: in.id, Epoch: g.lease.Epoch + 1})
		},
		"given up": func(_ *Bus, _ *inbox, g *partition) { g.lose() },
		"another's, and ours is over": func(b *Bus, _ *inbox, g *partition) {
			forge(t, b, partitionKey+"0", lease{Owner: "other", Epoch: g.lease.Epoch})
			g.until = time.Now()
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newNode(t, ServerOptions{}).dial(t, nil)
			in, g := owner(t, b)
			spoil(b, in, g)
			if err := g.renew(t.Context()); !errors.Is(err, errLost) {
				t.Errorf("renew = %v, want errLost", err)
			}
		})
	}
}

// TestLapsed checks that the expiry of a lease is respected everywhere: a process that was stopped gets there before it learns anything else.
func TestLapsed(t *testing.T) {
	for name, lapsed := range map[string]bool{"holds": false, "lapsed": true} {
		t.Run(name, func(t *testing.T) {
			b := newNode(t, ServerOptions{}).dial(t, nil)
			_, g := owner(t, b)
			if lapsed {
				g.until = time.Now()
			}
			e := message(orchestratorInbox, "c1", "x")
			m, err := encode(inboxSubject(inboxAddress{"", transport.Cortex, "c1", "user"}), e, true)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if lapsed {
				time.AfterFunc(leaseRetry/2, cancel)
			}
			handled := false
			err = g.handle(ctx, func(_ context.Context, e *transport.Event) error {
				handled = e.Epoch == g.lease.Epoch
				return nil
			}, &delivery{msg: m}, 0)
			if handled == lapsed || (err != nil) != lapsed || len(g.in.slots) != 0 {
				t.Errorf("handled %v, err %v, want it handled unless the lease is over", handled, err)
			}
		})
		t.Run(name+", pull", func(t *testing.T) {
			b := newNode(t, ServerOptions{}).dial(t, nil)
			_, g := owner(t, b)
			if lapsed {
				g.until = time.Now()
			}
			g.current = &feed{p: g, reply: b.nc.NewInbox(), broken: make(chan error, 1)}
			g.pull()
			if asked := g.current.asked > 0; asked == lapsed {
				t.Errorf("asked %v, want events asked for unless the lease is over", asked)
			}
		})
	}
}

// TestRenewLate renews an expired lease that nobody has taken: running handlers go on, and the epoch changes if another subscriber could have had
// the partition.
func TestRenewLate(t *testing.T) {
	for name, forgotten := range map[string]bool{"it is still there": false, "it is gone": true} {
		t.Run(name, func(t *testing.T) {
			b := newNode(t, ServerOptions{}).dial(t, nil)
			owned := make(chan int, 100)
			in := newPartitions(b, transport.SubscribeOptions{OnOwned: func(parts []int) { owned <- len(parts) }})
			running, finish := make(chan *transport.Event, 10), make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan struct{})
			go func() {
				defer close(served)
				in.runOwned(ctx, func(ctx context.Context, e *transport.Event) error {
					running <- e
					select {
					case <-finish:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
			}()
			defer func() { cancel(); <-served }()
			for receive(t, owned) < transport.Partitions {
			}
			for _, words := range []string{"first", "second"} {
				publish(t, b, orchestratorInbox, "c1", words)
			}
			first := receive(t, running)
			g := in.partitions[transport.Partition("", "c1")]
			g.renewing <- struct{}{}
			in.mu.Lock()
			g.until = time.Now()
			rev := g.lease.rev
			in.mu.Unlock()
			g.doubt()
			if n := receive(t, owned); n != transport.Partitions-1 {
				t.Errorf("%d partitions are owned, want those of the other partitions", n)
			}
			if forgotten {
				forget := leaseSubject(orchestratorInbox, g.key())
				if _, err := b.putKey(t.Context(), forget, lease{}, true, rev); err != nil {
					t.Fatal(err)
				}
			}
			<-g.renewing
			if n := receive(t, owned); n != transport.Partitions {
				t.Errorf("%d partitions are owned, want all again", n)
			}
			close(finish)
			second := receive(t, running)
			if first.Delivery != 1 || text(second) != "second" || second.Delivery != 1 || second.Epoch > first.Epoch != forgotten {
				t.Errorf("%s came with delivery %d and epoch %d after %d, want the second, once", text(second), second.Delivery, second.Epoch, first.Epoch)
			}
		})
	}
}

// TestDoubt makes the renewal of a lease fail for a while.
func TestDoubt(t *testing.T) {
	n := newNode(t, ServerOptions{})
	b := n.dial(t, nil)
	in, g := owner(t, b)
	owned := make(chan int, 10)
	in.onOwned = func(parts []int) { owned <- len(parts) }
	g.own()
	if n := receive(t, owned); n == 0 {
		t.Fatal("nothing is owned at first")
	}
	done, kept := make(chan struct{}), make(chan struct{})
	g.until = time.Now()
	n.down()
	go func() {
		defer close(kept)
		g.keepLease(done)
	}()
	if n := receive(t, owned); n != 0 {
		t.Errorf("%d partitions are owned while the lease is over, want none", n)
	}
	f := &feed{p: g, reply: b.nc.NewInbox(), broken: make(chan error, 1)}
	in.mu.Lock()
	g.current = f
	in.mu.Unlock()
	n.up(t, func(*Bus) {}) // another bus makes the bucket again
	if n := receive(t, owned); n == 0 {
		t.Error("nothing is owned when the lease is renewed")
	}
	close(done)
	<-kept
	if f.asked == 0 {
		t.Error("nothing is asked for when the lease is renewed")
	}
}

// TestConfirm serves a partition over another connection than the one that renewed its lease: another subscriber may own it.
func TestConfirm(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	in, g := owner(t, b)
	g.verified--
	forge(t, b, partitionKey+"0", lease{Owner: "other", Epoch: 1})
	ctx, cancel := context.WithCancel(t.Context())
	in.onOwned = func(parts []int) {
		if len(parts) > 0 {
			t.Errorf("%v is owned", parts)
			cancel()
		}
	}
	if err := g.feed(ctx, nil); !errors.Is(err, errLost) || !g.isLost() {
		t.Errorf("feed = %v, want errLost", err)
	}
}

// TestShare divides the limit among the partitions that are owned, or should be.
func TestShare(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	in, g := owner(t, b)
	g.current = &feed{p: g, reply: b.nc.NewInbox(), broken: make(chan error, 1)}
	for n := transport.Partitions; n > 0; n /= 2 {
		in.divide(n)
		if got, want := g.current.asked, in.limit/n; got != want {
			t.Errorf("%d events are asked for with %d partitions, want %d", got, n, want)
		}
	}
}

// TestStarved frees the bytes in one partition that kept another one from pulling.
func TestStarved(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	in, g := owner(t, b)
	g.current = &feed{p: g, reply: b.nc.NewInbox(), broken: make(chan error, 1)}
	in.heldBytes = maxHeldBytes
	g.pull()
	if g.current.asked > 0 {
		t.Errorf("%d events are asked for while there is no room", g.current.asked)
	}
	in.heldBytes--
	in.partitions[1].pull()
	if g.current.asked == 0 {
		t.Error("nothing is asked for when another partition has made room")
	}
}

// TestClaim takes over events that were delivered to an earlier owner: they come first, in order and at once.
func TestClaim(t *testing.T) {
	n := newNode(t, ServerOptions{})
	before, b := n.dial(t, nil), n.dial(t, nil)
	const contextID = "c1"
	s := partitionID{orchestratorInbox, transport.Partition("", contextID)}
	if _, err := before.ensurePartition(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		publish(t, before, orchestratorInbox, contextID, strconv.Itoa(i))
	}
	consumer, err := before.js.Consumer(t.Context(), inboxStream, s.consumer())
	if err != nil {
		t.Fatal(err)
	}
	batch, err := consumer.Fetch(2, jetstream.FetchMaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	for range batch.Messages() { // never acknowledged
	}
	got := make(chan *transport.Event, 10)
	serveTopic(t, b, orchestratorInbox, nil, func(e *transport.Event) error {
		got <- e
		return nil
	})
	for i := range 3 {
		if e := receive(t, got); text(e) != strconv.Itoa(i) {
			t.Errorf("%s came, want %d", text(e), i)
		}
	}
}

// TestClaimFromPaused takes over from an owner that is paused with its connection open: its outstanding pulls get no events.
func TestClaimFromPaused(t *testing.T) {
	n := newNode(t, ServerOptions{})
	paused, b := n.dial(t, nil), n.dial(t, nil)
	const contextID = "c1"
	s := partitionID{orchestratorInbox, transport.Partition("", contextID)}
	if _, err := paused.ensurePartition(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	sub, err := paused.nc.SubscribeSync(paused.nc.NewInbox())
	if err == nil {
		err = paused.nc.PublishRequest(newPartition(newPartitions(paused, transport.SubscribeOptions{}), s).pullSubject, sub.Subject,
			[]byte(`{"batch":100,"expires":60000000000}`))
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has asked", func() bool {
		info, err := paused.consumer(t.Context(), s)
		return err == nil && info.NumWaiting == 1
	})
	got, owned := make(chan *transport.Event, 100), make(chan []int, 100)
	serveTopic(t, b, orchestratorInbox, &transport.SubscribeOptions{OnOwned: func(parts []int) { owned <- parts }}, func(e *transport.Event) error {
		got <- e
		return nil
	})
	for len(receive(t, owned)) < transport.Partitions {
	}
	for i := range 10 {
		publish(t, b, orchestratorInbox, contextID, strconv.Itoa(i))
	}
	for i := range 10 {
		if e := receive(t, got); text(e) != strconv.Itoa(i) || e.Delivery != 1 {
			t.Fatalf("%s came with delivery %d, want %d, once", text(e), e.Delivery, i)
		}
	}
	for {
		m, err := sub.NextMsg(time.Millisecond)
		if errors.Is(err, natsgo.ErrTimeout) {
			break
		}
		if err != nil || m.Header.Get("Status") == "" {
			t.Fatalf("%v, %v came to who is paused", m, err)
		}
	}
}

// TestToldBeforeReleased checks that a subscriber reports the loss of a partition while it still owns it.
func TestToldBeforeReleased(t *testing.T) {
	n := newNode(t, ServerOptions{})
	b, ask := n.dial(t, nil), n.dial(t, nil)
	type said struct {
		count int
		lease lease
	}
	heard := make(chan said, 100)
	end := serveTopic(t, b, orchestratorInbox, &transport.SubscribeOptions{OnOwned: func(parts []int) {
		l, err := ask.leaseTable(context.Background(), orchestratorInbox)
		if err != nil {
			t.Error(err)
			return
		}
		if slices.Contains(parts, 0) {
			l.leases[0] = lease{}
		}
		heard <- said{len(parts), l.leases[0]}
	}}, func(*transport.Event) error { return nil })
	for receive(t, heard).count < transport.Partitions {
	}
	end()
	for first := true; ; {
		s := receive(t, heard)
		if first && s.lease.Epoch > 0 { // the first report without the partition; it may be released before the next one
			if first = false; s.lease.Owner == "" {
				t.Fatal("the partition was released when it was said that it would be")
			}
		}
		if s.count == 0 {
			break
		}
	}
}

// TestDeadStaysDead takes over from a dead owner, whose remaining member key is no sign of life.
func TestDeadStaysDead(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	forge(t, b, memberKey+"dead", member{Label: "dead"})
	for g := range transport.Partitions {
		forge(t, b, partitionKey+strconv.Itoa(g), lease{Owner: "dead", Epoch: 1})
	}
	in := newPartitions(b, transport.SubscribeOptions{})
	c := newRebalancer(in, func(context.Context, *transport.Event) error { return nil })
	ctx, cancel := context.WithCancel(t.Context())
	defer func() { cancel(); c.holding.Wait() }()
	for range 3 {
		if err := c.step(ctx); err != nil {
			t.Fatal(err)
		}
		in.mu.Lock()
		for i, g := range in.partitions {
			if !g.busy || g.leaving {
				t.Errorf("partition %d: taken %v, given up %v, want it taken", i, g.busy, g.leaving)
			}
		}
		in.mu.Unlock()
	}
}

// TestTakeIsACompare acquires a partition twice from one read of the bucket: only the first attempt succeeds.
func TestTakeIsACompare(t *testing.T) {
	n := newNode(t, ServerOptions{})
	first, second := newPartitions(n.dial(t, nil), transport.SubscribeOptions{}), newPartitions(n.dial(t, nil), transport.SubscribeOptions{})
	old := inBucket(t, first.bus)
	if _, err := first.take(t.Context(), first.partitions[0], old); err != nil {
		t.Fatal(err)
	}
	if _, err := second.take(t.Context(), second.partitions[0], old); !errors.Is(err, errLeaseTaken) {
		t.Errorf("the second take = %v, want errLeaseTaken", err)
	}
	if l := inBucket(t, first.bus); l.Owner != first.id || second.partitions[0].busy {
		t.Errorf("%q has the partition, and the second one thinks that it does: %v", l.Owner, second.partitions[0].busy)
	}
}

// TestNewBucket acquires a partition in a new bucket, with as many writes as an earlier owner had made in the old one. The earlier owner must not
// be able to overwrite the lease, which it could if revisions began again.
func TestNewBucket(t *testing.T) {
	n := newNode(t, ServerOptions{})
	b := n.dial(t, nil)
	before, g := owner(t, b)
	if err := b.js.DeleteStream(t.Context(), leaseStream); err != nil {
		t.Fatal(err)
	}
	if err := b.ensureLeases(t.Context()); err != nil {
		t.Fatal(err)
	}
	now, _ := owner(t, n.dial(t, nil))
	if err := g.renew(t.Context()); !errors.Is(err, errLost) {
		t.Errorf("renew of %q = %v, want errLost", before.id, err)
	}
	if l := inBucket(t, b); l.Owner != now.id {
		t.Errorf("%q has the partition, want %q, who took it", l.Owner, now.id)
	}
}

// TestPullOutlivesItsConnection delivers an event to a feed after a reconnect: events may have been lost with the old connection, so the event is
// not handled, and the feed begins again.
func TestPullOutlivesItsConnection(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	g := newPartitions(b, transport.SubscribeOptions{}).partitions[0]
	f := &feed{p: g, conn: b.nc.Stats().Reconnects + 1, asked: 1, broken: make(chan error, 1)}
	f.receive(&natsgo.Msg{Subject: "cortex.v1.inbox._.cortex.0.c1.user", Reply: "$JS.ACK.CORTEX_INBOX.c.1.1.1.1.0", Sub: &natsgo.Subscription{}})
	select {
	case err := <-f.broken:
		if !errors.Is(err, errReconnected) {
			t.Errorf("the feed ends with %v, want errReconnected", err)
		}
	default:
		t.Error("the feed goes on")
	}
	if len(g.queues) > 0 || len(g.held) > 0 {
		t.Error("the event is handled")
	}
}

// TestGapEndsTheFeed omits an event of a feed, as the new leader of a consumer does after a kill between counting an event and sending it: events
// after the gap are not handled, even if the missing one comes later, and the feed begins again.
func TestGapEndsTheFeed(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	g := newPartitions(b, transport.SubscribeOptions{}).partitions[0]
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // events are held but not handled
	g.ctx, g.held, g.queues = ctx, map[uint64]*delivery{}, map[string][]*delivery{}
	f := &feed{p: g, conn: b.nc.Stats().Reconnects, asked: 9, broken: make(chan error, 1), next: 7}
	deliver := func(consumer uint64) {
		f.receive(&natsgo.Msg{
			Sub: &natsgo.Subscription{}, Subject: "cortex.v1.inbox._.cortex.0.c1.user",
			Reply: fmt.Sprintf("$JS.ACK.%s.consumer.1.%d.%d.1.0", inboxStream, 100+consumer, consumer),
		})
	}
	deliver(7)
	deliver(8)
	select {
	case err := <-f.broken:
		t.Fatalf("the feed ends with %v", err)
	default:
	}
	deliver(10)
	deliver(9)
	select {
	case <-f.broken:
	default:
		t.Error("the feed goes on")
	}
	if len(g.held) != 2 || g.held[107] == nil || g.held[108] == nil {
		t.Errorf("%d events are held, want the two before the gap", len(g.held))
	}
}

// TestDeliveredMeanwhile has an event delivered to another request between the claim of a partition and the first pull, as to one of a former owner that was
// on its way: nothing behind that event is handled before it.
func TestDeliveredMeanwhile(t *testing.T) {
	n := newNode(t, ServerOptions{})
	b, other := n.dial(t, nil), n.dial(t, nil)
	for i := range 3 {
		if err := b.Publish(t.Context(), orchestratorInbox, message(orchestratorInbox, "c", strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	its := partitionID{orchestratorInbox, transport.Partition("", "c")}
	steal := sync.OnceFunc(func() {
		m, err := other.nc.Request(jsAPI+"CONSUMER.MSG.NEXT."+inboxStream+"."+its.consumer(), []byte(`{"batch":1,"no_wait":true}`), patience)
		if err != nil || statusOf(m) != "" {
			t.Errorf("the other request got %v, %v", m, err)
		}
	})
	sub, err := b.Subscribe(t.Context(), orchestratorInbox, &transport.SubscribeOptions{OnOwned: func(owned []int) {
		if slices.Contains(owned, its.partition) {
			steal()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	handled := make(chan string, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- sub.Serve(ctx, func(_ context.Context, e *transport.Event) error {
			handled <- text(e)
			return nil
		})
	}()
	for i := range 3 {
		select {
		case got := <-handled:
			if got != strconv.Itoa(i) {
				t.Fatalf("event %s is handled, want %d", got, i)
			}
		case <-time.After(patience):
			t.Fatalf("event %d is not handled", i)
		}
	}
	cancel()
	<-ended
}

// TestLeaderless asks a cluster for a consumer whose leader is not chosen yet. A server that was just started describes it as if nothing had been
// delivered and nothing were waiting: that is no answer.
func TestLeaderless(t *testing.T) {
	srv := clustered(t, server.Options{DontListen: true})
	nc := connect(t, srv)
	respond(t, nc, "$JS.API.INFO", func(*natsgo.Msg) any { return jetstream.AccountInfo{API: jetstream.APIStats{Level: minLevel}} })
	respond(t, nc, "$JS.API.STREAM.INFO.*", func(m *natsgo.Msg) any {
		for _, config := range streams(3) {
			if strings.HasSuffix(m.Subject, "."+config.Name) {
				return jetstream.StreamInfo{Config: config}
			}
		}
		return nil
	})
	respond(t, nc, sentinelSubject, func(*natsgo.Msg) any { return jetstream.PubAck{Stream: inboxStream, Sequence: 1} })
	var cluster atomic.Pointer[jetstream.ClusterInfo]
	respond(t, nc, "$JS.API.CONSUMER.INFO.*.*", func(*natsgo.Msg) any {
		return jetstream.ConsumerInfo{Stream: inboxStream, Cluster: cluster.Load(), NumPending: 3}
	})
	b, err := Dial(t.Context(), &Options{Server: srv})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	for _, without := range []*jetstream.ClusterInfo{nil, {Name: "cluster"}} {
		cluster.Store(without)
		if n, err := b.Waiting(t.Context(), orchestratorInbox); !errors.Is(err, transport.ErrUnavailable) {
			t.Errorf("Waiting = %d, %v without a leader, want ErrUnavailable", n, err)
		}
		g := newPartitions(b, transport.SubscribeOptions{}).partitions[0]
		if _, err := g.claim(t.Context()); !errors.Is(err, transport.ErrUnavailable) {
			t.Errorf("claim = %v without a leader, want ErrUnavailable", err)
		}
	}
	cluster.Store(&jetstream.ClusterInfo{Name: "cluster", Leader: "a"})
	if n, err := b.Waiting(t.Context(), orchestratorInbox); n != 3*transport.Partitions || err != nil {
		t.Errorf("Waiting = %d, %v, want 3 of each partition", n, err)
	}
}

// TestClusterOfOne has events handled at a server that has the name of a cluster and is in none, as with a leftover setting: no consumer has a leader there.
func TestClusterOfOne(t *testing.T) {
	srv := clustered(t, server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir()})
	b, err := Dial(t.Context(), &Options{Server: srv})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	agent := transport.Inbox("", "agent")
	for _, topic := range []transport.Topic{orchestratorInbox, agent, orchestratorInbox, agent} { // the second ones find consumers
		if err := b.Publish(t.Context(), topic, message(topic, "c", "here")); err != nil {
			t.Fatal(err)
		}
		sub, err := b.Subscribe(t.Context(), topic, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		handled := false
		_ = sub.Serve(ctx, func(context.Context, *transport.Event) error {
			handled = true
			cancel()
			return nil
		})
		cancel()
		if !handled {
			t.Errorf("the event of %s is not handled", topic)
		}
	}
}

// TestOrphans leaves partitions that nobody takes to a subscriber with its full share, which keeps them for a while.
func TestOrphans(t *testing.T) {
	n := newNode(t, ServerOptions{})
	b, slow := n.dial(t, nil), n.dial(t, nil)
	if _, err := slow.nc.Subscribe(peerSubject(orchestratorInbox, "slow"), func(m *natsgo.Msg) { _ = m.Respond(nil) }); err != nil {
		t.Fatal(err)
	}
	if err := slow.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	forge(t, b, memberKey+"slow", member{Label: "slow"})
	in := newPartitions(b, transport.SubscribeOptions{})
	c := newRebalancer(in, func(context.Context, *transport.Event) error { return nil })
	ctx, cancel := context.WithCancel(t.Context())
	defer func() { cancel(); c.holding.Wait() }()
	step := func() (busy, leaving int) {
		t.Helper()
		if err := c.step(ctx); err != nil {
			t.Fatal(err)
		}
		in.mu.Lock()
		defer in.mu.Unlock()
		for _, g := range in.partitions {
			if g.busy {
				busy++
			}
			if g.busy && g.leaving {
				leaving++
			}
		}
		return busy, leaving
	}
	if busy, _ := step(); busy != transport.Partitions/2 {
		t.Fatalf("%d partitions are taken at first, want half of them", busy)
	}
	for i := range c.free {
		if !c.free[i].IsZero() {
			c.free[i] = c.free[i].Add(-orphanWait)
		}
	}
	if busy, _ := step(); busy != transport.Partitions {
		t.Fatalf("%d partitions are taken when nobody else does, want all", busy)
	}
	if _, leaving := step(); leaving != 0 {
		t.Errorf("%d partitions are given up at once, for who does not take them", leaving)
	}
	c.keep = time.Time{}
	for range 2 {
		if _, leaving := step(); leaving > 1 {
			t.Errorf("%d partitions are given up at the same time, want one", leaving)
		}
	}
}

// TestShed releases the partitions with the fewest held events, one at a time.
func TestShed(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	in := newPartitions(b, transport.SubscribeOptions{})
	for i, held := range []int{3, 1, 2, 0} {
		g := in.partitions[i]
		g.busy, g.cancel, g.held = i < 3, func() {}, map[uint64]*delivery{}
		for seq := range held {
			g.held[uint64(seq)] = &delivery{}
		}
	}
	c := newRebalancer(in, nil)
	for range 2 {
		c.shed()
		for i, g := range in.partitions {
			if g.leaving != (i == 1) {
				t.Errorf("partition %d is given up: %v, want only the one with the least", i, g.leaving)
			}
		}
	}
}
