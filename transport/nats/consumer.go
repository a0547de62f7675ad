package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// maxAckPending bounds what is delivered and not acknowledged, over all subscribers of an inbox. It must be above
	// the number of conversations that go on at once, or they wait for each other.
	maxAckPending = 150_000
	maxPulls      = 4_096 // requests that wait at a consumer, over all subscribers

	// An inbox without a subscriber loses its consumer after this time; the events stay, and the next subscriber makes
	// it again. A consumer that is never used costs the server 39 KB and four goroutines.
	consumerIdle = time.Hour
)

// ackWait is how long the server waits for a sign that an event is still being handled, before it delivers it again. It
// depends on nothing but the topic, so that different subscribers do not change each other's consumer. The orchestrator's
// events come again at once by a reset of the consumer, so its time is long, and signs are rare; for the others it is how
// long a task waits when an agent was killed.
func ackWait(t transport.Topic) time.Duration {
	if t.ID == transport.Cortex {
		return 30 * time.Second
	}
	return 5 * time.Second
}

// metaCounts in the metadata of a consumer says how often the events had been delivered that were given back last, as
// "sequence:count,…": a reset makes the server forget it.
const (
	metaCounts = "cortex_counts"
	maxCounts  = 1000 // entries; for more events than that the count starts again
)

// consumer returns what the server says about the consumer of inbox t, or nil when there is none.
func (b *Bus) consumer(ctx context.Context, t transport.Topic) (*jetstream.ConsumerInfo, error) {
	ctx, cancel := b.asking(ctx)
	defer cancel()
	c, err := b.js.Consumer(ctx, inboxStream, consumerName(t))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return c.CachedInfo(), nil
}

// consumerConfig is a function of the topic alone.
func consumerConfig(t transport.Topic) jetstream.ConsumerConfig {
	c := jetstream.ConsumerConfig{
		Durable:       consumerName(t),
		FilterSubject: inboxFilter(t),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait(t),
		MaxDeliver:    -1, // who handles events decides when to give up
		MaxAckPending: maxAckPending,
		MaxWaiting:    maxPulls,
	}
	if t.ID != transport.Cortex {
		c.InactiveThreshold = consumerIdle
	}
	return c
}

// putConsumer makes the consumer of inbox t, or updates the one that is there.
func (b *Bus) putConsumer(ctx context.Context, t transport.Topic, counts string) error {
	c := consumerConfig(t)
	if counts != "" {
		c.Metadata = map[string]string{metaCounts: counts}
	}
	ctx, cancel := b.asking(ctx)
	defer cancel()
	_, err := b.js.CreateOrUpdateConsumer(ctx, inboxStream, c)
	return err
}

// ensureConsumer makes sure that inbox t has a consumer, as it should be. One that is right is not touched: another
// subscriber may be writing its metadata.
func (b *Bus) ensureConsumer(ctx context.Context, t transport.Topic) error {
	info, err := b.consumer(ctx, t)
	switch {
	case err != nil:
		return err
	case info == nil:
		return b.putConsumer(ctx, t, "")
	}
	want, got := consumerConfig(t), info.Config
	if got.FilterSubject == want.FilterSubject && got.AckPolicy == want.AckPolicy && got.AckWait == want.AckWait && got.MaxDeliver == want.MaxDeliver &&
		got.MaxAckPending == want.MaxAckPending && got.MaxWaiting == want.MaxWaiting && got.InactiveThreshold == want.InactiveThreshold {
		return nil
	}
	return b.putConsumer(ctx, t, got.Metadata[metaCounts])
}

// claim prepares the consumer for this subscriber, which must not be asking for events. An ordered one learns whether it
// is the only subscriber of the inbox that lives. If it is, and events were delivered and not acknowledged, then the
// consumer is reset: they are delivered again, now and in order. Otherwise those of a subscriber that was killed, or that
// were lost with a connection, would come when their AckWait is over, and later events of the same conversations overtake
// them. Those that were given back would come at once, but a server does not keep their order while nobody asks.
//
// While another one lives its events must not be taken away, so nothing is done. Each subscribes to the inbox's peer
// subject before it handles anything: the server says at once whether somebody does, and forgets those whose connection
// is gone. A lease would know only after its time that its owner was killed, which is just when the events are wanted.
// Two that start at the same moment after a crash may both reset; then some events are handled twice, which the contract
// allows.
func (in *inbox) claim(ctx context.Context) (alone bool, err error) {
	b := in.bus
	if err := b.ensureConsumer(ctx, in.topic); err != nil {
		return false, err
	}
	in.hide()
	if !in.ordered {
		return false, in.show()
	}
	if !b.alone(ctx, in.topic) {
		return false, nil
	}
	// Only now: who leaves writes its counts before it leaves the peer subject.
	info, err := b.consumer(ctx, in.topic)
	if err != nil {
		return false, err
	}
	if info != nil && info.NumAckPending > 0 {
		in.carried = parseCounts(info.Config.Metadata[metaCounts])
		if err := b.resetConsumer(ctx, in.topic); err != nil {
			return false, err
		}
	}
	return true, in.show()
}

// alone reports that no subscriber of inbox t lives.
func (b *Bus) alone(ctx context.Context, t transport.Topic) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := b.nc.RequestWithContext(ctx, peerSubject(t), nil)
	return errors.Is(err, natsgo.ErrNoResponders) // anything else: somebody answered, or is there and cannot
}

func (b *Bus) resetConsumer(ctx context.Context, t transport.Topic) error {
	ctx, cancel := b.asking(ctx)
	defer cancel()
	_, err := b.js.ResetConsumer(ctx, inboxStream, consumerName(t))
	return err
}

// show lets other subscribers of the inbox know that this one lives.
func (in *inbox) show() error {
	var err error
	in.peer, err = in.bus.nc.Subscribe(peerSubject(in.topic), func(m *natsgo.Msg) { _ = m.Respond(nil) })
	return err
}

// hide ends what show began.
func (in *inbox) hide() {
	if in.peer != nil {
		_ = in.peer.Unsubscribe()
		in.peer = nil
	}
}

// formatCounts writes how often events were handled, for metaCounts.
func formatCounts(all []*delivery) string {
	var b strings.Builder
	n := 0
	for _, d := range all {
		if d.handled == 0 {
			continue
		}
		if n++; n > maxCounts {
			break
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%d:%d", d.seq, d.handled)
	}
	return b.String()
}

// parseCounts reads what formatCounts wrote; what it cannot read it leaves out.
func parseCounts(s string) map[uint64]int {
	counts := map[uint64]int{}
	for pair := range strings.SplitSeq(s, ",") {
		seq, count, _ := strings.Cut(pair, ":")
		n, err1 := strconv.ParseUint(seq, 10, 64)
		c, err2 := strconv.Atoi(count)
		if err1 == nil && err2 == nil {
			counts[n] = c
		}
	}
	return counts
}
