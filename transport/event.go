package transport

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/nesting"
)

// How many things that begin a turn or an entry of a log somebody who has proven who they are may ask of Cortex a second, and how many at once:
// requests, cancellations and shares. Whoever lets such people and agents in refuses more.
const (
	PersonWork, PersonWorkBurst = 100, 300
	AgentWork, AgentWorkBurst   = 5, 60
)

// How many bytes of these somebody may send a second by way of a program that speaks for many, and how many at once: large messages that are stored at the
// same time keep those of others waiting.
const (
	WorkBytes, WorkBytesBurst = 8 << 20, 16 << 20
)

// Limits of what Publish accepts, in bytes.
const (
	MaxText    = 1 << 20  // all text parts of a message together
	MaxCard    = 64 << 10 // an agent card as JSON
	MaxSkills  = 200      // skills of a card
	MaxPayload = 4 << 20  // any payload, encoded
	MaxWeight  = 32 << 20 // any payload, decoded, as far as that can be estimated
	MaxID      = 256      // any id
)

// Event is what a transport carries: an envelope with addresses, and one payload.
type Event struct {
	ID          string     // unique; publishing the same ID again is harmless
	Time        time.Time  // when it was made, by the sender's clock
	From        string     // agent id of the sender; the orchestrator is [Cortex], people are "user" or "user:NAME"
	To          string     // agent id of the receiver; empty on Cards and Live
	Tenant      string     // "" is the default tenant; equal to the topic's
	ContextID   string     // the conversation; required in inboxes
	TaskID      a2a.TaskID // the delegation, where there is one
	Traceparent string     // W3C trace context; optional, see Trace
	Tracestate  string     // of the trace context; only with a Traceparent, at most 512 bytes
	DeliverAt   time.Time  // inboxes only: not before this time; zero is now. Survives a restart.
	Payload     Payload

	// Delivery counts the deliveries of this event to its inbox's subscribers, from 1. The transport sets it; Publish ignores it. After a crash of the
	// server it may start again at 1.
	Delivery int
	// Epoch identifies the ownership under which an event of an ordered inbox is delivered, see [SubscribeOptions]. While it stays the same for the
	// events of a conversation, no other subscriber has handled any of them; what is cached about the conversation under another epoch may be stale. The
	// transport sets it; Publish ignores it.
	Epoch uint64
	// Stored is when the transport stored this event of an inbox, by the clock that it dates events with; zero if it does not say. It is the same at each
	// delivery. The transport sets it; Publish ignores it.
	Stored time.Time

	body    []byte  // the body of decoded, see Decode
	decoded Payload // nil: none
}

// maxDepth bounds how deep a body is nested: what keeps it puts it some levels deeper, and encoding/json decodes 10,000.
const maxDepth = 9000

// Decode sets e's payload to the result of [DecodePayload], which is an error for a body that is heavier than [MaxWeight] or nested deeper than 9,000 levels, and for a cancellation of more than 32 KiB. It keeps body, which must not be modified any more: e is encoded with body, rather than
// by encoding the payload again, as long as the payload is the decoded one.
func (e *Event) Decode(kind, version string, body []byte) error {
	if err := checkWeight(kind, body); err != nil {
		return err
	}
	if len(body) > 2*maxDepth && nesting.Depth(body) > maxDepth {
		return fmt.Errorf("%w: a %s is nested deeper than %d levels", ErrInvalid, kind, maxDepth)
	}
	p, plain, err := decodePayload(kind, version, body, true)
	if _, ok := p.(*Cancel); ok && len(body) > maxCancel {
		return fmt.Errorf("%w: %w: a cancellation has %d bytes, at most %d are allowed", ErrInvalid, ErrTooLarge, len(body), maxCancel)
	}
	if e.Payload = p; plain && len(body) <= MaxPayload {
		e.body, e.decoded = body, p
	}
	return err
}

// Validate reports whether e may be published to t: it returns nil, or an error that wraps ErrInvalid and says what is wrong. Transports call it in
// Publish; a gateway can call it earlier for a better message.
func (e *Event) Validate(t Topic) error {
	if err := e.validate(t); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

func (e *Event) validate(t Topic) error {
	for _, id := range []struct{ name, value string }{
		{"id", e.ID},
		{"from", e.From},
		{"to", e.To},
		{"tenant", e.Tenant},
		{"contextID", e.ContextID},
		{"taskID", string(e.TaskID)},
		{"topic id", t.ID},
	} {
		if id.value == "" { // checked below where it is required
			continue
		}
		if err := CheckID(id.value); err != nil {
			return fmt.Errorf("%s: %w", id.name, err)
		}
	}
	switch {
	case e.ID == "":
		return errors.New("id is empty")
	case e.From == "":
		return errors.New("from is empty")
	case e.Tenant != t.Tenant:
		return fmt.Errorf("tenant %q is not the topic's %q", e.Tenant, t.Tenant)
	case e.Payload == nil:
		return errors.New("payload is empty")
	case strings.HasPrefix(e.ContextID, controlPrefix):
		return fmt.Errorf("contextID %q begins with %q, which is kept for agents", e.ContextID, controlPrefix)
	}
	switch t.Kind {
	case KindInbox:
		if t.ID == "" || e.ContextID == "" {
			return errors.New("an inbox event needs an agent and a contextID")
		}
		if e.To != "" && e.To != t.ID {
			return fmt.Errorf("to %q is not the inbox's %q", e.To, t.ID)
		}
	case KindCards:
		switch e.Payload.(type) {
		case *Card:
		case *AgentEvent:
			if e.From != Cortex {
				return fmt.Errorf("event of an agent from %q, want it from %q", e.From, Cortex)
			}
		default:
			return fmt.Errorf("payload %T on the cards topic, want *transport.Card or *transport.AgentEvent", e.Payload)
		}
	case KindLive:
		if t.ID == "" {
			return errors.New("a live topic needs an id")
		}
	default:
		return fmt.Errorf("unknown topic kind %q", t.Kind)
	}
	if t.Kind != KindInbox && !e.DeliverAt.IsZero() {
		return errors.New("deliverAt is for inboxes only")
	}
	// It is not checked by validatePayload, since logs have longer ones.
	if x, ok := e.Payload.(*Cancel); ok {
		if err := x.validate(); err != nil {
			return err
		}
	}
	return validatePayload(e.Payload)
}

// CheckID returns an error unless id is 1 to [MaxID] bytes of printable UTF-8 without spaces.
func CheckID(id string) error {
	switch {
	case id == "":
		return errors.New("is empty")
	case len(id) > MaxID:
		return fmt.Errorf("is %d bytes long, at most %d are allowed", len(id), MaxID)
	case !utf8.ValidString(id):
		return errors.New("is not valid UTF-8")
	}
	for _, r := range id {
		if r > ' ' && r < 0x7f {
			continue
		}
		if r == ' ' || r == utf8.RuneError || !unicode.IsPrint(r) {
			return fmt.Errorf("%q has a space or a control character", id)
		}
	}
	return nil
}
