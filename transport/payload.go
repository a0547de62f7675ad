package transport

import (
	"fmt"
	"reflect"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/nesting"
	"github.com/cortex-orchestrator/cortex/internal/size"
)

// Payload is the content of an Event, one of:
//
//   - *a2a.Message: a user's message to [Cortex], a task for an agent, an answer
//   - *a2a.Task: an agent's result (terminal or input-required); on Live also: a delegation was made
//   - *a2a.TaskStatusUpdateEvent, *a2a.TaskArtifactUpdateEvent: progress; in Cortex's inbox, a task that is working moves its
//     deadline
//   - *[Card], *[Synced], *[AgentEvent]: on Cards; an AgentEvent also from Cortex to itself
//   - *[Deadline], *[Cancel]: to [Cortex] and to agents
//   - *[Share]: to [Cortex]
//   - *[Forget]: to [Cortex] and, without AgentID, to agents, on their control topics
//   - *[Delta]: on Live, text as it is written
//   - *[Post], *[ReadBoard]: to [Cortex]; *[Board]: to agents, on their control topics
//   - *[Tender]: to agents, on their control topics; *[Bid]: to [Cortex], on its control topic
//   - *[Opaque]: anything else, unchanged
//
// Values in metadata and in data parts are those of encoding/json, except that a number that a float64 cannot represent is a [encoding/json.Number]:
// see [DecodeValue].
//
// The payload of a received event must not be modified: the event may be encoded with the body from which the payload was decoded.
//
// It is any, not a sealed interface, because it includes types of A2A, to which Go cannot add a method; [Event.Validate] rejects all other types.
type Payload any

// Deadline tells the orchestrator that the earliest deadline of a conversation has passed.
type Deadline struct {
	At time.Time `json:"at"`
}

// Cancel requests to stop one task, one turn, or, with both empty, everything open in the event's conversation.
type Cancel struct {
	TaskID a2a.TaskID `json:"taskId,omitempty"` // at most [MaxID] bytes, as Turn
	Turn   string     `json:"turn,omitempty"`   // see [TurnID]
	Reason string     `json:"reason,omitempty"` // at most [MaxCancelReason] bytes
}

// MaxCancelReason bounds Cancel.Reason, in bytes: a cancellation is taken however little room there is.
const MaxCancelReason = 4 << 10

// maxCancel bounds the body of a cancellation: each byte of its fields may be escaped to six, and a stranger may add fields that nobody reads.
const maxCancel = 32 << 10

func (c *Cancel) validate() error {
	for _, id := range []string{string(c.TaskID), c.Turn} {
		if err := CheckID(id); id != "" && err != nil {
			return fmt.Errorf("cancellation: id %w", err)
		}
	}
	if len(c.Reason) > MaxCancelReason {
		return fmt.Errorf("the reason of a cancellation is %d bytes long, at most %d are allowed: shorten it", len(c.Reason), MaxCancelReason)
	}
	return nil
}

// Forget tells orchestrators, on their control topic, that the evidence about an agent has changed in the store, or, without AgentID, that the
// event's conversation no longer exists. The latter tells agents that have worked for the conversation to erase what they keep of it.
type Forget struct {
	AgentID string `json:"agentId,omitempty"`
}

// Delta is a piece of an answer as it is written. It is provisional: when the attempt changes, the text of the earlier attempt is void; the answer
// itself comes as a Message.
type Delta struct {
	Turn    string `json:"turn"`    // the turn that is being answered, see [TurnID]
	Attempt string `json:"attempt"` // changes when the answer is started again
	Text    string `json:"text"`
}

// Opaque is a payload whose kind or version is unknown to this version, or that could not be decoded. Data is unchanged.
type Opaque struct {
	Kind    string // as on the wire
	Version string // as on the wire
	Data    []byte
}

// PayloadVersion is the version of the payload kinds below on the wire.
const PayloadVersion = "1"

// payloads makes an empty payload of each kind that has a name on the wire.
var payloads = map[string]func() Payload{
	"message":         func() Payload { return new(a2a.Message) },
	"task":            func() Payload { return new(a2a.Task) },
	"status-update":   func() Payload { return new(a2a.TaskStatusUpdateEvent) },
	"artifact-update": func() Payload { return new(a2a.TaskArtifactUpdateEvent) },
	"card":            func() Payload { return new(Card) },
	"synced":          func() Payload { return new(Synced) },
	"agent-event":     func() Payload { return new(AgentEvent) },
	"deadline":        func() Payload { return new(Deadline) },
	"cancel":          func() Payload { return new(Cancel) },
	"share":           func() Payload { return new(Share) },
	"forget":          func() Payload { return new(Forget) },
	"delta":           func() Payload { return new(Delta) },
	"tender":          func() Payload { return new(Tender) },
	"bid":             func() Payload { return new(Bid) },
	"post":            func() Payload { return new(Post) },
	"read-board":      func() Payload { return new(ReadBoard) },
	"board":           func() Payload { return new(Board) },
}

// kinds maps the types of payloads to their names.
var kinds = func() map[reflect.Type]string {
	m := map[reflect.Type]string{}
	for kind, payload := range payloads {
		m[reflect.TypeOf(payload())] = kind
	}
	return m
}()

// PayloadKind returns the name of p's kind on the wire, or false for a type that is no payload.
func PayloadKind(p Payload) (kind string, ok bool) {
	if o, isOpaque := p.(*Opaque); isOpaque && o != nil {
		return o.Kind, true
	}
	kind, ok = kinds[reflect.TypeOf(p)]
	return kind, ok && !reflect.ValueOf(p).IsNil()
}

// EncodePayload returns p's kind and version for an envelope, and its body: the value as JSON, or the data of an Opaque unchanged. Errors wrap
// ErrInvalid or ErrTooLarge.
func EncodePayload(p Payload) (kind, version string, body []byte, err error) {
	kind, version, body, err = encodePayload(p)
	if len(body) > MaxPayload {
		return "", "", nil, fmt.Errorf("%w: %w: the %s is %d bytes, at most %d are allowed", ErrInvalid, ErrTooLarge, kind, len(body), MaxPayload)
	}
	if err == nil {
		err = checkWeight(kind, body)
	}
	return kind, version, body, err
}

// lightBody is the size, in bytes, up to which no body is heavier than MaxWeight, so that it need not be looked at.
const lightBody = 64 << 10

// checkWeight returns an error for a body that would take too much memory when it is decoded. What is stored already is read, whatever it weighs.
func checkWeight(kind string, body []byte) error {
	if len(body) <= lightBody || !KnownKind(kind) {
		return nil
	}
	if w := nesting.Weight(body); w > MaxWeight {
		return fmt.Errorf("%w: %w: the %s has so many values that it takes about %s of memory, at most %s are allowed: send a file instead", ErrInvalid, ErrTooLarge, kind,
			size.Text(int64(w)), size.Text(MaxWeight))
	}
	return nil
}

// encodePayload is EncodePayload without the size limit: where an event is stored, a body with other escapes may be larger than on the wire.
func encodePayload(p Payload) (kind, version string, body []byte, err error) {
	kind, ok := PayloadKind(p)
	if !ok {
		return "", "", nil, fmt.Errorf("%w: %T is no payload", ErrInvalid, p)
	}
	if o, ok := p.(*Opaque); ok {
		version, body = o.Version, o.Data
	} else {
		version = PayloadVersion
		if body, err = marshal(p); err != nil {
			return "", "", nil, fmt.Errorf("%w: encode %s: %w", ErrInvalid, kind, err)
		}
	}
	return kind, version, body, nil
}

// DecodePayload decodes the result of EncodePayload. An unknown kind or version gives an *Opaque and no error; a body that does not match its kind
// gives an error that wraps ErrInvalid. body is not retained.
func DecodePayload(kind, version string, body []byte) (Payload, error) {
	p, _, err := decodePayload(kind, version, body, false)
	return p, err
}

// decodePayload also reports whether body is plain. kept says that body will not be modified.
func decodePayload(kind, version string, body []byte, kept bool) (p Payload, plain bool, err error) {
	if p = newPayload(kind, version); p == nil {
		return &Opaque{Kind: kind, Version: version, Data: append([]byte(nil), body...)}, false, nil
	}
	if plain = readPlain(body, p, kept); !plain {
		if p, err = unmarshal(kind, version, body); err != nil {
			return nil, false, fmt.Errorf("%w: decode %s: %w", ErrInvalid, kind, err)
		}
	}
	if err := validatePayload(p); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return p, plain, nil
}

// KnownKind reports whether this version knows payloads of a kind.
func KnownKind(kind string) bool { return newPayload(kind, PayloadVersion) != nil }

// newPayload returns an empty payload of a kind, or nil for one that this version does not know.
func newPayload(kind, version string) Payload {
	payload := payloads[kind]
	if payload == nil || version != PayloadVersion {
		return nil
	}
	return payload()
}
