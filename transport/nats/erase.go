package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

// rollBytes is more than a block of the inbox's files holds.
const rollBytes = 4 << 20

// rollSubject is where what fills a block is for a moment. Like the one of keep, it is no timer's.
const rollSubject = timerPrefix + "_roll"

var _ transport.Eraser = (*Bus)(nil)

// Erase implements [transport.Eraser]. What is in the inboxes, the timers and the dead letters of the conversation is overwritten
// in the server's files. Events that were acknowledged before are in no stream any more, but their bytes are in its files until it
// rewrites them; Erase sees to it that it may: it does within its sync_interval (a second with [StartServer], two minutes by default)
// where more than half of a file of 4 MB is of such events. In a cluster, the servers' logs of replication go their own way: they
// are cut off when they are compacted, after some minutes of traffic.
func (b *Bus) Erase(ctx context.Context, tenant, contextID string) error {
	if b.isClosed() {
		return transport.ErrClosed
	}
	t, c := transport.Escape(tenant), transport.Escape(contextID)
	p := strconv.Itoa(transport.Partition(tenant, contextID))
	for _, where := range []struct{ stream, filter string }{
		{inboxStream, inboxPrefix + t + ".*." + p + "." + c + ".*"},
		{inboxStream, timerPrefix + t + ".*." + c},
		{deadStream, deadPrefix + t + ".*." + c},
	} {
		for seq := uint64(1); ; {
			m, err := b.message(ctx, where.stream, where.filter, seq)
			if errors.Is(err, transport.ErrNotFound) {
				break
			}
			if err == nil {
				err = b.eraseMessage(ctx, where.stream, m.Sequence)
			}
			if err != nil {
				return fmt.Errorf("erase %s: %w", contextID, err)
			}
			seq = m.Sequence + 1
		}
	}
	if err := b.removeFiles(ctx, filePrefix+t+"."+c+".>"); err != nil {
		return fmt.Errorf("erase %s: %w", contextID, err)
	}
	if err := b.roll(ctx); err != nil {
		return fmt.Errorf("erase %s: %w", contextID, err)
	}
	return nil
}

// roll makes the server begin a new file for the inbox, since it never rewrites the last one.
func (b *Bus) roll(ctx context.Context) error {
	size := min(rollBytes, int(b.nc.MaxPayload())-1024)
	for left := rollBytes; left > 0; left -= size {
		// Each replaces the one before.
		m := &natsgo.Msg{Subject: rollSubject, Header: natsgo.Header{natsgo.MsgRollup: {"sub"}}, Data: make([]byte, size)}
		if err := b.store(ctx, m); err != nil {
			return err
		}
	}
	m, err := b.message(ctx, inboxStream, rollSubject, 1)
	if err == nil {
		err = b.keep(ctx) // into the new file, before what fills it goes
	}
	if err == nil {
		err = b.eraseMessage(ctx, inboxStream, m.Sequence)
	}
	if errors.Is(err, transport.ErrNotFound) {
		return nil // somebody else rolls as well
	}
	return err
}
