package kit

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"
)

// lateTime is how long a call of gRPC has for its message before anybody else's call may take its place.
const lateTime = time.Second

var errMadeRoom = errors.New("the call has made room for that of somebody else, since too many are made at the same time")

// Places bound the calls of a server of gRPC that are at work, or whose messages have not arrived, for all that they take together. When all are taken, who
// has most makes room: the oldest call of theirs ends for one of somebody who has fewer, so that nobody keeps others out alone, whether they send nothing or
// wait for something, and by how many connections they do it: those of one machine share with others as one, and then among each other. A call whose
// message is late makes room for everybody. Its methods are safe for concurrent use.
type Places struct {
	most, own int

	mu    sync.Mutex
	taken map[*place]struct{}
	of    map[string]int // by caller
	hosts map[string]int
}

type place struct {
	in       *Places
	from     string
	host     string
	since    time.Time
	arriving bool
	end      context.CancelCauseFunc
}

type placeKey struct{}

// NewPlaces returns so many places, of which one caller has at most own.
func NewPlaces(most, own int) *Places {
	return &Places{most: most, own: own, taken: map[*place]struct{}{}, of: map[string]int{}, hosts: map[string]int{}}
}

// Enter returns the context of a call that has begun, and whose message is awaited, see [Arriving]; false if there is no place for it. It has the place until
// the context ends, or [Leave] is called. A caller is a person, or a connection where nobody says who they are; host is then where it comes from, see
// [Host], and "" for a person. It is for the tap of a server, which does not end the context of a call that it refuses.
func (p *Places) Enter(ctx context.Context, from, host string) (context.Context, bool) {
	host = cmp.Or(host, from)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.of[from] >= p.own || len(p.taken) >= p.most && !p.makeRoom(from, host, now) {
		return ctx, false
	}
	ctx, end := context.WithCancelCause(ctx)
	one := &place{p, from, host, now, true, end}
	p.taken[one] = struct{}{}
	p.of[from]++
	p.hosts[host]++
	context.AfterFunc(ctx, one.leave)
	return Arriving(context.WithValue(ctx, placeKey{}, one)), true
}

// makeRoom ends a call for one of a caller, if it may. p.mu is held.
func (p *Places) makeRoom(from, host string, now time.Time) bool {
	var worst *place
	for one := range p.taken {
		late := one.arriving && now.Sub(one.since) >= lateTime
		more := p.hosts[one.host] > p.hosts[host]+1
		if one.host == host {
			more = p.of[one.from] > p.of[from]+1
		}
		if (late || more) && (worst == nil || p.before(one, worst)) {
			worst = one
		}
	}
	if worst == nil {
		return false
	}
	p.free(worst)
	worst.end(errMadeRoom)
	return true
}

// before reports whether a makes room rather than b.
func (p *Places) before(a, b *place) bool {
	return cmp.Or(cmp.Compare(p.hosts[b.host], p.hosts[a.host]), cmp.Compare(p.of[b.from], p.of[a.from]), a.since.Compare(b.since)) < 0
}

// free gives a place back. p.mu is held.
func (p *Places) free(one *place) {
	if _, ok := p.taken[one]; !ok {
		return
	}
	delete(p.taken, one)
	if p.of[one.from]--; p.of[one.from] == 0 {
		delete(p.of, one.from)
	}
	if p.hosts[one.host]--; p.hosts[one.host] == 0 {
		delete(p.hosts, one.host)
	}
}

func (one *place) leave() {
	one.in.mu.Lock()
	defer one.in.mu.Unlock()
	one.in.free(one)
}

// Leave gives back the place of a call that goes on without it, such as a stream whose message has arrived.
func Leave(ctx context.Context) {
	if one, ok := ctx.Value(placeKey{}).(*place); ok {
		one.leave()
	}
}

// End ends a call that has entered, also while it waits for its client to read.
func End(ctx context.Context, cause error) {
	if one, ok := ctx.Value(placeKey{}).(*place); ok {
		one.end(cause)
	}
}

// Host returns the machine that an address with a port is of, or the network that one household or firm has of IPv6; the address itself if it is of
// another kind.
func Host(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return address
	}
	from := at.Addr().Unmap().WithZone("")
	if from.Is6() && !from.IsLoopback() {
		if net, err := from.Prefix(64); err == nil {
			return net.String()
		}
	}
	return from.String()
}
