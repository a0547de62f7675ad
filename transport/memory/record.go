package memory

import (
	"bytes"

	"github.com/cortex-orchestrator/cortex/transport"
)

// record is an event as it is kept: the payload is encoded, so that no two hold the same object. It never changes.
type record struct {
	envelope      transport.Event // without payload
	kind, version string
	body          []byte
	words         bool // a request

	// Of a card; set before it is shared.
	card cardKey
	gone bool
}

// newWork reports whether r, in inbox t, is what is refused when the inbox is full: words to the orchestrator. All else, such as
// tasks, results, deadlines and cancellations, belongs to work that was taken.
func (r *record) newWork(t transport.Topic) bool { return r.words && t.ID == transport.Cortex }

func encode(e *transport.Event) (*record, error) {
	kind, version, body, err := transport.EncodePayload(e.Payload)
	if err != nil {
		return nil, err
	}
	if _, ok := e.Payload.(*transport.Opaque); ok {
		body = bytes.Clone(body) // its data is not encoded, it is the caller's own
	}
	r := &record{envelope: *e, kind: kind, version: version, body: body}
	_, r.words = transport.Request(e)
	r.envelope.Payload, r.envelope.Delivery = nil, 0
	// As on a wire: no zone, no reading of a monotonic clock.
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
		e.Payload = &transport.Opaque{Kind: r.kind, Version: r.version, Data: bytes.Clone(r.body)}
	}
	return &e, err
}
