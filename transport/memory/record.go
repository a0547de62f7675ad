package memory

import (
	"bytes"
	"sync"

	"github.com/cortex-orchestrator/cortex/transport"
)

// record is a stored event. The payload is encoded, so that publisher and subscribers do not share objects. It is immutable but for the
// payload of the envelope.
type record struct {
	envelope      transport.Event // without payload, until it is live
	kind, version string
	body          []byte
	begins        bool // new work, see [transport.BeginsWork]

	// Of a card; set before it is shared.
	card cardKey
	gone bool

	once sync.Once // see live
}

// newWork reports whether r is refused when inbox t is full: a request or a share to the orchestrator. Everything else, such as tasks, results, deadlines and
// cancellations, belongs to accepted work.
func (r *record) newWork(t transport.Topic) bool { return r.begins && t.ID == transport.Cortex }

func encode(e *transport.Event) (*record, error) {
	kind, version, body, err := transport.EncodePayload(e.Payload)
	if err != nil {
		return nil, err
	}
	if _, ok := e.Payload.(*transport.Opaque); ok {
		body = bytes.Clone(body) // an Opaque's data is not encoded, and belongs to the caller
	}
	r := &record{envelope: *e, kind: kind, version: version, body: body}
	r.begins = transport.BeginsWork(e)
	r.envelope.Payload, r.envelope.Delivery = nil, 0
	// As on a wire: without time zone and monotonic clock reading.
	r.envelope.Time = e.Time.Round(0).UTC()
	r.envelope.Traceparent, r.envelope.Tracestate = e.Trace()
	r.envelope.DeliverAt = e.DeliverAt.Round(0).UTC()
	return r, nil
}

// decode returns a new event. With an error, its payload is an Opaque.
func (r *record) decode() (*transport.Event, error) {
	e := r.envelope
	err := e.Decode(r.kind, r.version, r.body)
	if err != nil {
		e.Payload = r.opaque()
	}
	return &e, err
}

// opaque returns the payload of an event that cannot be decoded.
func (r *record) opaque() transport.Payload {
	return &transport.Opaque{Kind: r.kind, Version: r.version, Data: bytes.Clone(r.body)}
}

// live is decode for a live topic, whose subscribers share the payload, without an error.
func (r *record) live() *transport.Event {
	r.once.Do(func() {
		if r.envelope.Decode(r.kind, r.version, r.body) != nil {
			r.envelope.Payload = r.opaque()
		}
	})
	e := r.envelope
	return &e
}
