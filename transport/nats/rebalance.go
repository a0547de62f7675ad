package nats

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// peerOverdue is how long another subscriber's key may be unchanged before it is asked for a sign of life.
	peerOverdue = leaseRenew * 3 / 2
	// orphanWait is how long a free partition is left to the subscriber that should have it; after that, any subscriber takes it.
	orphanWait = time.Second
	// orphanKeep is how long a subscriber keeps such a partition though it has more than its share.
	orphanKeep = 10 * time.Second
)

// rebalancer decides which partitions an ordered subscriber owns. Every subscriber decides for itself by the same rules; when two want the same
// partition, the bucket lets only one acquire the lease.
type rebalancer struct {
	in      *inbox
	h       transport.Handler
	since   time.Time
	written time.Time // when the member's key was last written
	seen    map[string]sighting
	free    [transport.Partitions]time.Time // since when each partition has had no owner
	keep    time.Time                       // until then no partition is released to be fair
	holding sync.WaitGroup
}

// sighting is the last observation of another subscriber.
type sighting struct {
	rev   uint64
	at    time.Time
	asked bool
	gone  bool
}

func newRebalancer(in *inbox, h transport.Handler) *rebalancer {
	return &rebalancer{in: in, h: h, since: time.Now().UTC(), seen: map[string]sighting{}}
}

// rebalance acquires and releases partitions until ctx ends, and waits until all are released.
func (in *inbox) rebalance(ctx context.Context, h transport.Handler) {
	c := newRebalancer(in, h)
	alive, err1 := in.bus.nc.Subscribe(peerSubject(in.topic, in.id), func(m *natsgo.Msg) { _ = m.Respond(nil) })
	news, err2 := in.bus.nc.Subscribe(peerSubject(in.topic, ""), func(*natsgo.Msg) { in.look() })
	defer func() { // a nil subscription returns an error
		_ = alive.Unsubscribe()
		_ = news.Unsubscribe()
	}()
	if err := errors.Join(err1, err2); err != nil { // the connection is closed
		in.bus.log.Debug("inbox not served", "inbox", in.topic.ID, "err", err)
		<-ctx.Done()
		return
	}
	var failing rest.Failing
	for failed := 0; ctx.Err() == nil; {
		if _, err := in.bus.online(ctx); err != nil {
			break
		}
		wait := leaseRenew
		err := c.step(ctx)
		if failing.Tell(err, leasePatience) && ctx.Err() == nil {
			in.bus.log.Warn("which process serves which conversations cannot be read or written: they wait, and it is tried again", "inbox", in.topic.ID, "err", err)
		}
		if err != nil && ctx.Err() == nil {
			in.bus.log.Debug("leases", "inbox", in.topic.ID, "err", err)
			wait = min(leaseRetry<<min(failed, 10), leaseRenew)
			failed++
		} else {
			failed = 0
			in.discarded.look(ctx, in.bus)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-in.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	c.leave()
	c.holding.Wait()
}

// leave removes the member's key, so that other subscribers take its partitions.
func (c *rebalancer) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTimeout)
	defer cancel()
	if !c.written.IsZero() {
		_, _ = c.in.bus.putKey(ctx, leaseSubject(c.in.topic, memberKey+c.in.id), member{}, true, anyRevision) // otherwise it expires soon
	}
	c.in.announce()
}

// announce tells the other subscribers to read the bucket.
func (in *inbox) announce() { _ = in.bus.nc.Publish(peerSubject(in.topic, ""), nil) }

// step reads the bucket, and acquires or releases partitions.
func (c *rebalancer) step(ctx context.Context) error {
	in := c.in
	if err := c.write(ctx); err != nil {
		if errors.Is(err, errNoLeases) {
			return errors.Join(err, in.bus.ensureLeases(ctx))
		}
		return err
	}
	l, err := in.bus.leaseTable(ctx, in.topic)
	if err != nil {
		return err
	}
	c.observe(ctx, l)
	held := map[string]int{in.id: 0}
	for id := range l.members {
		if !c.seen[id].gone {
			held[id] = 0
		}
	}
	var free []int
	now := time.Now()
	for i, lease := range l.leases {
		p := in.partitions[i]
		in.mu.Lock()
		busy := p.busy
		in.mu.Unlock()
		_, known := held[lease.Owner]
		switch {
		case busy:
			held[in.id]++
		case lease.Owner == "" || lease.Owner == in.id || c.seen[lease.Owner].gone:
			free = append(free, i)
			if c.free[i].IsZero() {
				c.free[i] = now
			}
			continue
		case known:
			held[lease.Owner]++
		}
		c.free[i] = time.Time{}
	}
	fair := fairShare(held, in.id)
	in.divide(max(fair, held[in.id]))
	if held[in.id] > fair && now.After(c.keep) {
		c.shed()
	}
	return c.acquire(ctx, l, free, fair-held[in.id])
}

// write renews the member's key.
func (c *rebalancer) write(ctx context.Context) error {
	now := time.Now()
	if !c.written.IsZero() && now.Sub(c.written) < leaseRenew*9/10 {
		return nil
	}
	if _, err := c.in.bus.putKey(ctx, leaseSubject(c.in.topic, memberKey+c.in.id), member{c.in.label, c.since}, false, anyRevision); err != nil {
		return err
	}
	if c.written.IsZero() {
		c.in.announce()
	}
	c.written = now
	return nil
}

// observe finds out which other subscribers are gone.
func (c *rebalancer) observe(ctx context.Context, l *leaseTable) {
	now := time.Now()
	var ask []string
	for id, rev := range l.revs {
		s, known := c.seen[id]
		if s.rev != rev {
			// A lower revision is no sign of life: the newer keys have other owners now, or the bucket is new.
			s = sighting{rev: rev, at: now, asked: known && rev > s.rev}
		}
		if id != c.in.id && !s.gone && (!s.asked || now.Sub(s.at) > peerOverdue) {
			ask = append(ask, id)
		}
		s.asked = true
		c.seen[id] = s
	}
	maps.DeleteFunc(c.seen, func(id string, _ sighting) bool { return l.revs[id] == 0 })
	for id := range c.in.bus.gone(ctx, c.in.topic, ask) {
		s := c.seen[id]
		s.gone = true
		c.seen[id] = s
	}
}

// shed begins to release the partition with the fewest held events, unless one is being released.
func (c *rebalancer) shed() {
	in := c.in
	in.mu.Lock()
	var least *partition
	for _, p := range in.partitions {
		if p.busy && p.leaving {
			in.mu.Unlock()
			return
		}
		if p.busy && !p.lost && (least == nil || len(p.held) < len(least.held)) {
			least = p
		}
	}
	in.mu.Unlock()
	if least != nil {
		in.bus.log.Info("partition is handed over", "inbox", in.topic.ID, "tenant", in.topic.Tenant, "partition", least.partition)
		least.leave()
	}
}

// acquire takes as many free partitions as are wanted, and orphans.
func (c *rebalancer) acquire(ctx context.Context, l *leaseTable, free []int, wanted int) error {
	in := c.in
	var failed error
	for _, i := range free {
		orphan := time.Since(c.free[i]) > orphanWait
		if wanted <= 0 && !orphan || ctx.Err() != nil {
			continue
		}
		p := in.partitions[i]
		holding, err := in.take(ctx, p, l.leases[i])
		if err != nil {
			failed = errors.Join(failed, err) // another subscriber was faster, or the server does not answer
			continue
		}
		level := slog.LevelInfo
		if l.leases[i].Owner == "" {
			level = slog.LevelDebug // each start takes those that nobody has
		}
		in.bus.log.Log(ctx, level, "partition taken", "inbox", in.topic.ID, "tenant", in.topic.Tenant, "partition", i, "from", l.leases[i].Owner)
		if wanted <= 0 {
			c.keep = time.Now().Add(orphanKeep)
		}
		wanted--
		c.free[i] = time.Time{}
		c.holding.Go(func() { p.hold(holding, c.h) })
	}
	return failed
}

// divide divides the inbox's limits among n partitions, those that it owns or should own.
func (in *inbox) divide(n int) {
	in.mu.Lock()
	in.share = max(n, 1)
	in.mu.Unlock()
	for _, p := range in.partitions {
		p.pull()
	}
}

// fairShare returns how many partitions the subscriber id should own, given how many each one owns: an equal share, or one more. The subscribers
// that own the most keep the additional ones, so that no partition moves without need.
func fairShare(held map[string]int, id string) int {
	ids := slices.SortedFunc(maps.Keys(held), func(a, b string) int {
		return cmp.Or(cmp.Compare(held[b], held[a]), cmp.Compare(a, b))
	})
	n := transport.Partitions / len(ids)
	if slices.Index(ids, id) < transport.Partitions%len(ids) {
		n++
	}
	return n
}
