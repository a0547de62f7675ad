package nats

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	discardedEvery = 5 * time.Second  // between two looks at the dead letters
	discardedQuiet = 10 * time.Minute // after which dead letters that are discarded are told anew
)

// discarded tells of dead letters that the server has discarded, the oldest, since more came than are kept. The server says nothing of it: what was there before and
// has gone from a full stream made room, unless somebody has removed it just then. Its methods are called by one goroutine, but for count.
type discarded struct {
	count atomic.Int64
	was   *jetstream.StreamState
	next  time.Time
	last  time.Time // that some were
}

// look counts what was discarded since the last call, every discardedEvery.
func (d *discarded) look(ctx context.Context, b *Bus) {
	now := time.Now()
	if now.Before(d.next) {
		return
	}
	d.next = now.Add(discardedEvery)
	is, err := b.streamState(ctx, deadStream)
	if err != nil {
		return // who needs the stream reports it
	}
	n := d.since(is)
	if n == 0 {
		return
	}
	all := d.count.Add(int64(n))
	if now.Sub(d.last) > discardedQuiet {
		b.log.Warn("dead letters are discarded, the oldest: there are more than are kept", "discarded", all, "kept", is.Msgs, "bytes", transport.SizeText(int64(is.Bytes)),
			"do", "see who gives up so much (`cortex dead`), and replay or remove what is there")
	}
	d.last = now
}

// since returns how many dead letters were discarded since the last call.
func (d *discarded) since(is jetstream.StreamState) (n uint64) {
	was := d.was
	d.was = &is
	full := is.Msgs >= maxDead || is.Bytes+transport.MaxPayload+2*deadHeaders > maxDeadBytes
	if was == nil || !full || is.FirstSeq <= was.FirstSeq || is.LastSeq < was.LastSeq {
		return 0
	}
	had := was.Msgs + is.LastSeq - was.LastSeq
	return had - min(had, is.Msgs)
}
