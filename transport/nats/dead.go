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

// A dead letter is the message as it was in the inbox, with these headers more.
const (
	headerSubject    = "Cortex-Subject"    // where it was
	headerReason     = "Cortex-Reason"     // the error's text, as a JSON string
	headerDeliveries = "Cortex-Deliveries" // how often it had been delivered

	maxReason   = 4 << 10  // bytes of a reason that are kept
	deadHeaders = 48 << 10 // bytes that the headers of a dead letter may have
)

// deadMessage makes a dead letter of m, which was number s in the inbox of t. A body of more than limit bytes is left out.
func deadMessage(t transport.Topic, m *natsgo.Msg, s stored, reason string, deliveries, limit int) *natsgo.Msg {
	dead := &natsgo.Msg{Subject: deadSubject(t), Header: natsgo.Header{}, Data: m.Data}
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
		quoted = []byte(`""`) // not possible for a string
	}
	dead.Header.Set(headerReason, string(quoted))
	dead.Header.Set(headerSubject, m.Subject)
	dead.Header.Set(headerDeliveries, strconv.Itoa(deliveries))
	// The same event twice, because its acknowledgement was lost, is one dead letter.
	dead.Header.Set(natsgo.MsgIdHdr, fmt.Sprintf("%d.%d", s.seq, s.at.UnixNano()))
	return dead
}

// DeadLetters implements transport.DeadLetters.
func (b *Bus) DeadLetters(ctx context.Context, tenant string) iter.Seq2[*transport.DeadLetter, error] {
	return func(yield func(*transport.DeadLetter, error) bool) {
		if b.isClosed() {
			yield(nil, transport.ErrClosed)
			return
		}
		open, cancel := context.WithTimeout(ctx, apiTimeout)
		s, err := b.js.Stream(open, deadStream)
		cancel()
		for seq := uint64(1); err == nil; {
			var m *jetstream.RawStreamMsg
			if m, err = nextDead(ctx, s, tenant, seq); err != nil {
				break
			}
			if !yield(readDead(m), nil) {
				return
			}
			seq = m.Sequence + 1
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			yield(nil, translate(err))
		}
	}
}

// nextDead returns the tenant's first dead letter at or behind seq.
func nextDead(ctx context.Context, s jetstream.Stream, tenant string, seq uint64) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	return s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(deadFilter(tenant)))
}

func readDead(raw *jetstream.RawStreamMsg) *transport.DeadLetter {
	m := &natsgo.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data}
	l := &transport.DeadLetter{Time: raw.Time}
	var err error
	if l.Topic, err = parseDeadSubject(raw.Subject); err != nil {
		l.Reason = err.Error()
	}
	// What was wrong with it is in the reason.
	l.Event, _ = decodeInbox(m, m.Header.Get(headerSubject))
	l.Deliveries, _ = strconv.Atoi(m.Header.Get(headerDeliveries))
	if reason := m.Header.Get(headerReason); reason != "" {
		if err := json.Unmarshal([]byte(reason), &l.Reason); err != nil {
			l.Reason = oneLine(reason, maxReason)
		}
	}
	return l
}
