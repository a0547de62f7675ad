package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// readEvery is how often a reader without a consumer looks for new cards. Cortex's live events about agents make it look at once.
	readEvery = time.Second
	readBytes = 1 << 20 // of cards in one answer
)

// cardReader reads the bucket of cards through a gateway, where consumers are not allowed. Its position is a sequence and costs the server nothing.
type cardReader struct {
	bus    *Bus
	filter string
	next   uint64 // sequence to continue from
}

// read returns the next cards and whether there are more. Any replica may answer: each has a prefix of the stream.
func (r *cardReader) read(ctx context.Context) (msgs []*natsgo.Msg, metas []*natsgo.MsgMetadata, more bool, err error) {
	ctx, cancel := r.bus.asking(ctx)
	defer cancel()
	expecting, done := r.bus.nc.expect(ctx, func(subject string) bool { return subject == r.bus.nc.prefix+jsAPI+"DIRECT.GET."+agentsStream })
	defer done()
	sub, err := r.bus.nc.SubscribeSync(r.bus.nc.NewInbox())
	if err != nil {
		return nil, nil, false, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	req, err := json.Marshal(msgGet{Seq: r.next, Next: r.filter, Batch: cardPulls, MaxBytes: readBytes})
	if err != nil {
		return nil, nil, false, err
	}
	if err := r.bus.nc.PublishRequest(jsAPI+"DIRECT.GET."+agentsStream, sub.Subject, req); err != nil {
		return nil, nil, false, err
	}
	var last uint64 // of this answer
	for {
		m, err := sub.NextMsgWithContext(expecting)
		if err != nil {
			return nil, nil, false, cause(expecting, err)
		}
		switch status := m.Header.Get("Status"); {
		case status == "404" && last == 0:
			return nil, nil, false, nil
		case status != "" && status != "204":
			return nil, nil, false, fmt.Errorf("cards: the server answers %s %s", status, oneLine(m.Header.Get("Description"), 300))
		case status == "204":
			if before := m.Header.Get(jetstream.LastSequenceHeader); before != fmt.Sprint(last) || last == 0 {
				return nil, nil, false, fmt.Errorf("cards: the answer ends behind %d, want %.20q", last, before)
			}
			r.next = last + 1
			return msgs, metas, m.Header.Get("Nats-Num-Pending") != "0", nil
		}
		meta := &natsgo.MsgMetadata{}
		if meta.Sequence.Stream, err = strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64); err != nil {
			return nil, nil, false, fmt.Errorf("cards: %w", err)
		}
		if meta.Timestamp, err = time.Parse(time.RFC3339Nano, m.Header.Get(jetstream.TimeStampHeaer)); err != nil {
			return nil, nil, false, fmt.Errorf("cards: %w", err)
		}
		if before := m.Header.Get(jetstream.LastSequenceHeader); before != fmt.Sprint(last) {
			return nil, nil, false, fmt.Errorf("cards: message %d came behind %d, want it behind %.20q", meta.Sequence.Stream, last, before)
		}
		last = meta.Sequence.Stream
		msgs = append(msgs, &natsgo.Msg{Subject: m.Header.Get(jetstream.SubjectHeader), Header: m.Header, Data: m.Data})
		metas = append(metas, meta)
	}
}

// atEnd asks the leader, which has the whole stream, whether there are no further cards.
func (r *cardReader) atEnd(ctx context.Context) (bool, error) {
	_, err := r.bus.message(ctx, agentsStream, r.filter, r.next)
	if errors.Is(err, transport.ErrNotFound) {
		return true, nil
	}
	return false, err
}

// lookOn is follow without a consumer; until is the watch's.
func (c *cards) lookOn(ctx context.Context, until uint64, h transport.Handler) error {
	r := &cardReader{bus: c.bus, filter: cardFilter(c.tenant), next: 1}
	seen := map[string]bool{} // subjects in the bucket, while the retained cards are read; then nil
	look := time.NewTicker(readEvery)
	defer look.Stop()
	for {
		msgs, metas, more, err := r.read(ctx)
		if err != nil {
			return err
		}
		for i, m := range msgs {
			c.tell(ctx, m, metas[i], seen, h)
		}
		if r.next > until {
			c.caughtUp(ctx, h)
		}
		if more {
			continue
		}
		if seen != nil {
			end, err := r.atEnd(ctx)
			if err != nil {
				return err
			}
			if !end {
				c.bus.pause(ctx, pullAgain)
				continue
			}
			c.sync(ctx, seen, h)
			seen = nil
		}
		c.endOverdue(ctx, h)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.news:
		case <-look.C:
		}
	}
}
