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
	// defaultMaxInbox and maxInboxBytes bound what the inboxes of all tenants hold together; above them new work is refused.
	defaultMaxInbox = 1_000_000
	maxInboxBytes   = 4 << 30

	lookParts  = 16                     // of the room: one such part is admitted before the server is asked again
	lookEvery  = 500 * time.Millisecond // the age at which the known size is asked for again
	lookAgain  = 50 * time.Millisecond  // the same, when the inboxes seem to be full
	lookFailed = 10 * time.Second       // pause after the server did not answer
	lookWait   = time.Second            // for an answer
)

// gauge tracks how much the inboxes hold. It learns what other processes publish only from the server, so it admits at most a part of the last
// known room before it asks again. As many publishers as there are parts stay below the bound together; each further one may exceed it by a part.
type gauge struct {
	max int // events

	mu    sync.Mutex
	msgs  uint64    // the server's count plus what was published through this bus since
	bytes uint64    // likewise
	share uint64    // number of messages at which to ask again
	next  time.Time // the latest time to ask again
	again time.Time // the earliest time to ask again when the inboxes are full
}

// isNewWork reports whether e is refused when the inboxes are full: a request or a share to the orchestrator. Everything else, such as tasks, results,
// deadlines and cancellations, belongs to work that was accepted.
func isNewWork(t transport.Topic, e *transport.Event) bool {
	return transport.BeginsWork(e) && t.Kind == transport.KindInbox && t.ID == transport.Cortex
}

// room counts an event of about size bytes, or returns ErrFull: the inboxes hold too much, or the disk of this process's server has too little free;
// a server in another process refuses it itself. When the server does not answer, it admits everything: the publish that follows reports the error.
func (b *Bus) room(ctx context.Context, size int) error {
	g := &b.gauge
	if before, due := g.due(time.Now()); due {
		msgs, bytes, err := b.inboxSize(ctx) // other calls use the old count meanwhile
		g.set(before, msgs, bytes, err)
	}
	if b.server != nil && b.server.room != nil {
		if err := b.server.room.forMessage(size); err != nil {
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

// full reports whether the inboxes hold too much. The caller holds g.mu.
func (g *gauge) full() bool { return g.msgs >= uint64(g.max) || g.bytes >= maxInboxBytes }

// due reports whether the caller is to ask the server now, and returns the counts known before that.
func (g *gauge) due(now time.Time) (before [2]uint64, due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.full() {
		due = !now.Before(g.again)
	} else {
		due = g.msgs >= g.share || !now.Before(g.next)
	}
	if due {
		g.share, g.next, g.again = math.MaxUint64, now.Add(lookEvery), now.Add(lookAgain) // one caller asks, the others do not
	}
	return [2]uint64{g.msgs, g.bytes}, due
}

// set records the server's answer, or err when there was none.
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

// inboxSize asks the server for the size of the stream of inboxes.
func (b *Bus) inboxSize(ctx context.Context) (msgs, bytes uint64, err error) {
	state, err := b.streamState(ctx, inboxStream)
	return state.Msgs, state.Bytes, err
}

// streamState asks the server what a stream has.
func (b *Bus) streamState(ctx context.Context, name string) (jetstream.StreamState, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	var info struct {
		Error *jetstream.APIError   `json:"error"`
		State jetstream.StreamState `json:"state"`
	}
	if err := b.ask(ctx, "STREAM.INFO."+name, struct{}{}, &info); err != nil {
		return jetstream.StreamState{}, err
	}
	if info.Error != nil {
		return jetstream.StreamState{}, info.Error
	}
	return info.State, nil
}
