package nats

import (
	"context"
	"fmt"
	"slices"
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
	if b.who.Limited() {
		return nil
	}
	// A server whose disk is full, or was, still says what it has: only a write tells.
	if err := b.storeOnce(ctx, keepMessage()); err != nil {
		return fmt.Errorf("%w: the NATS server cannot write: if its disk is full or was, start it again when there is room: %w", transport.ErrUnavailable, err)
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
	if n, ok, err := b.unacknowledged(ctx, t); ok || err != nil {
		return n, translate(err)
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

// unacknowledged returns what the consumers of an inbox have to deliver and to see acknowledged: of its groups, or of the whole. It
// reports false when not all of them are there.
func (b *Bus) unacknowledged(ctx context.Context, t transport.Topic) (n int, ok bool, err error) {
	kinds := [][]int{make([]int, groups), {whole}}
	for g := range kinds[0] {
		kinds[0][g] = g
	}
	if t.ID != transport.Cortex {
		slices.Reverse(kinds) // as its subscribers usually are
	}
	for _, kind := range kinds {
		n, ok = 0, true
		for _, g := range kind {
			info, err := b.consumer(ctx, section{t, g})
			if err != nil {
				return 0, false, err
			}
			if ok = info != nil; !ok {
				break
			}
			n += int(info.NumPending) + info.NumAckPending
		}
		if ok {
			break
		}
	}
	return n, ok, nil
}
