package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// ownership is the state of a partition that a subscriber owns by a lease, which it renews.
type ownership struct {
	renewing chan struct{} // holds one during a renewal

	// Guarded by the inbox's mu. Only the rebalancer's goroutine and the end of hold write busy.
	busy     bool  // acquired, and neither released nor forgotten
	owned    bool  // its events are being handled
	leaving  bool  // it is being released
	lost     bool  // another subscriber owns it
	doubtful bool  // it was owned until a renewal came too late
	lease    lease // as last written
	until    time.Time
	verified uint64 // number of reconnects when the lease was last renewed
	cancel   context.CancelFunc
}

// take acquires the lease of p if old is still its value in the bucket. The caller then calls hold with the returned context.
func (in *inbox) take(ctx context.Context, p *partition, old lease) (context.Context, error) {
	conn := in.bus.nc.Stats().Reconnects
	sent := time.Now()
	l := lease{Owner: in.id, Epoch: newEpoch(max(old.Epoch, p.lease.Epoch))}
	var err error
	if l.rev, err = in.bus.putKey(ctx, leaseSubject(in.topic, p.key()), l, false, old.rev); err != nil {
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	p.busy, p.owned, p.leaving, p.lost, p.doubtful = true, false, false, false, false
	p.lease, p.until, p.verified = l, sent.Add(leaseTTL), conn
	ctx, p.cancel = context.WithCancel(ctx)
	return ctx, nil
}

func (p *partition) key() string { return fmt.Sprint(partitionKey, p.partition) }

// hold serves p after take, until ctx ends or the partition is to be released or is lost. It then returns the held events and releases the lease,
// unless the partition is lost.
func (p *partition) hold(ctx context.Context, h transport.Handler) {
	in := p.in
	defer p.cancel()
	defer context.AfterFunc(ctx, p.disown)()
	done, kept := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(kept)
		p.keepLease(done)
	}()
	p.serve(ctx, h)
	p.disown()
	if !p.isLost() {
		p.giveBack()
	}
	close(done)
	<-kept
	if !p.isLost() {
		p.release()
	}
	p.forget()
	in.mu.Lock()
	p.busy = false
	in.mu.Unlock()
	in.look()
}

// own marks p as owned once its consumer is ready.
func (p *partition) own() {
	p.in.mu.Lock()
	p.owned = !p.lost && p.ctx.Err() == nil
	p.in.mu.Unlock()
	p.in.tell()
}

// disown marks p as not owned.
func (p *partition) disown() {
	p.in.mu.Lock()
	p.owned, p.doubtful = false, false
	p.in.mu.Unlock()
	p.in.tell()
}

// doubt marks p as not owned if its lease was not renewed in time.
func (p *partition) doubt() {
	p.in.mu.Lock()
	if p.owned && p.lapsed() {
		p.owned, p.doubtful = false, true
	}
	p.in.mu.Unlock()
	p.in.tell()
}

// leave begins to release p.
func (p *partition) leave() {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	p.leaving = true
	p.cancel()
}

// lose ends the handling of p's events, because another subscriber may own them.
func (p *partition) lose() {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	p.lost = true
	p.cancel()
}

func (p *partition) isLost() bool {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	return p.lost
}

// lapsed reports whether nothing new may be begun under p's lease. The caller holds the inbox's mu. It compares the clock, since a process that was
// stopped for a while may get here before it learns anything else.
func (p *partition) lapsed() bool {
	return p.in.ordered && (p.lost || !time.Now().Before(p.until))
}

// keepLease renews p's lease until done is closed or the lease is lost.
func (p *partition) keepLease(done <-chan struct{}) {
	next := time.NewTimer(leaseRenew)
	defer next.Stop()
	for {
		select {
		case <-done:
			return
		case <-next.C:
		}
		err := p.renew(context.Background())
		switch {
		case err == nil:
			next.Reset(leaseRenew)
			continue
		case errors.Is(err, errLost):
			p.in.bus.log.Warn("partition lost", "inbox", p.topic.ID, "tenant", p.topic.Tenant, "partition", p.partition, "err", err)
			p.lose()
			return
		}
		p.doubt()
		next.Reset(leaseRetry)
	}
}

// renew writes p's lease again. The error wraps errLost when another subscriber owns the partition or has owned it. An expired lease is renewed as
// well if no other subscriber has taken it: handlers that run go on until the loss is known, but no new event is begun meanwhile.
func (p *partition) renew(ctx context.Context) error {
	select {
	case p.renewing <- struct{}{}:
		defer func() { <-p.renewing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	in := p.in
	in.mu.Lock()
	l, lost := p.lease, p.lost
	in.mu.Unlock()
	if lost {
		return errLost
	}
	conn, sent := in.bus.nc.Stats().Reconnects, time.Now()
	rev, err := in.bus.putKey(ctx, leaseSubject(in.topic, p.key()), l, false, l.rev)
	if errors.Is(err, errLeaseTaken) {
		now, cerr := p.compare(ctx, l)
		if cerr != nil {
			return cerr
		}
		in.mu.Lock()
		defer in.mu.Unlock()
		p.lease = now // used by the next renewal
	}
	if err != nil {
		return err
	}
	l.rev = rev
	in.mu.Lock()
	p.lease, p.until, p.verified = l, sent.Add(leaseTTL), conn
	again := p.doubtful && p.ctx.Err() == nil
	if again {
		p.owned, p.doubtful = true, false
	}
	in.mu.Unlock()
	if again {
		in.tell()
		p.pull()
	}
	return nil
}

// compare finds out why l, the lease of p, could not be renewed, and returns the lease to write next. Either the answer to the last renewal was
// lost, or the lease has expired, or the bucket is new. In the latter two cases another subscriber may have owned the partition for a moment, so
// the epoch is a new one.
func (p *partition) compare(ctx context.Context, l lease) (lease, error) {
	all, err := p.in.bus.leaseTable(ctx, p.topic)
	if err != nil {
		return lease{}, err
	}
	now := all.leases[p.partition]
	switch now.Owner {
	case p.in.id:
		if now.Epoch != l.Epoch {
			return lease{}, fmt.Errorf("%w: it was taken by ourselves", errLost)
		}
		return now, nil
	case "":
		return lease{Owner: p.in.id, Epoch: newEpoch(max(now.Epoch, l.Epoch)), rev: now.rev}, nil
	}
	return lease{}, fmt.Errorf("%w: it was taken by %.40q", errLost, now.Owner)
}

// confirm renews p's lease unless it was renewed over the present connection and has not lapsed.
func (p *partition) confirm(ctx context.Context) error {
	for {
		p.in.mu.Lock()
		verified := p.verified == p.in.bus.nc.Stats().Reconnects && !p.lapsed()
		p.in.mu.Unlock()
		if verified {
			return nil
		}
		err := p.renew(ctx)
		switch {
		case errors.Is(err, errLost):
			p.lose()
			return err
		case errors.Is(err, errLeaseTaken), errors.Is(err, errNoLeases):
			p.in.bus.pause(ctx, peerAgain) // renew has updated the lease; try again
		case err != nil:
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// release gives up p's lease, so that another subscriber can take it at once.
func (p *partition) release() {
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTimeout)
	defer cancel()
	p.in.mu.Lock()
	l := p.lease
	p.in.mu.Unlock()
	if _, err := p.in.bus.putKey(ctx, leaseSubject(p.topic, p.key()), lease{Epoch: l.Epoch}, true, l.rev); err != nil {
		p.in.bus.log.Debug("partition not released", "inbox", p.topic.ID, "partition", p.partition, "err", err)
		return
	}
	p.in.announce()
}
