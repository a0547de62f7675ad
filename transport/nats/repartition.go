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

// Builds before this number of partitions had 64 of them, in the subjects of what waits and of what timers will send. Nobody reads
// those subjects any more, so what is there goes to where it belongs now before anything else is done.
const (
	metaPartitions = "cortex_partitions" // in the metadata of the inbox's stream: as many as its subjects have
	oldPartitions  = 64
)

var partitioned = map[string]string{metaPartitions: strconv.Itoa(transport.Partitions)}

// repartition moves what waits under the partitions of before, once: the stream remembers that it was done. Who is interrupted, or
// does it beside another, does again what is left; what is published twice is noticed by its id.
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

// move puts the messages that filter matches under the subjects of now, in their order, and returns how many there were.
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
		if err := b.removeMessage(ctx, inboxStream, raw.Sequence, false); err != nil { // the stream has it still
			return moved, err
		}
		if moved++; moved%10_000 == 0 {
			b.log.Info("events of an older build are moved", "filter", filter, "events", moved)
		}
	}
}

// repartitioned returns a copy of a message under the subjects of now, or nil when it has them already. A subject that nobody can read
// stays: its message is no event.
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
		if !strings.HasPrefix(key, "Nats-") { // else it is about how it was stored
			m.Header[key] = values
		}
	}
	if target != "" {
		m.Header[jetstream.ScheduleHeader] = raw.Header[jetstream.ScheduleHeader]
		m.Header[jetstream.ScheduleTargetHeader] = []string{m.Subject}
		m.Subject = raw.Subject
	}
	// Not the id that it had, which the server may remember.
	m.Header[natsgo.MsgIdHdr] = []string{fmt.Sprintf("moved.%d.%d", raw.Sequence, raw.Time.UnixNano())}
	return m
}
