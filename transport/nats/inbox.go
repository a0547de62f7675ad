package nats

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Acknowledgements of JetStream.
var (
	ackDone     = []byte("+ACK")
	ackNot      = []byte("-NAK")
	ackProgress = []byte("+WPI")
)

// giveBackTimeout bounds how long a subscription or an owner of a partition, at its end, waits until the server has processed what it returns.
const giveBackTimeout = 2 * time.Second

// inbox is a subscriber of an inbox: of the whole or, when ordered, of the partitions that it owns. Its limits are for all of them together.
type inbox struct {
	bus        *Bus
	topic      transport.Topic
	ordered    bool
	limit      int           // events in work or pulled; when ordered, conversations
	slots      chan struct{} // bounds the running handlers
	partitions []*partition
	failing    *transport.Failing
	discarded  discarded

	id      string // of this ordered subscriber
	label   string
	onOwned func([]int)
	wake    chan struct{} // holds one when the leases are to be read soon

	mu        sync.Mutex
	heldBytes int
	holds     map[string]holding // by the sender's token
	starved   bool               // a pull was omitted because of heldBytes
	share     int                // partitions among which limit is divided
	acked     int                // events acknowledged since the last sentinel

	telling sync.Mutex // serialises calls of onOwned
	told    []int
}

func (b *Bus) subscribeInbox(ctx context.Context, s *subscription, t transport.Topic, o transport.SubscribeOptions) error {
	in := newInbox(b, t, o)
	s.run, s.trouble = in.runWhole, in.trouble
	if in.ordered {
		s.run = in.runOwned
	}
	// Errors show now. A later owner makes the consumer of another partition; until then its events wait in the stream.
	_, err := b.ensurePartition(ctx, in.partitions[0].partitionID)
	return err
}

// trouble returns what fails, what the server refuses for want of room, and how many dead letters it has discarded.
func (in *inbox) trouble() transport.Trouble {
	t := in.failing.Trouble()
	t.NoRoom, t.Discarded = in.bus.short(), int(in.discarded.count.Load())
	return t
}

func newInbox(b *Bus, t transport.Topic, o transport.SubscribeOptions) *inbox {
	in := &inbox{
		bus: b, topic: t, ordered: !o.Unordered, limit: o.Concurrency, slots: make(chan struct{}, o.Concurrency), share: 1,
		holds: map[string]holding{}, id: rand.Text(), label: oneLine(o.Label, transport.MaxLabel), onOwned: o.OnOwned, wake: make(chan struct{}, 1),
		failing: transport.NewFailing(t, &o, b.log),
	}
	ids := []partitionID{{t, whole}}
	if in.ordered {
		// Events that wait behind others of their conversation take no slot.
		in.limit = max(2*o.Concurrency, 256)
		in.share = transport.Partitions
		ids = nil
		for p := range transport.Partitions {
			ids = append(ids, partitionID{t, p})
		}
	}
	for _, id := range ids {
		in.partitions = append(in.partitions, newPartition(in, id))
	}
	return in
}

// runWhole serves an unordered inbox until ctx ends.
func (in *inbox) runWhole(ctx context.Context, h transport.Handler) {
	defer in.keepAlive()()
	p := in.partitions[0]
	p.serve(ctx, h)
	p.giveBack()
}

// serveOrdered makes in visible to Bus.holds, until the returned function is called.
func (b *Bus) serveOrdered(in *inbox) (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ordered = append(b.ordered, in)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ordered = slices.DeleteFunc(b.ordered, func(o *inbox) bool { return o == in })
	}
}

// runOwned serves the partitions that this subscriber owns until ctx ends.
func (in *inbox) runOwned(ctx context.Context, h transport.Handler) {
	defer in.keepAlive()()
	defer in.bus.serveOrdered(in)()
	defer in.bus.hearRoom()()
	in.tell()
	in.rebalance(ctx, h)
}

// tell calls onOwned with the owned partitions if they have changed since the last call.
func (in *inbox) tell() {
	if in.onOwned == nil {
		return
	}
	in.telling.Lock()
	defer in.telling.Unlock()
	owned := []int{}
	in.mu.Lock()
	for _, p := range in.partitions {
		if p.owned {
			owned = append(owned, p.partition)
		}
	}
	in.mu.Unlock()
	slices.Sort(owned)
	if in.told == nil || !slices.Equal(owned, in.told) {
		in.told = owned
		in.onOwned(slices.Clone(owned))
	}
}

// look makes the rebalancer read the leases soon.
func (in *inbox) look() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// keepAlive sends progress acknowledgements for held events and the sentinel until the returned function is called. It goes on while handlers
// finish after ctx has ended.
func (in *inbox) keepAlive() (end func()) {
	stop := make(chan struct{})
	var keeper sync.WaitGroup
	keeper.Go(func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
			for _, m := range in.untouched(ackWait(in.topic) / 3) {
				in.send(m, ackProgress)
			}
			in.keep(1)
		}
	})
	return func() {
		close(stop)
		keeper.Wait()
	}
}

// keepEvery bounds the acknowledgements between two sentinels. The sentinel should be in the newest file of the stream, and a file has room for
// thousands of events.
const keepEvery = 128

// keep sends the sentinel if at least after events were acknowledged since the last one.
func (in *inbox) keep(after int) {
	in.mu.Lock()
	due := in.ordered && in.acked >= after
	if due {
		in.acked = 0
	}
	in.mu.Unlock()
	if due {
		_ = in.bus.nc.PublishMsg(sentinel()) // the next one replaces it
	}
}

// untouched returns the messages that were last acknowledged in any form longer than d ago, and marks them as touched.
func (in *inbox) untouched(d time.Duration) []*natsgo.Msg {
	in.mu.Lock()
	defer in.mu.Unlock()
	var all []*natsgo.Msg
	now := time.Now()
	for _, p := range in.partitions {
		if p.lost {
			continue // another subscriber may own it
		}
		for _, v := range p.held {
			if now.Sub(v.touched) > d {
				v.touched = now
				all = append(all, v.msg)
			}
		}
	}
	return all
}

// send acknowledges m. If the acknowledgement is lost, the server delivers m again.
func (in *inbox) send(m *natsgo.Msg, word []byte) {
	if err := in.bus.nc.Publish(m.Reply, word); err != nil {
		in.bus.log.Debug("acknowledgement not sent", "subject", m.Subject, "err", err)
	}
}
