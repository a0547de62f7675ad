package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Healthy implements transport.Health.
func (b *Bus) Healthy(ctx context.Context) error {
	if b.isClosed() {
		return transport.ErrClosed
	}
	if s := b.nc.Status(); s != natsgo.CONNECTED {
		return fmt.Errorf("%w: connection to the NATS server is %s", transport.ErrUnavailable, strings.ToLower(s.String()))
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if _, err := b.js.Stream(ctx, inboxStream); err != nil {
		return streamError(inboxStream, err)
	}
	return nil
}

// Waiting implements transport.InboxDepth. What waits for its time is not in the inbox yet.
func (b *Bus) Waiting(ctx context.Context, t transport.Topic) (int, error) {
	if err := checkTopic(t); err != nil {
		return 0, err
	}
	if t.Kind != transport.KindInbox {
		return 0, fmt.Errorf("%w: topic kind %q has no depth", transport.ErrInvalid, t.Kind)
	}
	if b.isClosed() {
		return 0, transport.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	c, err := b.js.Consumer(ctx, inboxStream, consumerName(t))
	if err == nil {
		return int(c.CachedInfo().NumPending) + c.CachedInfo().NumAckPending, nil
	}
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return 0, translate(err)
	}
	// Nobody has subscribed yet, or for long.
	s, err := b.js.Stream(ctx, inboxStream)
	if err != nil {
		return 0, translate(err)
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(inboxFilter(t)))
	if err != nil {
		return 0, translate(err)
	}
	n := 0
	for _, count := range info.State.Subjects {
		n += int(count)
	}
	return n, nil
}
