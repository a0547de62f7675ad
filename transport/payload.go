package transport

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// Payload is what an Event is about, one of:
//
//   - *a2a.Message: a user's words to [Cortex], a task to an agent, an answer
//   - *a2a.Task: an agent's result (terminal or input-required); on Live also: a delegation was made
//   - *a2a.TaskStatusUpdateEvent, *a2a.TaskArtifactUpdateEvent: progress
//   - *[Card], *[Synced]: on Cards
//   - *[Deadline], *[Cancel]: to [Cortex] and to agents
//   - *[Delta]: on Live, text while it is written
//   - *[Opaque]: anything else, as it came
//
// It is any, not a sealed interface, because the types of A2A are used as they are, and Go cannot add a method to them;
// [Event.Validate] refuses every other type.
type Payload any

// Card announces one running instance of an agent, or says that it has gone.
type Card struct {
	// AgentID is the agent's address: the name on its card. [Cortex] is kept for orchestrators, which say by a card that
	// they run.
	AgentID string `json:"agentId"`
	// Instance tells several processes of one agent apart.
	Instance string `json:"instance"`
	// Card is the agent's A2A card. It may be nil when Gone is set.
	Card *a2a.AgentCard `json:"card,omitempty"`
	// TTL is how long the announcement holds unless it is published again, at least one second; 0 is for ever.
	TTL time.Duration `json:"ttl,omitempty"`
	// Draining says that the instance finishes what it has and takes nothing new.
	Draining bool `json:"draining,omitempty"`
	// Gone is empty for an announcement. Publishing a card with [GoneLeft] removes it; subscribers get GoneLeft or
	// [GoneExpired].
	Gone GoneReason `json:"gone,omitempty"`
}

// GoneReason says why a card is no longer there.
type GoneReason string

// The ways in which an agent instance goes.
const (
	GoneLeft    GoneReason = "left"    // it said so
	GoneExpired GoneReason = "expired" // its TTL passed
)

// Synced is delivered once to every subscriber of Cards, after the cards that were retained when it subscribed.
type Synced struct{}

// Deadline tells the orchestrator that the time of a conversation's earliest deadline has come.
type Deadline struct {
	At time.Time `json:"at"`
}

// Cancel asks to stop: one task, one turn, or, with both empty, everything open in the event's conversation.
type Cancel struct {
	TaskID a2a.TaskID `json:"taskId,omitempty"`
	Turn   string     `json:"turn,omitempty"` // id of the user's message that began the turn
	Reason string     `json:"reason,omitempty"`
}

// Delta is a piece of an answer while it is being written. It is provisional: when the attempt changes, text of the
// earlier attempt is void; the answer itself comes as a Message.
type Delta struct {
	Turn    string `json:"turn"`    // id of the user's message that is being answered
	Attempt string `json:"attempt"` // changes when the writing starts again
	Text    string `json:"text"`
}

// Opaque is a payload whose kind or version this build does not know, or that could not be read. Data is unchanged.
type Opaque struct {
	Kind    string // as on the wire
	Version string // as on the wire
	Data    []byte
}

// PayloadVersion is the version of the payload kinds below on the wire.
const PayloadVersion = "1"

// PayloadKind returns the name of p's kind on the wire, or false for a type that is no payload.
func PayloadKind(p Payload) (kind string, ok bool) {
	switch p := p.(type) {
	case *a2a.Message:
		return "message", p != nil
	case *a2a.Task:
		return "task", p != nil
	case *a2a.TaskStatusUpdateEvent:
		return "status-update", p != nil
	case *a2a.TaskArtifactUpdateEvent:
		return "artifact-update", p != nil
	case *Card:
		return "card", p != nil
	case *Synced:
		return "synced", p != nil
	case *Deadline:
		return "deadline", p != nil
	case *Cancel:
		return "cancel", p != nil
	case *Delta:
		return "delta", p != nil
	case *Opaque:
		if p == nil {
			return "", false
		}
		return p.Kind, true
	}
	return "", false
}

// EncodePayload returns p's kind and version for an envelope, and its body: the object as JSON, the data of an Opaque as
// it is. Errors wrap ErrInvalid or ErrTooLarge.
func EncodePayload(p Payload) (kind, version string, body []byte, err error) {
	kind, ok := PayloadKind(p)
	if !ok {
		return "", "", nil, fmt.Errorf("%w: %T is no payload", ErrInvalid, p)
	}
	if o, ok := p.(*Opaque); ok {
		version, body = o.Version, o.Data
	} else {
		version = PayloadVersion
		if body, err = json.Marshal(p); err != nil {
			return "", "", nil, fmt.Errorf("%w: encode %s: %w", ErrInvalid, kind, err)
		}
	}
	if len(body) > MaxPayload {
		return "", "", nil, fmt.Errorf("%w: %w: the %s is %d bytes, at most %d are allowed", ErrInvalid, ErrTooLarge, kind, len(body), MaxPayload)
	}
	return kind, version, body, nil
}

// DecodePayload reads what EncodePayload wrote. An unknown kind or version gives an *Opaque and no error; a body that is
// not what its kind says gives an error that wraps ErrInvalid. body is not retained.
func DecodePayload(kind, version string, body []byte) (Payload, error) {
	var p Payload
	if version == PayloadVersion {
		switch kind {
		case "message":
			p = new(a2a.Message)
		case "task":
			p = new(a2a.Task)
		case "status-update":
			p = new(a2a.TaskStatusUpdateEvent)
		case "artifact-update":
			p = new(a2a.TaskArtifactUpdateEvent)
		case "card":
			p = new(Card)
		case "synced":
			p = new(Synced)
		case "deadline":
			p = new(Deadline)
		case "cancel":
			p = new(Cancel)
		case "delta":
			p = new(Delta)
		}
	}
	if p == nil {
		return &Opaque{Kind: kind, Version: version, Data: append([]byte(nil), body...)}, nil
	}
	if err := json.Unmarshal(body, p); err != nil {
		return nil, fmt.Errorf("%w: decode %s: %w", ErrInvalid, kind, err)
	}
	if err := validatePayload(p); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return p, nil
}

func validatePayload(p Payload) error {
	if _, ok := PayloadKind(p); !ok {
		return fmt.Errorf("%T is no payload", p)
	}
	switch p := p.(type) {
	case *a2a.Message:
		return validateMessage(p)
	case *a2a.Task:
		return validateTask(p)
	case *a2a.TaskStatusUpdateEvent:
		return validateStatus(p.Status)
	case *a2a.TaskArtifactUpdateEvent:
		return validateArtifact(p.Artifact)
	case *Card:
		return p.validate()
	case *Opaque:
		for _, s := range []string{p.Kind, p.Version} {
			if err := CheckID(s); s != "" && err != nil {
				return fmt.Errorf("opaque payload: kind or version %w", err)
			}
		}
	}
	return nil
}

func validateTask(t *a2a.Task) error {
	if t.ID == "" {
		return errors.New("task without id")
	}
	for _, m := range t.History {
		if m == nil {
			return errors.New("task with an empty place in its history")
		}
		if err := validateContents("history", m.Parts); err != nil {
			return err
		}
	}
	for _, a := range t.Artifacts {
		if err := validateArtifact(a); err != nil {
			return err
		}
	}
	return validateStatus(t.Status)
}

func validateStatus(s a2a.TaskStatus) error {
	if s.Message != nil {
		if err := validateContents("status", s.Message.Parts); err != nil {
			return err
		}
	}
	return validateState(s.State)
}

func validateArtifact(a *a2a.Artifact) error {
	if a == nil {
		return errors.New("artifact is missing")
	}
	return validateContents("artifact", a.Parts)
}

// validateContents refuses the parts that a2a writes but cannot read.
func validateContents(what string, parts a2a.ContentParts) error {
	for _, part := range parts {
		ok := part != nil
		if ok {
			switch c := part.Content.(type) {
			case nil:
				ok = false
			case a2a.Raw:
				ok = c != nil
			case a2a.Data:
				ok = c.Value != nil
			case a2a.URL:
				ok = c != ""
			}
		}
		if !ok {
			return fmt.Errorf("%s has a part without content", what)
		}
	}
	return nil
}

func validateMessage(m *a2a.Message) error {
	if err := validateContents("message", m.Parts); err != nil {
		return err
	}
	size, blank := 0, true
	for _, part := range m.Parts {
		text, ok := part.Content.(a2a.Text)
		if !ok {
			blank = false
			continue
		}
		if !utf8.ValidString(string(text)) {
			return errors.New("message is not valid UTF-8")
		}
		size += len(text)
		blank = blank && len(text) == 0
	}
	switch {
	case blank:
		return errors.New("message is empty")
	case size > MaxText:
		return fmt.Errorf("%w: message is %d bytes, at most %d are allowed", ErrTooLarge, size, MaxText)
	}
	return nil
}

// validateState exists because a2a parses any string as a state.
func validateState(s a2a.TaskState) error {
	switch s {
	case a2a.TaskStateAuthRequired, a2a.TaskStateCanceled, a2a.TaskStateCompleted, a2a.TaskStateFailed, a2a.TaskStateInputRequired,
		a2a.TaskStateRejected, a2a.TaskStateSubmitted, a2a.TaskStateWorking:
		return nil
	}
	return fmt.Errorf("unknown task state %.40q", s)
}

func (c *Card) validate() error {
	if err := CheckID(c.AgentID); err != nil {
		return fmt.Errorf("card: name %w", err)
	}
	if err := CheckID(c.Instance); err != nil {
		return fmt.Errorf("card of %s: instance %w", c.AgentID, err)
	}
	switch c.Gone {
	case GoneLeft, GoneExpired:
		if c.Card != nil {
			return ValidateCard(c.Card)
		}
		return nil
	case "":
	default:
		return fmt.Errorf("card of %s: unknown reason %.40q for going", c.AgentID, c.Gone)
	}
	if c.Card == nil {
		return fmt.Errorf("card of %s is missing", c.AgentID)
	}
	if c.TTL < 0 || (c.TTL > 0 && c.TTL < time.Second) {
		return fmt.Errorf("card of %s: ttl %v is under one second", c.AgentID, c.TTL)
	}
	return ValidateCard(c.Card)
}

// AgentID returns the address of an agent with this name on its card: the name itself where it is a legal id, else the
// name with each run of spaces as one "_" and without control characters. It fails when nothing is left or it is too long.
func AgentID(name string) (string, error) {
	if CheckID(name) == nil {
		return name, nil
	}
	clean := strings.Map(func(r rune) rune {
		if r != utf8.RuneError && (unicode.IsSpace(r) || unicode.IsGraphic(r)) {
			return r
		}
		return -1
	}, name)
	id := strings.Join(strings.Fields(clean), "_")
	if err := CheckID(id); err != nil {
		return "", fmt.Errorf("name %w", err)
	}
	return id, nil
}

// ValidateCard returns what is wrong with an agent's card, or nil: it needs a name that gives an [AgentID], at most
// [MaxSkills] skills, each with an id or a name, and at most [MaxCard] bytes of JSON. What its texts say is not judged here:
// they are a stranger's words wherever they are shown.
func ValidateCard(c *a2a.AgentCard) error {
	if strings.TrimSpace(c.Name) == "" {
		return errors.New("card has no name")
	}
	if _, err := AgentID(c.Name); err != nil {
		return fmt.Errorf("card: %w", err)
	}
	if len(c.Skills) > MaxSkills {
		return fmt.Errorf("card of %s: %w: %d skills, at most %d are allowed", c.Name, ErrTooLarge, len(c.Skills), MaxSkills)
	}
	for i, s := range c.Skills {
		if s.ID == "" && s.Name == "" {
			return fmt.Errorf("card of %s: skill %d has neither id nor name", c.Name, i+1)
		}
	}
	b, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("card of %s: %w", c.Name, err)
	}
	if len(b) > MaxCard {
		return fmt.Errorf("card of %s: %w: %d bytes, at most %d are allowed", c.Name, ErrTooLarge, len(b), MaxCard)
	}
	return nil
}
