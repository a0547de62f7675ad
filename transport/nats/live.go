package nats

import (
	"context"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of the events of live topics that wait for slow handlers; further events are lost.
const (
	livePending      = 16_384
	livePendingBytes = 64 << 20
	mostLive         = 256 << 20 // bytes, of all subscriptions of a Bus: who has many would have as many times as much
	liveWeight       = 512       // bytes that an event takes beside its text
)

// liveRoom counts what waits for the handlers of all live topics. When that is too much, the one for which most waits loses what it has.
type liveRoom struct {
	mu   sync.Mutex
	most int // bytes
	all  int
	of   map[*liveQueue]struct{}

	lost, unread rate.Sometimes // limit the log lines
}

// liveQueue has the events of a subscription in the order of their arrival. liveRoom.mu guards it.
type liveQueue struct {
	in    *liveRoom
	queue []*natsgo.Msg
	bytes int
	more  chan struct{} // holds one while there may be events
}

func newLiveRoom(most int) *liveRoom {
	return &liveRoom{
		most: most, of: map[*liveQueue]struct{}{},
		lost: rate.Sometimes{First: 1, Interval: time.Minute}, unread: rate.Sometimes{First: 1, Interval: time.Minute},
	}
}

func (r *liveRoom) open() *liveQueue {
	q := &liveQueue{in: r, more: make(chan struct{}, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[q] = struct{}{}
	return q
}

func weightOf(m *natsgo.Msg) int { return len(m.Data) + liveWeight }

// put adds an event, and returns false when some were lost.
func (q *liveQueue) put(m *natsgo.Msg) bool {
	q.in.mu.Lock()
	defer q.in.mu.Unlock()
	n := weightOf(m)
	if _, is := q.in.of[q]; !is {
		return true // nobody listens any more
	}
	if len(q.queue) >= livePending || q.bytes+n > livePendingBytes {
		return false
	}
	q.queue, q.bytes, q.in.all = append(q.queue, m), q.bytes+n, q.in.all+n
	select {
	case q.more <- struct{}{}:
	default:
	}
	all := true
	for q.in.all > q.in.most {
		worst := q
		for one := range q.in.of {
			if one.bytes > worst.bytes {
				worst = one
			}
		}
		worst.drop()
		all = false
	}
	return all
}

// drop loses what waits. liveRoom.mu is held.
func (q *liveQueue) drop() {
	q.in.all -= q.bytes
	q.queue, q.bytes = nil, 0
}

// take returns the next event; nil when there is none.
func (q *liveQueue) take() *natsgo.Msg {
	q.in.mu.Lock()
	defer q.in.mu.Unlock()
	if len(q.queue) == 0 {
		return nil
	}
	m := q.queue[0]
	q.queue[0] = nil
	q.queue = q.queue[1:]
	q.bytes -= weightOf(m)
	q.in.all -= weightOf(m)
	return m
}

func (q *liveQueue) close() {
	q.in.mu.Lock()
	defer q.in.mu.Unlock()
	q.drop()
	delete(q.in.of, q)
}

// subscribeLive has events wait until Serve is called, and handles them one at a time.
func (b *Bus) subscribeLive(ctx context.Context, s *subscription, t transport.Topic) error {
	q := b.live.open()
	sub, err := b.nc.Subscribe(liveFilter(t), func(m *natsgo.Msg) {
		if !q.put(m) {
			b.live.lost.Do(func() {
				b.log.Warn("live events are lost: who listens is too slow for them", "subject", oneLine(m.Subject, 200))
			})
		}
	})
	if err != nil {
		q.close()
		return err
	}
	err = sub.SetPendingLimits(livePending, livePendingBytes)
	if err == nil {
		// Without an answer from the server, the subscription could miss what another client publishes from now on.
		err = b.nc.flush(ctx, sub)
	}
	if err != nil {
		_ = sub.Unsubscribe()
		q.close()
		return err
	}
	s.release = func() {
		_ = sub.Unsubscribe()
		q.close()
	}
	s.run = func(ctx context.Context, h transport.Handler) {
		defer q.close()
		defer sub.Unsubscribe() //nolint:errcheck // a closed connection ends the subscription as well
		for {
			m := q.take()
			if m == nil {
				select {
				case <-q.more:
					continue
				case <-ctx.Done():
					return
				}
			}
			if ctx.Err() != nil {
				return
			}
			e, err := decodeLive(m, t)
			if err != nil {
				b.live.unread.Do(func() { b.log.Warn("live event cannot be read", "subject", oneLine(m.Subject, 200), "err", err) })
				continue
			}
			if err := transport.Call(ctx, b.log, h, e); err != nil && ctx.Err() == nil {
				b.log.Debug("live event not handled", "subject", m.Subject, "err", err)
			}
		}
	}
	return nil
}
