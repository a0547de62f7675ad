package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// rollBytes exceeds the size of a block of the inbox's files.
	rollBytes = 4 << 20
	// rollPiece is how much of it an account must have room for, since each piece replaces the previous one: see eraseSlack.
	rollPiece = 512 << 10
)

// rollSubject is for messages that fill a block. Like keep's subject, it belongs to no timer.
const rollSubject = timerPrefix + "_roll"

var _ transport.Eraser = (*Bus)(nil)

// Erase implements [transport.Eraser]. The server overwrites the conversation's events in the inboxes, its timers and its dead letters in its
// files. Events that were acknowledged earlier are in no stream any more, but their bytes stay in the files until the server rewrites them. Erase
// makes that possible: the server rewrites a file of 4 MB when more than half of it is such events, within its sync_interval (a second with
// [StartServer], two minutes by default). In a cluster, the replication logs of the servers also have the bytes until they are compacted, after
// some minutes of traffic.
func (b *Bus) Erase(ctx context.Context, tenant, contextID string) error {
	if b.isClosed() {
		return transport.ErrClosed
	}
	t, c := transport.Escape(tenant), transport.Escape(contextID)
	p := strconv.Itoa(transport.Partition(tenant, contextID))
	var left error // what is not erased; all else is
	for _, where := range []struct{ stream, filter string }{
		{inboxStream, inboxPrefix + t + ".*." + p + "." + c + ".*"},
		{inboxStream, timerPrefix + t + ".*." + c},
		{deadStream, deadPrefix + t + ".*." + c},
	} {
		for seq := uint64(1); ; {
			m, err := b.find(ctx, where.stream, where.filter, seq)
			if errors.Is(err, transport.ErrNotFound) {
				break
			}
			if err == nil {
				err = b.insist(ctx, func() error { return b.eraseMessage(ctx, where.stream, m.Sequence) })
			}
			if err != nil {
				return fmt.Errorf("erase %s: %w", contextID, err)
			}
			seq = m.Sequence + 1
		}
		left = errors.Join(left, b.unerased(ctx, where.stream, where.filter))
	}
	if err := b.removeFiles(ctx, filePrefix+t+"."+c+".>"); err != nil {
		return fmt.Errorf("erase %s: %w", contextID, err)
	}
	if err := errors.Join(left, b.beginNewBlock(ctx)); err != nil {
		return fmt.Errorf("erase %s: %w", contextID, err)
	}
	return nil
}

// unerased returns an error if messages are left that the server counts but cannot read, and so does not name: it leaves them out when it starts again.
func (b *Bus) unerased(ctx context.Context, stream, filter string) error {
	for tries := 0; ; tries++ {
		n, err := b.countOf(ctx, stream, filter)
		if err != nil || n == 0 {
			return err
		}
		if _, err := b.find(ctx, stream, filter, 1); !errors.Is(err, transport.ErrNotFound) { // published meanwhile
			return err
		}
		if tries == removeTries { // or else it was handled between the two
			return fmt.Errorf("%d messages of %s cannot be read and are not erased: start the service with the store again, then delete again", n, stream)
		}
		b.pause(ctx, retryDelay(tries)/4)
	}
}

// countOf returns how many messages of some subjects the server has by its count, whether or not it can read them.
func (b *Bus) countOf(ctx context.Context, stream, filter string) (n uint64, err error) {
	err = b.insist(ctx, func() error {
		var info struct {
			Error *jetstream.APIError   `json:"error"`
			State jetstream.StreamState `json:"state"`
		}
		if err := b.ask(ctx, "STREAM.INFO."+stream, infoGet{Subjects: filter}, &info); err != nil {
			return err
		}
		if info.Error != nil {
			return translate(info.Error)
		}
		for _, of := range info.State.Subjects {
			n += of
		}
		return nil
	})
	return n, err
}

// beginNewBlock makes the server begin a new file for the inbox, since it never rewrites the last one. While nothing is stored since the last call, it costs
// next to nothing: thousands of conversations are deleted one after the other.
func (b *Bus) beginNewBlock(ctx context.Context) error {
	if rolled := b.rolled.Load(); rolled > 0 {
		var last uint64
		err := b.insist(ctx, func() error {
			s, err := b.js.Stream(ctx, inboxStream)
			if err == nil {
				last = s.CachedInfo().State.LastSeq
			}
			return translate(err)
		})
		if err != nil {
			return err
		}
		if last == rolled+1 { // which is what keep has stored then
			return nil
		}
	}
	size := min(rollPiece, int(b.nc.MaxPayload())-1024)
	for left := rollBytes; left > 0; left -= size {
		m := &natsgo.Msg{Subject: rollSubject, Header: natsgo.Header{natsgo.MsgRollup: {"sub"}}, Data: make([]byte, size)}
		if err := b.store(ctx, m); err != nil {
			return err
		}
	}
	m, err := b.find(ctx, inboxStream, rollSubject, 1)
	if err == nil {
		err = b.keep(ctx) // move it to the new file before the filling is removed
	}
	if err == nil {
		err = b.insist(ctx, func() error { return b.eraseMessage(ctx, inboxStream, m.Sequence) })
	}
	if errors.Is(err, transport.ErrNotFound) {
		return nil // another process rolls as well
	}
	if err == nil {
		b.rolled.Store(m.Sequence)
	}
	return err
}
