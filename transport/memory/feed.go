package memory

import (
	"context"
	"sync"

	"github.com/cortex-orchestrator/cortex/transport"
)

// How much a live subscriber may be behind before it loses the oldest events.
const (
	maxLive      = 1024
	maxLiveBytes = 16 << 20
)

// feed is a subscription of cards or of a live topic, which handles events one at a time.
type feed struct {
	b      *Bus
	topic  transport.Topic
	closed chan struct{} // closed by end
	wake   chan struct{} // has one element when there may be something to do

	// Guarded by b.w.mu.
	over, served bool
	pending      []*record // oldest first
	bytes        int
	limit        int // cards: when to condense pending

	once   sync.Once
	cancel context.CancelFunc
}

func newFeed(b *Bus, t transport.Topic) *feed {
	return &feed{b: b, topic: t, closed: make(chan struct{}), wake: make(chan struct{}, 1), limit: minCards}
}

// push queues r for the handler; w.mu is held.
func (f *feed) push(r *record) {
	f.pending = append(f.pending, r)
	f.bytes += len(r.body)
	if f.topic.Kind == transport.KindCards {
		f.condense()
	} else {
		for len(f.pending) > maxLive || (f.bytes > maxLiveBytes && len(f.pending) > 1) {
			f.shift()
		}
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// shift removes the oldest record; w.mu is held.
func (f *feed) shift() *record {
	r := f.pending[0]
	f.pending[0] = nil
	f.pending = f.pending[1:]
	f.bytes -= len(r.body)
	return r
}

// next removes and returns the oldest record; nil when there is none.
func (f *feed) next() *record {
	f.b.w.mu.Lock()
	defer f.b.w.mu.Unlock()
	if f.over || len(f.pending) == 0 {
		return nil
	}
	return f.shift()
}

// Serve implements [transport.Subscription]. It ignores the errors of h.
func (f *feed) Serve(ctx context.Context, h transport.Handler) error {
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	w := f.b.w
	w.mu.Lock()
	served := f.served
	f.served, f.cancel = true, cancel
	w.mu.Unlock()
	if served {
		return errServed
	}
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		f.leave()
	}()
	for {
		select {
		case <-f.closed:
			return transport.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		case <-f.wake:
		}
		for r := f.next(); r != nil && own.Err() == nil; r = f.next() {
			_ = transport.Call(own, w.o.Logger, h, f.event(r))
		}
	}
}

// event returns an event for the handler. Cards and live events have no dead letters: those that cannot be decoded are Opaque.
func (f *feed) event(r *record) *transport.Event {
	var e *transport.Event
	if f.topic.Kind == transport.KindLive {
		e = r.live()
	} else {
		e, _ = r.decode()
	}
	e.Delivery = 1
	return e
}

// Close implements [transport.Subscription].
func (f *feed) Close() error {
	f.b.w.mu.Lock()
	defer f.b.w.mu.Unlock()
	f.end()
	return nil
}

func (f *feed) end() {
	f.once.Do(func() {
		close(f.closed)
		f.leave()
	})
}

// leave removes f from its topic and wakes Serve; w.mu is held.
func (f *feed) leave() {
	f.over, f.pending, f.bytes = true, nil, 0
	delete(f.b.subs, f)
	switch f.topic.Kind {
	case transport.KindCards:
		delete(f.b.w.board(f.topic.Tenant).feeds, f)
		f.b.w.board(f.topic.Tenant).tidy()
	default:
		delete(f.b.w.live[f.topic], f)
		if len(f.b.w.live[f.topic]) == 0 {
			delete(f.b.w.live, f.topic)
		}
	}
	if f.cancel != nil {
		f.cancel()
	}
}
