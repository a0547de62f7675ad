package transport

import (
	"encoding/json"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// eventJSON is the JSON form of a whole Event: in a conversation's log, in dead letters, and in JSON lines for scripts. Transports carry the same
// fields in headers.
type eventJSON struct {
	ID          string          `json:"id"`
	Time        time.Time       `json:"time"`
	From        string          `json:"from"`
	To          string          `json:"to,omitempty"`
	Tenant      string          `json:"tenant,omitempty"`
	ContextID   string          `json:"contextId,omitempty"`
	TaskID      a2a.TaskID      `json:"taskId,omitempty"`
	Traceparent string          `json:"traceparent,omitempty"`
	Tracestate  string          `json:"tracestate,omitempty"`
	DeliverAt   *time.Time      `json:"deliverAt,omitempty"`
	Kind        string          `json:"kind"`
	Version     string          `json:"v"`
	Payload     json.RawMessage `json:"payload,omitempty"`
	Data        []byte          `json:"data,omitzero"` // of an Opaque: present even when empty
}

// MarshalJSON encodes e with its payload, without Delivery.
func (e *Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// AppendJSON appends the result of MarshalJSON.
func (e *Event) AppendJSON(to []byte) ([]byte, error) {
	kind, ok := PayloadKind(e.Payload)
	version, body := PayloadVersion, e.body
	if !ok || body == nil || e.Payload != e.decoded {
		var err error
		if kind, version, body, err = encodePayload(e.Payload); err != nil {
			return nil, err
		}
	}
	j := eventJSON{
		ID: e.ID, Time: e.Time, From: e.From, To: e.To, Tenant: e.Tenant, ContextID: e.ContextID, TaskID: e.TaskID,
		Kind: kind, Version: version,
	}
	j.Traceparent, j.Tracestate = e.Trace()
	if !e.DeliverAt.IsZero() {
		j.DeliverAt = &e.DeliverAt
	}
	if _, ok := e.Payload.(*Opaque); ok {
		j.Data = append([]byte{}, body...)
	} else {
		j.Payload = body
	}
	return appendJSON(to, &j)
}

// UnmarshalJSON decodes the result of MarshalJSON. A payload of unknown kind or version becomes an [Opaque].
func (e *Event) UnmarshalJSON(b []byte) error {
	var j eventJSON
	if !readPlain(b, &j, false) || j.Data != nil || newPayload(j.Kind, j.Version) == nil { // otherwise DecodePayload checks all of it
		j = eventJSON{}
		if err := json.Unmarshal(b, &j); err != nil {
			return err
		}
	}
	var p Payload = &Opaque{Kind: j.Kind, Version: j.Version, Data: j.Data}
	if j.Data == nil {
		var err error
		if p, err = DecodePayload(j.Kind, j.Version, j.Payload); err != nil {
			return err
		}
	}
	*e = Event{
		ID: j.ID, Time: j.Time, From: j.From, To: j.To, Tenant: j.Tenant, ContextID: j.ContextID, TaskID: j.TaskID,
		Traceparent: j.Traceparent, Tracestate: j.Tracestate, Payload: p,
	}
	e.Traceparent, e.Tracestate = e.Trace()
	if j.DeliverAt != nil {
		e.DeliverAt = *j.DeliverAt
	}
	return nil
}
