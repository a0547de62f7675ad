package nats

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
)

// The headers of an event. What the subject contains (tenant and sender; in an inbox also receiver and conversation) has no header.
const (
	headerID        = "Cortex-Id"
	headerKind      = "Cortex-Kind"
	headerVersion   = "Cortex-Version" // of the kind
	headerTime      = "Cortex-Time"    // RFC 3339 with nanoseconds
	headerTask      = "Cortex-Task"
	headerDeliverAt = "Cortex-Deliver-At" // RFC 3339 with nanoseconds
	headerContext   = "Cortex-Context"    // on live topics and cards
	headerTo        = "Cortex-To"         // on live topics and cards
	headerTrace     = "traceparent"
	headerState     = "tracestate"
)

// encode encodes e, which is valid for its topic, as a message to subject.
func encode(subject string, e *transport.Event, inbox bool) (*natsgo.Msg, error) {
	kind, version, body, err := transport.EncodePayload(e.Payload)
	if err != nil {
		return nil, err
	}
	h, values := make(natsgo.Header, 8), make([]string, 0, 8) // as many as most events have; a larger map takes three times the memory
	set := func(key, value string) {
		if value != "" {
			values = append(values, value)
			h[key] = values[len(values)-1 : len(values) : len(values)]
		}
	}
	set(headerID, e.ID)
	set(headerKind, kind)
	set(headerVersion, version)
	set(headerTime, formatTime(e.Time))
	set(headerTask, string(e.TaskID))
	set(headerDeliverAt, formatTime(e.DeliverAt))
	parent, state := e.Trace()
	set(headerTrace, parent)
	set(headerState, state)
	if !inbox {
		set(headerContext, e.ContextID)
		set(headerTo, e.To)
	}
	return &natsgo.Msg{Subject: subject, Header: h, Data: body}, nil
}

// decodeHeader decodes everything but the payload. Anything in m may be a stranger's: with the first error it returns what could be read.
func decodeHeader(m *natsgo.Msg) (*transport.Event, error) {
	e := &transport.Event{
		ID: m.Header.Get(headerID), TaskID: a2a.TaskID(m.Header.Get(headerTask)),
		Traceparent: traceHeader(m, headerTrace), Tracestate: traceHeader(m, headerState),
		ContextID: m.Header.Get(headerContext), To: m.Header.Get(headerTo),
	}
	var first error
	for _, id := range []struct {
		header string
		value  *string
	}{{headerID, &e.ID}, {headerTask, (*string)(&e.TaskID)}, {headerContext, &e.ContextID}, {headerTo, &e.To}} {
		if *id.value == "" && id.header != headerID {
			continue
		}
		if err := transport.CheckID(*id.value); err != nil {
			*id.value, first = "", cmp.Or(first, fmt.Errorf("%s %w", id.header, err))
		}
	}
	e.Traceparent, e.Tracestate = e.Trace()
	for _, at := range []struct {
		header string
		value  *time.Time
	}{{headerTime, &e.Time}, {headerDeliverAt, &e.DeliverAt}} {
		text := m.Header.Get(at.header)
		if text == "" {
			continue
		}
		var err error
		if *at.value, err = time.Parse(time.RFC3339Nano, text); err != nil {
			first = cmp.Or(first, fmt.Errorf("%s: %.100q is no RFC 3339 time", at.header, text))
		}
		*at.value = at.value.UTC() // some zones can be parsed but not formatted again
	}
	return e, first
}

// inHTTP maps W3C header names to the form in which HTTP libraries write them.
var inHTTP = map[string]string{headerTrace: http.CanonicalHeaderKey(headerTrace), headerState: http.CanonicalHeaderKey(headerState)}

// traceHeader returns a W3C header in its lower-case or its HTTP form. A tracestate may have several values.
func traceHeader(m *natsgo.Msg, name string) string {
	values := m.Header.Values(name)
	if values == nil {
		values = m.Header.Values(inHTTP[name])
	}
	return strings.Join(values, ",")
}

// decodePayload decodes the body of m.
func decodePayload(m *natsgo.Msg) (transport.Payload, error) {
	var e transport.Event
	err := decodeInto(&e, m)
	return e.Payload, err
}

// decodeInto decodes the body of m into e, which keeps a reference to it.
func decodeInto(e *transport.Event, m *natsgo.Msg) error {
	if len(m.Data) > transport.MaxPayload {
		return fmt.Errorf("%w: body of %d bytes, at most %d are allowed", transport.ErrTooLarge, len(m.Data), transport.MaxPayload)
	}
	return e.Decode(m.Header.Get(headerKind), m.Header.Get(headerVersion), m.Data)
}

// decodeInbox decodes an event of an inbox. With an error it returns what could be read of the event, with an opaque payload.
func decodeInbox(m *natsgo.Msg, subject string) (*transport.Event, error) {
	e, err := decodeHeader(m)
	a, addressErr := parseInboxSubject(subject)
	e.Tenant, e.To, e.ContextID, e.From = a.tenant, a.to, a.context, a.from
	payloadErr := decodeInto(e, m)
	if payloadErr != nil {
		e.Payload = opaque(m)
	}
	if err := cmp.Or(addressErr, err, payloadErr); err != nil {
		return e, err
	}
	return e, e.Validate(transport.Inbox(a.tenant, a.to)) // a stranger's event was not validated when it was sent
}

func decodeLive(m *natsgo.Msg, t transport.Topic) (*transport.Event, error) {
	e, err := decodeHeader(m)
	if err != nil {
		return nil, err
	}
	e.Tenant = t.Tenant
	if e.From, err = parseLiveSubject(m.Subject); err != nil {
		return nil, err
	}
	if e.Payload, err = decodePayload(m); err != nil {
		return nil, err
	}
	return e, e.Validate(t)
}

func opaque(m *natsgo.Msg) *transport.Opaque {
	return &transport.Opaque{Kind: m.Header.Get(headerKind), Version: m.Header.Get(headerVersion), Data: m.Data}
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

// oneLine returns at most n bytes of s without invalid UTF-8 and with spaces for control characters, which would break a header or a log line.
func oneLine(s string, n int) string {
	s = strings.ToValidUTF8(s[:min(len(s), n)], "")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
