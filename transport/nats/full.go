package nats

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// defaultMaxInbox and maxInboxBytes are what the inboxes of all tenants may hold together before new work is refused.
	defaultMaxInbox = 1_000_000
	maxInboxBytes   = 4 << 30

	lookParts  = 16                     // of the room, one of which is taken before asking again
	lookEvery  = 500 * time.Millisecond // how old what is known may be
	lookAgain  = 50 * time.Millisecond  // the same, when they seem to be full
	lookFailed = 10 * time.Second       // how long nothing is asked after no answer came
	lookWait   = time.Second            // for an answer
)

// gauge knows about how much the inboxes hold. What others publish it learns when it asks the server, so it takes at most a part of
// the room that there was before it asks again: as many publishers as there are parts stay below the bound together, and each
// further one may go over it by a part.
type gauge struct {
	max int // events

	mu    sync.Mutex
	msgs  uint64    // as the server said, and what was published through here since it was asked
	bytes uint64    // the same
	share uint64    // msgs above which to ask again
	next  time.Time // when to ask again at the latest
	again time.Time // when to ask again at the earliest, if they are full
}

// isNewWork reports whether e is what is refused when the inboxes are full: words to the orchestrator. All else, such as tasks,
// results, deadlines and cancellations, belongs to work that was taken.
func isNewWork(t transport.Topic, e *transport.Event) bool {
	_, ok := transport.Request(e)
	return ok && t.Kind == transport.KindInbox && t.ID == transport.Cortex
}

// room counts an event of about size bytes in, or returns ErrFull: the inboxes hold too much, or the disk of this process's server has too little
// left. While the server does not tell how much it holds, everything has room: publishing says what is wrong.
func (b *Bus) room(ctx context.Context, size int) error {
	g := &b.gauge
	if before, due := g.due(time.Now()); due {
		msgs, bytes, err := b.inboxSize(ctx) // meanwhile others go by what is known
		g.set(before, msgs, bytes, err)
	}
	if b.server != nil && b.server.room != nil {
		g.mu.Lock()
		waiting := g.bytes + uint64(size)
		g.mu.Unlock()
		if err := b.server.room.forMessage(waiting); err != nil {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.full() {
		return fmt.Errorf("%w: %d events of %d MB wait, and new ones are taken below %d and %d MB: try again later",
			transport.ErrFull, g.msgs, g.bytes>>20, g.max, maxInboxBytes>>20)
	}
	g.msgs++
	g.bytes += uint64(size)
	return nil
}

// full reports whether the inboxes hold too much; g.mu is held.
func (g *gauge) full() bool { return g.msgs >= uint64(g.max) || g.bytes >= maxInboxBytes }

// due reports whether the caller is to ask the server now, and what is known before that.
func (g *gauge) due(now time.Time) (before [2]uint64, due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.full() {
		due = !now.Before(g.again)
	} else {
		due = g.msgs >= g.share || !now.Before(g.next)
	}
	if due {
		g.share, g.next, g.again = math.MaxUint64, now.Add(lookEvery), now.Add(lookAgain) // the others do not ask as well
	}
	return [2]uint64{g.msgs, g.bytes}, due
}

// set takes in what the server said, or that it did not.
func (g *gauge) set(before [2]uint64, msgs, bytes uint64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.msgs, g.bytes, g.share, g.next = 0, 0, math.MaxUint64, time.Now().Add(lookFailed)
		return
	}
	g.msgs, g.bytes = msgs+g.msgs-min(g.msgs, before[0]), bytes+g.bytes-min(g.bytes, before[1])
	g.share = g.msgs + 1
	if most := uint64(g.max); g.msgs < most {
		g.share += (most - g.msgs) / lookParts
	}
}

// inboxSize asks the server.
func (b *Bus) inboxSize(ctx context.Context) (msgs, bytes uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	var info struct {
		Error *jetstream.APIError   `json:"error"`
		State jetstream.StreamState `json:"state"`
	}
	if err := b.ask(ctx, "STREAM.INFO."+inboxStream, struct{}{}, &info); err != nil {
		return 0, 0, err
	}
	if info.Error != nil {
		return 0, 0, info.Error
	}
	return info.State.Msgs, info.State.Bytes, nil
}
