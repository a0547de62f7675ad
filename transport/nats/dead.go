package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// A dead letter is the message as it was in the inbox, with these additional headers. Its id is its sequence in the stream.
const (
	headerSubject    = "Cortex-Subject"    // its subject in the inbox
	headerReason     = "Cortex-Reason"     // the error's text, as a JSON string
	headerDeliveries = "Cortex-Deliveries" // number of deliveries

	maxReason   = 4 << 10  // bytes of a reason that are stored
	deadHeaders = 48 << 10 // bytes reserved for the headers of a dead letter
)

// deadMessage makes a dead letter of m, which was s in the inbox of t. It leaves out a body of more than limit bytes.
func deadMessage(t transport.Topic, m *natsgo.Msg, s stored, reason string, deliveries, limit int) *natsgo.Msg {
	dead := &natsgo.Msg{Subject: deadSubject(t, m.Subject), Header: natsgo.Header{}, Data: m.Data}
	if len(dead.Data) > limit {
		reason = fmt.Sprintf("%s (its body of %d bytes was not kept)", reason, len(m.Data))
		dead.Data = nil
	}
	for _, k := range []string{headerID, headerKind, headerVersion, headerTime, headerTask, headerDeliverAt, headerTrace} {
		if v := m.Header.Get(k); v != "" {
			dead.Header.Set(k, v)
		}
	}
	quoted, err := json.Marshal(reason[:min(len(reason), maxReason)])
	if err != nil {
		quoted = []byte(`""`) // impossible for a string
	}
	dead.Header.Set(headerReason, string(quoted))
	dead.Header.Set(headerSubject, m.Subject)
	dead.Header.Set(headerDeliveries, strconv.Itoa(deliveries))
	// The same event again, after a lost acknowledgement, is the same dead letter.
	dead.Header.Set(natsgo.MsgIdHdr, fmt.Sprintf("%d.%d", s.seq, s.at.UnixNano()))
	return dead
}

// deadLimit returns the largest body of a dead letter, in bytes.
func (b *Bus) deadLimit() int { return min(transport.MaxPayload, int(b.nc.MaxPayload())-deadHeaders) }

// DeadLetters implements [transport.DeadLetters]. The newest 100,000 of all tenants are kept, and at most 256 MiB.
func (b *Bus) DeadLetters(ctx context.Context, tenant string) iter.Seq2[*transport.DeadLetter, error] {
	return func(yield func(*transport.DeadLetter, error) bool) {
		if b.isClosed() {
			yield(nil, transport.ErrClosed)
			return
		}
		for seq := uint64(1); ; {
			raw, err := b.message(ctx, deadStream, deadFilter(tenant), seq)
			if errors.Is(err, transport.ErrNotFound) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(readDead(raw), nil) {
				return
			}
			seq = raw.Sequence + 1
		}
	}
}

// DeadLetter implements [transport.DeadLetters].
func (b *Bus) DeadLetter(ctx context.Context, tenant, id string) (*transport.DeadLetter, error) {
	raw, err := b.findDead(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	return readDead(raw), nil
}

// ReplayDead implements [transport.DeadLetters]. It stores the event before it removes the dead letter: in the other order a kill in between would
// lose it. An interrupted call may be repeated: the server stores the event only once within [transport.DuplicateWindow], and later Cortex and
// agents recognise handled events by their id.
func (b *Bus) ReplayDead(ctx context.Context, tenant, id string) error {
	raw, err := b.findDead(ctx, tenant, id)
	if err != nil {
		return err
	}
	m, err := replayed(tenant, raw)
	if err != nil {
		return err
	}
	if err := b.store(ctx, m); err != nil {
		return fmt.Errorf("replay dead letter %s: %w", id, err)
	}
	return b.eraseMessage(ctx, deadStream, raw.Sequence)
}

// replayed returns a tenant's dead letter as a message for its inbox.
func replayed(tenant string, raw *jetstream.RawStreamMsg) (*natsgo.Msg, error) {
	subject := raw.Header.Get(headerSubject)
	e, err := decodeInbox(&natsgo.Msg{Subject: subject, Header: raw.Header, Data: raw.Data}, subject)
	if err == nil && e.Tenant != tenant {
		err = fmt.Errorf("it is of tenant %q", e.Tenant) // a forged one must not reach another tenant
	}
	if err != nil {
		return nil, fmt.Errorf("%w: dead letter %d cannot be read, so nobody could handle it: %w", transport.ErrInvalid, raw.Sequence, err)
	}
	if a, err := parseInboxSubject(subject); err == nil {
		subject = inboxSubject(a) // the number of partitions may have changed
	}
	m, err := encode(subject, e, true)
	if err != nil {
		return nil, err
	}
	// The event's own id cannot be used, since the server may remember it. An event that is given up again is another dead letter.
	m.Header[natsgo.MsgIdHdr] = []string{fmt.Sprintf("dead.%d.%d", raw.Sequence, raw.Time.UnixNano())}
	return m, nil
}

// RemoveDead implements [transport.DeadLetters].
func (b *Bus) RemoveDead(ctx context.Context, tenant, id string) error {
	raw, err := b.findDead(ctx, tenant, id)
	if errors.Is(err, transport.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return b.eraseMessage(ctx, deadStream, raw.Sequence)
}

// findDead returns a tenant's dead letter.
func (b *Bus) findDead(ctx context.Context, tenant, id string) (*jetstream.RawStreamMsg, error) {
	if b.isClosed() {
		return nil, transport.ErrClosed
	}
	seq, err := strconv.ParseUint(id, 10, 64)
	if err != nil || seq == 0 {
		return nil, fmt.Errorf("%w: dead letter %.40q", transport.ErrNotFound, id)
	}
	raw, err := b.message(ctx, deadStream, deadFilter(tenant), seq)
	if errors.Is(err, transport.ErrNotFound) || err == nil && raw.Sequence != seq {
		return nil, fmt.Errorf("%w: dead letter %s", transport.ErrNotFound, id)
	}
	return raw, err
}

func readDead(raw *jetstream.RawStreamMsg) *transport.DeadLetter {
	m := &natsgo.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data}
	l := &transport.DeadLetter{ID: strconv.FormatUint(raw.Sequence, 10), Time: raw.Time}
	var err error
	if l.Topic, err = parseDeadSubject(raw.Subject); err != nil {
		l.Reason = err.Error()
	}
	// The reason says what is wrong with it.
	l.Event, _ = decodeInbox(m, m.Header.Get(headerSubject))
	l.Deliveries, _ = strconv.Atoi(m.Header.Get(headerDeliveries))
	if reason := m.Header.Get(headerReason); reason != "" {
		if err := json.Unmarshal([]byte(reason), &l.Reason); err != nil {
			l.Reason = oneLine(reason, maxReason)
		}
	}
	return l
}
