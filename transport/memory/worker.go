package memory

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

var errServed = errors.New("serve was called before")

// worker is a subscription of an inbox. Events are pushed to it: adding an event, or ending a handler, starts the next handler.
type worker struct {
	b           *Bus
	topic       transport.Topic
	concurrency int
	unordered   bool
	label       string
	onOwned     func([]int)
	closed      chan struct{}  // closed by end
	handlers    sync.WaitGroup // grows only under w.mu, while free is possible
	failing     *transport.Failing

	// Guarded by b.w.mu.
	over    bool // closed, or Serve's context has ended
	in      *inbox
	running int
	free    *list.Element // in in.free
	id      uint64        // in the order in which workers began to serve
	since   time.Time     // when it did
	heads   *list.List    // of *conversation: those that it owns and whose first event it may take

	told []int // the argument of the last call of onOwned; guarded by in.owners.telling

	// Set by Serve before the first handler.
	ctx    context.Context //nolint:containedctx // of the handlers, for the time of Serve
	cancel context.CancelFunc
	h      transport.Handler
}

func newWorker(b *Bus, t transport.Topic, o *transport.SubscribeOptions) *worker {
	s := &worker{
		b: b, topic: t, closed: make(chan struct{}), concurrency: transport.DefaultConcurrency, heads: list.New(),
		failing: transport.NewFailing(t, o, b.w.o.Logger),
	}
	if o != nil {
		s.unordered = o.Unordered
		s.label, s.onOwned = shorten.To(o.Label, transport.MaxLabel), o.OnOwned
		if o.Concurrency > 0 {
			s.concurrency = o.Concurrency
		}
	}
	return s
}

// Serve implements [transport.Subscription].
func (s *worker) Serve(ctx context.Context, h transport.Handler) error {
	w := s.b.w
	w.mu.Lock()
	switch {
	case s.in != nil:
		w.mu.Unlock()
		return errServed
	case s.over:
		w.mu.Unlock()
		return transport.ErrClosed
	}
	s.h = h
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.in = w.inbox(s.topic)
	s.in.serving++
	w.seq++
	s.id, s.since = w.seq, time.Now().UTC()
	s.free = s.in.free.PushBack(s)
	if !s.unordered {
		s.in.owners.workers = append(s.in.owners.workers, s)
		s.in.deal()
	}
	s.in.dispatch()
	w.mu.Unlock()
	s.in.tell(s)

	var err error
	select {
	case <-s.closed:
		err = transport.ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
	}
	w.mu.Lock()
	s.leave()
	s.in.serving--
	s.in.tidy()
	w.mu.Unlock()
	s.in.tell(s)
	s.handlers.Wait()
	return err
}

// Close implements [transport.Subscription].
func (s *worker) Close() error {
	s.b.w.mu.Lock()
	defer s.b.w.mu.Unlock()
	s.end()
	return nil
}

func (s *worker) end() {
	select {
	case <-s.closed:
	default:
		close(s.closed)
		s.leave()
	}
}

// leave makes s take no more events, and ends the context of running handlers.
func (s *worker) leave() {
	s.over = true
	delete(s.b.subs, s)
	s.occupy()
	if s.in != nil {
		s.in.remove(s)
	}
	if s.cancel != nil {
		s.cancel()
	}
}

// occupy removes s from the list of free workers.
func (s *worker) occupy() {
	if s.free != nil {
		s.in.free.Remove(s.free)
		s.free = nil
	}
}

// take returns an event for another handler of s, which must have room for it, or nil.
func (s *worker) take() *item {
	if s.ctx.Err() != nil {
		return nil
	}
	it := s.in.take(s)
	if it == nil {
		return nil
	}
	if s.running++; s.running == s.concurrency {
		s.occupy()
	} else if s.free != nil {
		s.in.free.MoveToBack(s.free)
	}
	return it
}

// work handles it, and then further events.
func (s *worker) work(it *item) {
	defer s.handlers.Done()
	for it != nil {
		err := s.handle(it)
		it = s.settle(it, err)
	}
}

func (s *worker) handle(it *item) error {
	key, delivery, epoch := it.seq, it.delivery, it.epoch
	err := s.failing.Handle(s.ctx, s.h, key, func() (*transport.Event, error) {
		e, err := it.r.decode()
		e.Delivery, e.Epoch = delivery, epoch
		return e, err
	})
	if transport.IsPermanent(err) {
		s.failing.GaveUp(key) // no failure can come in between
	}
	return err
}

// Trouble implements [transport.Troubled].
func (s *worker) Trouble() transport.Trouble { return s.failing.Trouble() }

// settle ends the handling of it and returns the event that the same goroutine handles next, or nil.
func (s *worker) settle(it *item, err error) *item {
	w := s.b.w
	w.mu.Lock()
	defer w.mu.Unlock()
	s.running--
	s.in.settle(it, err, s.over || s.ctx.Err() != nil)
	if s.over {
		return nil
	}
	if s.free == nil && s.running < s.concurrency {
		s.free = s.in.free.PushBack(s)
	}
	return s.take()
}
