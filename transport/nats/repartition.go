package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Older versions had 64 partitions, in the subjects of events and of the targets of timers. Nothing reads those subjects any more, so Dial first
// moves such messages to the present ones.
const (
	metaPartitions = "cortex_partitions" // key in the inbox stream's metadata: the number of partitions in its subjects
	oldPartitions  = 64
)

var partitioned = map[string]string{metaPartitions: strconv.Itoa(transport.Partitions)}

// repartition moves the messages of older partitions, once: the stream's metadata records that it was done. It may be interrupted and may run in
// several processes, since each moves what is left, and the server recognises a repeated publish by its id.
func (b *Bus) repartition(ctx context.Context) error {
	s, err := lookUp(ctx, b.js, inboxStream)
	if err != nil {
		return streamError(inboxStream, err)
	}
	config := s.CachedInfo().Config
	if config.Metadata[metaPartitions] == partitioned[metaPartitions] {
		return nil
	}
	if n := s.CachedInfo().State.Msgs; n > 1 { // one is the sentinel
		b.log.Info("what waits is looked through for events of an older build", "messages", n)
	}
	moved, err := b.move(ctx, timerPrefix+">")
	for p := transport.Partitions; p < oldPartitions && err == nil; p++ {
		var n int
		n, err = b.move(ctx, inboxPrefix+"*.*."+strconv.Itoa(p)+".>")
		moved += n
	}
	if err != nil {
		return fmt.Errorf("move what waits to the partitions of now: %w", err)
	}
	config.Metadata = maps.Clone(config.Metadata)
	if config.Metadata == nil {
		config.Metadata = map[string]string{}
	}
	maps.Copy(config.Metadata, partitioned)
	if _, err := b.js.UpdateStream(ctx, config); err != nil {
		return streamError(inboxStream, err)
	}
	if moved > 0 {
		b.log.Info("what waited was moved to the partitions of now", "events", moved)
	}
	return nil
}

// move publishes the messages that match filter under their present subjects, in order, removes the originals, and returns how many there were.
func (b *Bus) move(ctx context.Context, filter string) (moved int, err error) {
	for seq := uint64(1); ; {
		raw, err := b.message(ctx, inboxStream, filter, seq)
		if errors.Is(err, transport.ErrNotFound) {
			return moved, nil
		}
		if err != nil {
			return moved, err
		}
		seq = raw.Sequence + 1
		m := repartitioned(raw)
		if m == nil {
			continue
		}
		if err := b.store(ctx, m); err != nil {
			return moved, err
		}
		if err := b.removeMessage(ctx, inboxStream, raw.Sequence, false); err != nil { // the new message stays in the stream
			return moved, err
		}
		if moved++; moved%10_000 == 0 {
			b.log.Info("events of an older build are moved", "filter", filter, "events", moved)
		}
	}
}

// repartitioned returns a copy of a message under its present subject, or nil when it has that already. It returns nil for an unreadable subject,
// too: the message is no event.
func repartitioned(raw *jetstream.RawStreamMsg) *natsgo.Msg {
	was := raw.Subject
	target := raw.Header.Get(jetstream.ScheduleTargetHeader)
	if target != "" {
		was = target
	}
	a, err := parseInboxSubject(was)
	if err != nil || inboxSubject(a) == was {
		return nil
	}
	m := &natsgo.Msg{Subject: inboxSubject(a), Header: natsgo.Header{}, Data: raw.Data}
	for key, values := range raw.Header {
		if !strings.HasPrefix(key, "Nats-") { // Nats- headers describe how the old message was stored
			m.Header[key] = values
		}
	}
	if target != "" {
		m.Header[jetstream.ScheduleHeader] = raw.Header[jetstream.ScheduleHeader]
		m.Header[jetstream.ScheduleTargetHeader] = []string{m.Subject}
		m.Subject = raw.Subject
	}
	// A new id: the server may remember the old one.
	m.Header[natsgo.MsgIdHdr] = []string{fmt.Sprintf("moved.%d.%d", raw.Sequence, raw.Time.UnixNano())}
	return m
}
