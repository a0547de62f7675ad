package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// tenure is the owning of a group of partitions, by a lease that has to be renewed.
type tenure struct {
	renewing chan struct{} // held by who renews

	// Guarded by the inbox's mu; busy is written by the goroutine of contend only, and by the end of hold.
	busy     bool  // taken, and neither released nor forgotten
	owned    bool  // its events are handled
	leaving  bool  // it is being released
	lost     bool  // another one has it
	doubtful bool  // it was owned, until the lease was not renewed in time
	lease    lease // as it was written last
	until    time.Time
	verified uint64 // the connection over which it was renewed
	cancel   context.CancelFunc
}

// take begins to own g, if the lease in the bucket is still old; hold goes on with the context that it returns.
func (in *inbox) take(ctx context.Context, g *group, old lease) (context.Context, error) {
	conn := in.bus.nc.Stats().Reconnects
	sent := time.Now()
	l := lease{Owner: in.id, Epoch: newEpoch(max(old.Epoch, g.lease.Epoch))}
	var err error
	if l.rev, err = in.bus.putKey(ctx, leaseSubject(in.topic, g.key()), l, false, old.rev); err != nil {
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	g.busy, g.owned, g.leaving, g.lost, g.doubtful = true, false, false, false, false
	g.lease, g.until, g.verified = l, sent.Add(leaseTTL), conn
	ctx, g.cancel = context.WithCancel(ctx)
	return ctx, nil
}

func (g *group) key() string { return fmt.Sprint(partitionKey, g.partition) }

// hold serves g, which was taken, until ctx ends, it is to be released, or it is lost; then it gives it up.
func (g *group) hold(ctx context.Context, h transport.Handler) {
	in := g.in
	defer g.cancel()
	defer context.AfterFunc(ctx, g.disown)()
	done, kept := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(kept)
		g.keepLease(done)
	}()
	g.serve(ctx, h)
	g.disown()
	if !g.isLost() {
		g.giveBack()
	}
	close(done)
	<-kept
	if !g.isLost() {
		g.release()
	}
	g.forget()
	in.mu.Lock()
	g.busy = false
	in.mu.Unlock()
	in.look()
}

// own says that g is owned, now that its consumer is ready.
func (g *group) own() {
	g.in.mu.Lock()
	g.owned = !g.lost && g.ctx.Err() == nil
	g.in.mu.Unlock()
	g.in.tell()
}

// disown says that g's events are not handled any more.
func (g *group) disown() {
	g.in.mu.Lock()
	g.owned, g.doubtful = false, false
	g.in.mu.Unlock()
	g.in.tell()
}

// doubt says that g is not owned, when its lease has not been renewed in time.
func (g *group) doubt() {
	g.in.mu.Lock()
	if g.owned && g.lapsed() {
		g.owned, g.doubtful = false, true
	}
	g.in.mu.Unlock()
	g.in.tell()
}

// leave begins to release g.
func (g *group) leave() {
	g.in.mu.Lock()
	defer g.in.mu.Unlock()
	g.leaving = true
	g.cancel()
}

// lose ends the handling of g's events, which may be another's.
func (g *group) lose() {
	g.in.mu.Lock()
	defer g.in.mu.Unlock()
	g.lost = true
	g.cancel()
}

func (g *group) isLost() bool {
	g.in.mu.Lock()
	defer g.in.mu.Unlock()
	return g.lost
}

// lapsed reports that the lease of g is not to be relied on for anything new; the inbox's mu is held. It looks at the time, since a process that was
// stopped for a while may get here before it learns of anything else.
func (g *group) lapsed() bool {
	return g.in.ordered && (g.lost || !time.Now().Before(g.until))
}

// keepLease renews g's lease until done is closed, or the lease is lost.
func (g *group) keepLease(done <-chan struct{}) {
	next := time.NewTimer(leaseRenew)
	defer next.Stop()
	for {
		select {
		case <-done:
			return
		case <-next.C:
		}
		err := g.renew(context.Background())
		switch {
		case err == nil:
			next.Reset(leaseRenew)
			continue
		case errors.Is(err, errLost):
			g.in.bus.log.Warn("partitions lost", "inbox", g.topic.ID, "tenant", g.topic.Tenant, "group", g.partition, "err", err)
			g.lose()
			return
		}
		g.doubt()
		next.Reset(leaseRetry)
	}
}

// renew writes g's lease again. An error that wraps errLost says that it is another's, or was. One that is over is renewed all the
// same while nobody has taken it: what is being handled goes on then, as it does while nobody knows; nothing new is begun.
func (g *group) renew(ctx context.Context) error {
	select {
	case g.renewing <- struct{}{}:
		defer func() { <-g.renewing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	in := g.in
	in.mu.Lock()
	l, lost := g.lease, g.lost
	in.mu.Unlock()
	if lost {
		return errLost
	}
	conn, sent := in.bus.nc.Stats().Reconnects, time.Now()
	rev, err := in.bus.putKey(ctx, leaseSubject(in.topic, g.key()), l, false, l.rev)
	if errors.Is(err, errLeaseTaken) {
		now, cerr := g.compare(ctx, l)
		if cerr != nil {
			return cerr
		}
		in.mu.Lock()
		defer in.mu.Unlock()
		g.lease = now // for the next renewal
	}
	if err != nil {
		return err
	}
	l.rev = rev
	in.mu.Lock()
	g.lease, g.until, g.verified = l, sent.Add(leaseTTL), conn
	again := g.doubtful && g.ctx.Err() == nil
	if again {
		g.owned, g.doubtful = true, false
	}
	in.mu.Unlock()
	if again {
		in.tell()
		g.pull()
	}
	return nil
}

// compare finds out why l, the lease of g, could not be written over, and returns what is to be written next: the answer to the last
// renewal was lost; or the lease is over, or the bucket a new one. In these cases somebody else may have had the group, however
// shortly: it is another epoch.
func (g *group) compare(ctx context.Context, l lease) (lease, error) {
	all, err := g.in.bus.ledger(ctx, g.topic)
	if err != nil {
		return lease{}, err
	}
	now := all.leases[g.partition]
	switch now.Owner {
	case g.in.id:
		if now.Epoch != l.Epoch {
			return lease{}, fmt.Errorf("%w: it was taken by ourselves", errLost)
		}
		return now, nil
	case "":
		return lease{Owner: g.in.id, Epoch: newEpoch(max(now.Epoch, l.Epoch)), rev: now.rev}, nil
	}
	return lease{}, fmt.Errorf("%w: it was taken by %.40q", errLost, now.Owner)
}

// confirm makes sure that g is still owned, when the connection is another than the one over which that was seen last.
func (g *group) confirm(ctx context.Context) error {
	for {
		g.in.mu.Lock()
		verified := g.verified == g.in.bus.nc.Stats().Reconnects && !g.lapsed()
		g.in.mu.Unlock()
		if verified {
			return nil
		}
		err := g.renew(ctx)
		switch {
		case errors.Is(err, errLost):
			g.lose()
			return err
		case errors.Is(err, errLeaseTaken), errors.Is(err, errNoLeases):
			g.in.bus.pause(ctx, peerAgain) // the next one can do it
		case err != nil:
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// release gives g's lease up, for another to take at once.
func (g *group) release() {
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTimeout)
	defer cancel()
	g.in.mu.Lock()
	l := g.lease
	g.in.mu.Unlock()
	if _, err := g.in.bus.putKey(ctx, leaseSubject(g.topic, g.key()), lease{Epoch: l.Epoch}, true, l.rev); err != nil {
		g.in.bus.log.Debug("partitions not released", "inbox", g.topic.ID, "group", g.partition, "err", err)
		return
	}
	g.in.announce()
}
