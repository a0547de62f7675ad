package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

// subscription is the common part of the three kinds of subscription: how they begin and end.
type subscription struct {
	bus *Bus
	// run handles events until ctx ends, and returns what it holds.
	run func(ctx context.Context, h transport.Handler)
	// release frees what Subscribe made when Serve was never called; it may be nil.
	release func()
	// trouble is set for an inbox only.
	trouble func() transport.Trouble

	mu     sync.Mutex
	served bool
	closed bool
	done   chan struct{} // closed by Close
}

// Subscribe implements transport.Transport.
func (b *Bus) Subscribe(ctx context.Context, t transport.Topic, o *transport.SubscribeOptions) (transport.Subscription, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if b.isClosed() {
		return nil, transport.ErrClosed
	}
	if err := checkTopic(t); err != nil {
		return nil, err
	}
	var opts transport.SubscribeOptions
	if o != nil {
		opts = *o
	}
	opts.Concurrency = cmp.Or(max(opts.Concurrency, 0), transport.DefaultConcurrency)
	if err := b.checkSender(whose(t), t.Tenant); err != nil {
		return nil, err
	}
	s := &subscription{bus: b, done: make(chan struct{})}
	for end := time.Now().Add(publishTimeout); ; {
		err := b.subscribe(ctx, s, t, opts)
		switch {
		case err == nil:
			return s, nil
		case ctx.Err() != nil || b.isClosed() || !b.nc.IsConnected() || !isUnavailable(err) || b.who.Limited() || time.Now().After(end):
			return nil, translate(b.explainAbsence(err))
		}
		b.pause(ctx, retryPause) // a cluster elects a leader, or the server is very busy
	}
}

// subscribe is one attempt of Subscribe.
func (b *Bus) subscribe(caller context.Context, s *subscription, t transport.Topic, o transport.SubscribeOptions) error {
	// The server reports refusals outside the request, and one of its API requests cannot be told from another.
	expecting, done := b.nc.expect(caller, func(subject string) bool { return strings.Contains(subject, jsAPI) })
	defer done()
	ctx, cancel := context.WithTimeout(expecting, apiTimeout)
	defer cancel()
	var err error
	switch t.Kind {
	case transport.KindInbox:
		err = b.subscribeInbox(ctx, s, t, o)
	case transport.KindCards:
		err = b.subscribeCards(ctx, s, t)
	default:
		err = b.subscribeLive(ctx, s, t)
	}
	err = cause(expecting, err)
	if errors.Is(err, context.Canceled) && caller.Err() == nil {
		err = natsgo.ErrDisconnected // during the request
	}
	if err == nil && t == transport.Inbox(t.Tenant, transport.Cortex) {
		if err = b.serveGateway(ctx, t.Tenant); err == nil {
			err = b.refuseOldBuilds(ctx)
		}
	}
	return err
}

// whose returns the id of the agent that a topic belongs to; empty for a topic of no agent.
func whose(t transport.Topic) string {
	id, control := strings.CutPrefix(t.ID, strings.TrimSuffix(transport.Control("", transport.Cortex).ID, transport.Cortex))
	if t.Kind == transport.KindInbox || control {
		return id
	}
	return ""
}

// Serve implements transport.Subscription.
func (s *subscription) Serve(ctx context.Context, h transport.Handler) error {
	s.mu.Lock()
	served, closed := s.served, s.closed
	s.served = true
	s.mu.Unlock()
	if served {
		return errors.New("serve: called twice")
	}
	if closed {
		return transport.ErrClosed
	}
	if !s.bus.enter() {
		return transport.ErrClosed
	}
	defer s.bus.leave()
	hctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		select {
		case <-s.done:
		case <-s.bus.done:
		case <-hctx.Done():
		}
		cancel()
	})
	s.run(hctx, h)
	if err := ctx.Err(); err != nil {
		return err
	}
	return transport.ErrClosed
}

// Trouble implements [transport.Troubled].
func (s *subscription) Trouble() transport.Trouble {
	if s.trouble == nil {
		return transport.Trouble{}
	}
	return s.trouble()
}

// Close implements transport.Subscription.
func (s *subscription) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.done)
	if !s.served && s.release != nil {
		s.release()
	}
	return nil
}

// checkTopic returns an error that wraps ErrInvalid for a topic with an invalid id or an unknown kind.
func checkTopic(t transport.Topic) error {
	if t.Tenant != "" {
		if err := transport.CheckID(t.Tenant); err != nil {
			return fmt.Errorf("%w: tenant %w", transport.ErrInvalid, err)
		}
	}
	switch t.Kind {
	case transport.KindCards:
		return nil
	case transport.KindInbox, transport.KindLive:
		if err := transport.CheckID(t.ID); err != nil {
			return fmt.Errorf("%w: topic id %w", transport.ErrInvalid, err)
		}
		return nil
	}
	return fmt.Errorf("%w: unknown topic kind %q", transport.ErrInvalid, t.Kind)
}
