package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// maxAckPending bounds the unacknowledged deliveries of all subscribers of an inbox. It must exceed the number of conversations that are handled
	// at once, or they wait for each other.
	maxAckPending = 150_000
	maxPulls      = 4_096 // waiting pull requests at a consumer, of all subscribers

	// The server removes the consumer of an inbox that has had no subscriber for this time. The events stay, and the next subscriber makes the
	// consumer again. An unused consumer costs the server 39 KB and four goroutines.
	consumerIdle = time.Hour
)

// ackWait is how long the server waits for a progress acknowledgement before it delivers an event again. It depends only on the topic, so that
// subscribers do not change each other's consumer. The orchestrator resets its consumers to get events again at once, so its time is long and
// progress acknowledgements are rare. For agents it is how long a task waits when its agent was killed.
func ackWait(t transport.Topic) time.Duration {
	if t.ID == transport.Cortex {
		return 30 * time.Second
	}
	return 5 * time.Second
}

// metaCounts is the key in a consumer's metadata for the delivery counts of events that were returned last, as "sequence:count,…". A reset makes
// the server forget its own counts.
const (
	metaCounts = "cortex_counts"
	maxCounts  = 1000 // entries; further events are counted from 0 again
)

// errLeaderless is the error of a consumer whose servers have not chosen a leader. One that has just been started describes it as if nothing had been
// delivered and nothing were waiting.
var errLeaderless = fmt.Errorf("%w: the servers have not chosen the consumer's leader yet", transport.ErrUnavailable)

// consumer returns the server's description of a partition's consumer, or nil when there is none.
func (b *Bus) consumer(ctx context.Context, s partitionID) (*jetstream.ConsumerInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	c, err := b.js.Consumer(ctx, inboxStream, s.consumer())
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info := c.CachedInfo()
	leaderless := info.Cluster != nil && info.Cluster.Leader == ""
	if info.Cluster == nil && b.nc.ConnectedClusterName() != "" {
		// A server of a cluster says so before it takes part in the election. One with the name of a cluster and no others, or to which this one only leads,
		// always does: there the stream has no copies.
		s, err := lookUp(ctx, b.js, inboxStream)
		if err != nil {
			return nil, err
		}
		leaderless = s.CachedInfo().Config.Replicas > 1
	}
	if leaderless {
		return nil, errLeaderless
	}
	return info, nil
}

// consumerConfig returns the configuration of a partition's consumer, which depends on the partition alone.
func consumerConfig(s partitionID) jetstream.ConsumerConfig {
	c := jetstream.ConsumerConfig{
		Durable:       s.consumer(),
		FilterSubject: s.filter(),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait(s.topic),
		MaxDeliver:    -1, // the handler decides when an event is given up
		MaxAckPending: maxAckPending,
		MaxWaiting:    maxPulls,
	}
	if s.topic.ID != transport.Cortex {
		c.InactiveThreshold = consumerIdle
	}
	return c
}

// errOverlap is the server's error for a consumer whose filter overlaps that of another one of a work queue.
const errOverlap jetstream.ErrorCode = 10100

// putConsumer makes or updates the consumer of a partition. It removes overlapping consumers, which an older version may have made; what they have
// not acknowledged stays in the inbox.
func (b *Bus) putConsumer(ctx context.Context, s partitionID, counts string) (*jetstream.ConsumerInfo, error) {
	c := consumerConfig(s)
	if counts != "" {
		c.Metadata = map[string]string{metaCounts: counts}
	}
	made, err := b.js.CreateOrUpdateConsumer(ctx, inboxStream, c)
	var api *jetstream.APIError
	for errors.As(err, &api) && api.ErrorCode == errOverlap { // in a loop: an overlapping consumer may appear meanwhile
		if err := b.clearWay(ctx, s); err != nil {
			return nil, err
		}
		made, err = b.js.CreateOrUpdateConsumer(ctx, inboxStream, c)
	}
	if isConsumerLimit(err) && transport.IsReserved(s.topic.ID) && !b.who.Limited() {
		if err := b.makeRoom(ctx); err != nil {
			return nil, err
		}
		made, err = b.js.CreateOrUpdateConsumer(ctx, inboxStream, c)
	}
	if err != nil {
		return nil, err
	}
	return made.CachedInfo(), nil
}

// clearWay removes the consumers of the inbox that do not belong to its present partitions. It returns errMixed when one of them is in use.
func (b *Bus) clearWay(ctx context.Context, s partitionID) error {
	ours := map[string]string{}
	if s.partition == whole {
		ours[s.consumer()] = s.filter()
		l, err := b.leaseTable(ctx, s.topic)
		if err != nil && !errors.Is(err, errNoLeases) {
			return err
		}
		if l != nil && len(b.gone(ctx, s.topic, slices.Collect(maps.Keys(l.members)))) < len(l.members) {
			return errMixed(s.topic)
		}
	} else {
		for p := range transport.Partitions {
			o := partitionID{s.topic, p}
			ours[o.consumer()] = o.filter()
		}
	}
	stream, err := b.js.Stream(ctx, inboxStream)
	if err != nil {
		return err
	}
	prefix := strings.TrimSuffix(inboxFilter(s.topic), ">")
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		filters := filtersOf(info.Config)
		if !strings.HasPrefix(filters[0], prefix) || slices.Equal(filters, []string{ours[info.Name]}) {
			continue
		}
		if s.partition != whole && info.NumWaiting > 0 {
			return errMixed(s.topic)
		}
		b.log.Info("consumer replaced", "inbox", s.topic.ID, "tenant", s.topic.Tenant, "consumer", info.Name)
		if err := b.deleteConsumer(ctx, info.Name); err != nil {
			return err
		}
	}
	return list.Err()
}

// errMixed is the error of a subscriber that asks for another order than an earlier subscriber of the same inbox: its consumer would replace the
// other's, which would get no more events.
func errMixed(t transport.Topic) error {
	return fmt.Errorf("%w: inbox %s has a subscriber with another order, or of an older version: all have to keep the order or none; end that one first",
		transport.ErrInvalid, t.ID)
}

func filtersOf(c jetstream.ConsumerConfig) []string {
	if len(c.FilterSubjects) > 0 {
		return c.FilterSubjects
	}
	return []string{c.FilterSubject}
}

func (b *Bus) deleteConsumer(ctx context.Context, name string) error {
	err := b.js.DeleteConsumer(ctx, inboxStream, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	return err
}

// ensureConsumer makes sure that an unpartitioned inbox has its consumer.
func (b *Bus) ensureConsumer(ctx context.Context, t transport.Topic) error {
	_, err := b.ensurePartition(ctx, partitionID{t, whole})
	return err
}

// ensurePartition makes sure that a partition has a consumer with the right configuration, and returns the server's description of it. It does not
// touch a correct one, whose metadata another subscriber may be writing. It makes one with another filter anew, since an update would neither
// return nor fetch the events of the old filter; the events stay.
func (b *Bus) ensurePartition(ctx context.Context, s partitionID) (*jetstream.ConsumerInfo, error) {
	ctx, cancel := b.asking(ctx)
	defer cancel()
	info, err := b.consumer(ctx, s)
	if err != nil {
		return nil, err
	}
	counts := ""
	if info == nil && !b.who.Limited() {
		if err := b.leaveRoom(ctx, s.topic); err != nil {
			return nil, err
		}
	}
	if info != nil {
		want, got := consumerConfig(s), info.Config
		counts = got.Metadata[metaCounts]
		if !slices.Equal(filtersOf(got), filtersOf(want)) {
			if err := b.deleteConsumer(ctx, info.Name); err != nil {
				return nil, err
			}
		} else if got.AckPolicy == want.AckPolicy && got.AckWait == want.AckWait && got.MaxDeliver == want.MaxDeliver &&
			got.MaxAckPending == want.MaxAckPending && got.MaxWaiting == want.MaxWaiting && got.InactiveThreshold == want.InactiveThreshold {
			return info, nil
		}
	}
	return b.putConsumer(ctx, s, counts)
}

// claim prepares the consumer of a partition for its owner, which must have no pull outstanding. Unacknowledged events are then delivered again at
// once and in order. Otherwise the events of a killed subscriber or a lost connection would come only after AckWait, behind later events of the
// same conversations. Returning the events would not do: the server does not keep their order while nobody pulls. claim returns the number of the
// next delivery; another one says that the server has delivered something since, to a request that was on its way.
func (p *partition) claim(ctx context.Context) (next uint64, err error) {
	b := p.in.bus
	info, err := b.ensurePartition(ctx, p.partitionID)
	if err != nil {
		return 0, err
	}
	p.carry(parseCounts(info.Config.Metadata[metaCounts]))
	asking, cancel := b.asking(ctx)
	defer cancel()
	if info.NumWaiting > 0 {
		// An earlier owner is paused or disconnected, and the server would deliver to its pull requests. They end with the consumer.
		if err := b.deleteConsumer(asking, info.Name); err != nil {
			return 0, err
		}
		_, err = b.putConsumer(asking, p.partitionID, info.Config.Metadata[metaCounts])
		return 1, err
	}
	if info.NumAckPending > 0 {
		_, err = b.js.ResetConsumer(asking, inboxStream, info.Name)
		return 1, err
	}
	return info.Delivered.Consumer + 1, nil
}

// formatCounts formats how often events were handled, for metaCounts.
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

// parseCounts parses the output of formatCounts and skips what it cannot parse.
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
