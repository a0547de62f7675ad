package kit

import (
	"context"
	"errors"
	"sync"
	"time"
)

// lateTime is how long a call of gRPC has for its message before anybody else's call may take its place.
const lateTime = time.Second

var errMadeRoom = errors.New("the call has made room for that of somebody else, since too many are made at the same time")

// Places bound the calls of a server of gRPC that are at work, or whose messages have not arrived, for all that they take together. When all are taken, who
// has most makes room: the oldest call of theirs ends for one of somebody who has fewer, so that nobody keeps others out alone, whether they send nothing or
// wait for something. A call whose message is late makes room for everybody. Its methods are safe for concurrent use.
type Places struct {
	most, own int

	mu    sync.Mutex
	taken map[*place]struct{}
	of    map[string]int
}

type place struct {
	in       *Places
	from     string
	since    time.Time
	arriving bool
	end      context.CancelCauseFunc
}

type placeKey struct{}

// NewPlaces returns so many places, of which one caller has at most own.
func NewPlaces(most, own int) *Places {
	return &Places{most: most, own: own, taken: map[*place]struct{}{}, of: map[string]int{}}
}

// Enter returns the context of a call that has begun, and whose message is awaited, see [Arriving]; false if there is no place for it. It has the place until
// the context ends, or [Leave] is called. A caller is a person, or a connection where nobody says who they are. It is for the tap of a server.
func (p *Places) Enter(ctx context.Context, from string) (context.Context, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.of[from] >= p.own || len(p.taken) >= p.most && !p.makeRoom(from, now) {
		return ctx, false
	}
	ctx, end := context.WithCancelCause(ctx)
	one := &place{p, from, now, true, end}
	p.taken[one] = struct{}{}
	p.of[from]++
	context.AfterFunc(ctx, one.leave)
	return Arriving(context.WithValue(ctx, placeKey{}, one)), true
}

// makeRoom ends a call for one of a caller, if it may. p.mu is held.
func (p *Places) makeRoom(from string, now time.Time) bool {
	var worst *place
	for one := range p.taken {
		late := one.arriving && now.Sub(one.since) >= lateTime
		if !late && p.of[one.from] <= p.of[from]+1 {
			continue
		}
		if worst == nil || p.of[one.from] > p.of[worst.from] || p.of[one.from] == p.of[worst.from] && one.since.Before(worst.since) {
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

// free gives a place back. p.mu is held.
func (p *Places) free(one *place) {
	if _, ok := p.taken[one]; !ok {
		return
	}
	delete(p.taken, one)
	if p.of[one.from]--; p.of[one.from] == 0 {
		delete(p.of, one.from)
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
