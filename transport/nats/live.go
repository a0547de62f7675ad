package nats

import (
	"context"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of the events of a live topic that wait for a slow handler; further events are lost.
const (
	livePending      = 16_384
	livePendingBytes = 64 << 20
)

// subscribeLive uses the client's own queue and goroutine of the subscription: events wait there until Serve is called, and are handled one at a
// time.
func (b *Bus) subscribeLive(ctx context.Context, s *subscription, t transport.Topic) error {
	var (
		handle func(*natsgo.Msg)
		begun  = make(chan struct{}) // closed when handle is set
	)
	sub, err := b.nc.Subscribe(liveFilter(t), func(m *natsgo.Msg) {
		select {
		case <-begun:
			handle(m)
		case <-s.done:
		case <-b.done:
		}
	})
	if err != nil {
		return err
	}
	gone := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(gone) })
	err = sub.SetPendingLimits(livePending, livePendingBytes)
	if err == nil {
		// Without an answer from the server, the subscription could miss what another client publishes from now on.
		err = b.nc.flush(ctx, sub)
	}
	if err != nil {
		_ = sub.Unsubscribe()
		return err
	}
	s.release = func() { _ = sub.Unsubscribe() }
	s.run = func(ctx context.Context, h transport.Handler) {
		handle = func(m *natsgo.Msg) {
			if ctx.Err() != nil {
				return
			}
			e, err := decodeLive(m, t)
			if err != nil {
				b.log.Warn("live event cannot be read", "subject", oneLine(m.Subject, 200), "err", err)
				return
			}
			if err := transport.Call(ctx, b.log, h, e); err != nil && ctx.Err() == nil {
				b.log.Debug("live event not handled", "subject", m.Subject, "err", err)
			}
		}
		close(begun)
		<-ctx.Done()
		_ = sub.Unsubscribe() // a closed connection ends the subscription as well
		<-gone                // the running handler has returned
	}
	return nil
}
