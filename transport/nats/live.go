package nats

import (
	"context"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/internal/nesting"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of the events of a live topic that wait for a slow handler; further events are lost.
const (
	livePending      = 16_384
	livePendingBytes = 64 << 20
)

// lives are the live topics that this process listens to. All subscribers of a topic share one subscription at the server, and the events that wait for them,
// which are decoded once: whoever has a conversation open a thousand times gets what is said there once, not a thousand times by one connection.
type lives struct {
	most   int64                           // bytes of all events that wait, beyond which those lose theirs who have most
	lost   func(subject string)            // says that an event was lost
	unread func(subject string, err error) // says that an event cannot be read

	lostLog, unreadLog rate.Sometimes // limit the log lines

	mu      sync.Mutex
	of      map[transport.Topic]*liveTopic
	waiting int64 // bytes
	handled int64 // bytes of events that handlers have
}

const (
	mostLive   = 256 << 20 // the usual bound of all events that wait for handlers, and of those that handlers have, in bytes
	lightLive  = 64 << 10  // bytes up to which a handler gets an event whatever others have
	liveWeight = 512       // bytes that an event takes beside its payload and its header
)

func newLives(most int64, lost func(subject string), unread func(subject string, err error)) *lives {
	return &lives{
		most: most, lost: lost, unread: unread, of: map[transport.Topic]*liveTopic{},
		lostLog: rate.Sometimes{First: 1, Interval: time.Minute}, unreadLog: rate.Sometimes{First: 1, Interval: time.Minute},
	}
}

// liveTopic is a topic that somebody listens to.
type liveTopic struct {
	is        transport.Topic
	ready     chan struct{} // closed when the server knows of it, or sub is nil for good
	sub       *natsgo.Subscription
	listeners map[*liveListener]struct{}
}

// liveMessage is an event that waits for some listeners, who share its payload. Its lives' mutex guards left and hands.
type liveMessage struct {
	event *transport.Event
	size  int64
	left  int // how many of them
	hands int // how many handlers have it
}

// liveListener is one subscriber of a topic. Its lives' mutex guards the fields.
type liveListener struct {
	in    *lives
	wake  chan struct{} // has a value when something may wait
	queue []*liveMessage
	bytes int64
	topic *liveTopic
}

// subscribeLive has events of a topic wait until Serve is called. They are handled one at a time.
func (b *Bus) subscribeLive(ctx context.Context, s *subscription, t transport.Topic) error {
	l := &liveListener{in: b.lives, wake: make(chan struct{}, 1)}
	if err := b.lives.enter(ctx, l, t, b.listenLive); err != nil {
		return err
	}
	s.release = func() { b.lives.leave(l) }
	s.run = func(ctx context.Context, h transport.Handler) {
		defer b.lives.leave(l)
		for ctx.Err() == nil {
			m := l.next()
			if m == nil {
				select {
				case <-l.wake:
				case <-ctx.Done():
				}
				continue
			}
			e := *m.event // the handler's own; its payload is everybody's
			err := transport.Call(ctx, b.log, h, &e)
			b.lives.putBack(m)
			if err != nil && ctx.Err() == nil {
				b.log.Debug("live event not handled", "topic", t.ID, "from", e.From, "err", err)
			}
		}
	}
	return nil
}

// listenLive subscribes to subjects at the server.
func (b *Bus) listenLive(ctx context.Context, subjects string, hear func(*natsgo.Msg)) (*natsgo.Subscription, error) {
	sub, err := b.nc.Subscribe(subjects, hear)
	if err != nil {
		return nil, err
	}
	if err = sub.SetPendingLimits(livePending, livePendingBytes); err == nil {
		// Without an answer from the server, the subscription could miss what another client publishes from now on.
		err = b.nc.flush(ctx, sub)
	}
	if err != nil {
		_ = sub.Unsubscribe()
		return nil, err
	}
	return sub, nil
}

// enter adds a listener to a topic, for whom events wait from then on. The first one of a topic subscribes to it; an error is its own, and another one tries
// again.
func (v *lives) enter(ctx context.Context, l *liveListener, to transport.Topic, listen func(context.Context, string, func(*natsgo.Msg)) (*natsgo.Subscription, error)) error {
	for {
		v.mu.Lock()
		t := v.of[to]
		if t == nil {
			t = &liveTopic{is: to, ready: make(chan struct{}), listeners: map[*liveListener]struct{}{l: {}}}
			l.topic = t
			v.of[to] = t
			v.mu.Unlock()
			sub, err := listen(ctx, liveFilter(to), func(m *natsgo.Msg) { v.hear(t, m) })
			v.mu.Lock()
			if t.sub = sub; err != nil {
				delete(v.of, to)
				l.drop()
				delete(t.listeners, l)
			}
			v.mu.Unlock()
			close(t.ready)
			return err
		}
		l.topic = t
		t.listeners[l] = struct{}{}
		v.mu.Unlock()
		select {
		case <-t.ready:
		case <-ctx.Done():
			v.leave(l)
			return ctx.Err()
		}
		v.mu.Lock()
		failed := t.sub == nil
		v.mu.Unlock()
		if !failed {
			return nil
		}
	}
}

// leave removes a listener, and with the last one the subscription of its topic.
func (v *lives) leave(l *liveListener) {
	v.mu.Lock()
	l.drop()
	t := l.topic
	delete(t.listeners, l)
	last := len(t.listeners) == 0 && v.of[t.is] == t && t.sub != nil
	if last {
		delete(v.of, t.is)
	}
	v.mu.Unlock()
	if last {
		_ = t.sub.Unsubscribe() // a closed connection has ended it already
	}
}

// hear has an event of a topic wait for all who listen. Who is too far behind loses it.
func (v *lives) hear(t *liveTopic, from *natsgo.Msg) {
	e, err := decodeLive(from, t.is)
	if err != nil {
		v.unread(from.Subject, err)
		return
	}
	size := from.Size() - len(from.Data) + nesting.Weight(from.Data) + liveWeight
	if !v.put(t, &liveMessage{event: e, size: int64(size)}) {
		v.lost(from.Subject)
	}
}

// put returns false when something was lost.
func (v *lives) put(t *liveTopic, m *liveMessage) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := v.makeRoom(m.size)
	for l := range t.listeners {
		if len(l.queue) >= livePending || l.bytes+m.size > livePendingBytes {
			all = false
			continue
		}
		m.left++
		l.queue = append(l.queue, m)
		l.bytes += m.size
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	if m.left > 0 {
		v.waiting += m.size
	}
	return all
}

// makeRoom has those for whom most waits lose it, until there is room. It returns false when somebody lost something. v.mu is held.
func (v *lives) makeRoom(size int64) bool {
	all := true
	for v.waiting > 0 && v.waiting+size > v.most {
		worst := &liveListener{in: v}
		for _, t := range v.of {
			for l := range t.listeners {
				if l.bytes > worst.bytes {
					worst = l
				}
			}
		}
		if worst.bytes == 0 {
			break
		}
		worst.drop()
		all = false
	}
	return all
}

func (b *Bus) warnLost(subject string) {
	b.lives.lostLog.Do(func() {
		b.log.Warn("live events are lost: who listens is too slow for them", "subject", oneLine(subject, 200))
	})
}

func (b *Bus) warnUnread(subject string, err error) {
	b.lives.unreadLog.Do(func() { b.log.Warn("live event cannot be read", "subject", oneLine(subject, 200), "err", err) })
}

// done takes note that a message waits for one listener less. v.mu is held.
func (v *lives) done(m *liveMessage) {
	if m.left--; m.left == 0 {
		v.waiting -= m.size
	}
}

// drop loses what waits. Its lives' mutex is held.
func (l *liveListener) drop() {
	for _, m := range l.queue {
		l.in.done(m)
	}
	l.queue, l.bytes = nil, 0
}

// next returns the event that has waited longest, or nil. Until putBack, it counts as handled. One that is large is lost while others have many that are:
// who handles theirs slowly takes no memory without end.
func (l *liveListener) next() *liveMessage {
	v, lost := l.in, false
	defer func() {
		if lost {
			v.lost(l.topic.is.ID)
		}
	}()
	v.mu.Lock()
	defer v.mu.Unlock()
	for len(l.queue) > 0 {
		m := l.queue[0]
		l.queue[0] = nil
		if l.queue, l.bytes = l.queue[1:], l.bytes-m.size; len(l.queue) == 0 {
			l.queue = nil
		}
		v.done(m)
		if m.hands == 0 && m.size > lightLive && v.handled > 0 && v.handled+m.size > v.most {
			lost = true
			continue
		}
		if m.hands++; m.hands == 1 {
			v.handled += m.size
		}
		return m
	}
	return nil
}

// putBack takes note that a handler has done with m.
func (v *lives) putBack(m *liveMessage) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if m.hands--; m.hands == 0 {
		v.handled -= m.size
	}
}
