package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Client asks Cortex in conversations. Its fields are set before the first call and not changed later; its methods are then safe for concurrent
// use. Only Transport is required.
type Client struct {
	Transport transport.Transport
	Tenant    string
	User      string           // the default sender; "" means "user"
	NewID     func() string    // makes ids of messages, events and conversations; nil: random
	Now       func() time.Time // nil: time.Now

	// TimeZone and Locale are the user's, and go with each message: an IANA name such as Europe/Berlin, and a BCP 47 tag such as de-DE. "": not known.
	TimeZone, Locale string

	// Log reads the answer to a turn, or why its message was refused, from the store; false while there is neither. See [ReadLog]. With nil,
	// only the live answer is received, and a lost one is not recovered.
	Log func(context.Context, Turn) (*a2a.Message, bool, error)

	// Admit, if not nil, says whether a sender may send another message or cancellation, of so many bytes, now: a program that speaks for many people
	// bounds what each of them asks of Cortex. Its errors are returned.
	Admit func(from string, size int) error
	// OnSend, if not nil, is called with each message just before it is published.
	OnSend func(*transport.Event)
	// OnSent, if not nil, is called with each message as soon as the transport has stored it, before the first event of its turn is yielded.
	OnSent func(*transport.Event)

	// Poll is the time after which Log is called while a turn lasts, and then after twice as long each time, up to four times Poll; 0 means 2 s.
	Poll time.Duration
	// Grace is how long a canceled turn waits for its answer; 0 means 2 s.
	Grace time.Duration
}

// Message is what a user says in a conversation. ContextID and Parts are required.
type Message struct {
	ContextID string // a new id begins a conversation
	ID        string // "" makes one; the same id and sender again are the same turn
	From      string // "" means Client.User
	Parts     a2a.ContentParts
	// To is the agent that the message names; nil: Cortex decides.
	To *transport.Direct
	// ReplyTo is the id of the turn that the message replies to, see [Client.ID]: a yes then counts for the question of that turn only, and is
	// refused when nothing waits for it any more. With [transport.ReplyToNone] it is a yes to nothing, and with "" to the open question.
	ReplyTo string
	// Metadata is sent with the message.
	Metadata map[string]any
}

// Text returns a message with a single text.
func Text(contextID, text string) *Message {
	return &Message{ContextID: contextID, Parts: a2a.ContentParts{a2a.NewTextPart(text)}}
}

// Turn identifies what a message has begun. It can be stored, and watched by another process.
type Turn struct {
	ContextID string `json:"contextId"`
	From      string `json:"from"`
	MessageID string `json:"messageId"`
}

// ErrUnsent is wrapped by errors of a message that was not sent, as far as the client can tell. The client does not retry; a caller that does
// uses the same ID.
var ErrUnsent = errors.New("send the message")

// Send sends m and returns the turn that it begins, as soon as the transport has stored the message. Errors wrap
// [transport.ErrInvalid] when m is invalid, and [ErrUnsent] when publishing it fails.
func (c *Client) Send(ctx context.Context, m *Message) (Turn, error) {
	msg, err := c.message(ctx, m)
	if err != nil {
		return Turn{}, err
	}
	return turnOf(msg), c.send(ctx, msg)
}

// Reply sends a message in the conversation of a turn, as the sender of that turn: the reply to its question, of Cortex or an agent. It begins
// a new turn.
func (c *Client) Reply(ctx context.Context, t Turn, parts ...*a2a.Part) (Turn, error) {
	return c.Send(ctx, &Message{ContextID: t.ContextID, From: t.From, Parts: parts, ReplyTo: c.ID(t)})
}

// Cancel asks Cortex to stop what x names in the conversation: a task, a turn (see [Client.ID]), or everything open.
func (c *Client) Cancel(ctx context.Context, contextID string, x transport.Cancel) error {
	return c.cancel(ctx, contextID, c.user(), x)
}

// ID returns the id that Cortex uses for a turn.
func (c *Client) ID(t Turn) string {
	return transport.TurnID(c.Tenant, t.ContextID, t.From, t.MessageID)
}

func (c *Client) cancel(ctx context.Context, contextID, from string, x transport.Cancel) error {
	if c.Admit != nil {
		if err := c.Admit(from, 0); err != nil {
			return fmt.Errorf("cancel: %w", err)
		}
	}
	e := c.event(contextID, from, &x)
	e.TaskID = x.TaskID
	// The inbox is reliable but waits for the event that the conversation is handling; the control topic interrupts that. It is published
	// first, or it could interrupt a decision made after the cancellation.
	_ = c.Transport.Publish(ctx, transport.Control(c.Tenant, transport.Cortex), e) // best effort
	if err := c.Transport.Publish(ctx, transport.Inbox(c.Tenant, transport.Cortex), e); err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return nil
}

// send publishes the event that message has made.
func (c *Client) send(ctx context.Context, msg *transport.Event) error {
	if c.OnSend != nil {
		c.OnSend(msg)
	}
	if err := c.Transport.Publish(ctx, transport.Inbox(c.Tenant, transport.Cortex), msg); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsent, err)
	}
	if c.OnSent != nil {
		c.OnSent(msg)
	}
	return nil
}

// Check returns the error with which [Client.Send] would refuse m before it sends or stores anything; it wraps transport.ErrInvalid. A caller
// that stores files for a message itself, as with [Attach], checks the message first.
func (c *Client) Check(m *Message) error {
	e, _, err := c.buildEvent(m)
	if err != nil {
		return err
	}
	if _, _, _, err := transport.EncodePayload(e.Payload); err != nil {
		return err
	}
	return c.valid(e)
}

// message returns the event for m, or an error that wraps transport.ErrInvalid, or [ErrUnsent] when Admit refuses it. It stores files that do not fit
// into the message with the transport, and may return the transport's errors; for an invalid or refused message it stores nothing.
func (c *Client) message(ctx context.Context, m *Message) (*transport.Event, error) {
	e, said, err := c.buildEvent(m)
	if err != nil {
		return nil, err
	}
	admit := func() error {
		if err := c.valid(e); err != nil || c.Admit == nil {
			return err
		}
		_, _, text, err := transport.EncodePayload(said)
		if err != nil {
			return err
		}
		if err := c.Admit(e.From, len(text)); err != nil {
			return fmt.Errorf("%w: %w", ErrUnsent, err)
		}
		return nil
	}
	files, ok := c.Transport.(transport.Files)
	if !ok {
		return e, admit()
	}
	_, err = transport.PackFiles(ctx, files, c.Tenant, m.ContextID, c.user(), said.Parts, func(parts a2a.ContentParts) error {
		said.Parts = parts
		if slices.ContainsFunc(parts, transport.IsFileRef) {
			if _, _, _, err := transport.EncodePayload(said); err != nil {
				return err
			}
		}
		return admit()
	})
	return e, err
}

// buildEvent returns the event for m, with its files as they are, and the event's payload.
func (c *Client) buildEvent(m *Message) (*transport.Event, *a2a.Message, error) {
	if m.ContextID == "" {
		return nil, nil, fmt.Errorf("%w: no conversation to speak in", transport.ErrInvalid)
	}
	said := &a2a.Message{Role: a2a.MessageRoleUser, ContextID: m.ContextID, Parts: slices.Clone(m.Parts), Metadata: maps.Clone(m.Metadata)}
	if isEmpty(said.Parts) {
		return nil, nil, fmt.Errorf("%w: message is empty", transport.ErrInvalid)
	}
	if m.To != nil {
		if err := m.To.Address(said); err != nil {
			return nil, nil, err
		}
	}
	if m.ReplyTo != "" {
		if said.Metadata == nil {
			said.Metadata = make(map[string]any)
		}
		said.Metadata[transport.MetaReplyTo] = m.ReplyTo
	}
	for key, value := range map[string]string{transport.MetaTimeZone: c.TimeZone, transport.MetaLocale: c.Locale} {
		if _, given := said.Metadata[key]; !given && value != "" {
			if said.Metadata == nil {
				said.Metadata = make(map[string]any)
			}
			said.Metadata[key] = value
		}
	}
	from := m.From
	from = cmp.Or(from, c.user())
	if conversation.IsAgent(from) {
		if said.Metadata == nil {
			said.Metadata = make(map[string]any)
		}
		said.Metadata[transport.MetaByClient] = true
	}
	e := c.event(m.ContextID, from, said)
	if m.ID != "" {
		e.ID = m.ID
	}
	e.To, said.ID = transport.Cortex, e.ID
	return e, said, nil
}

func (c *Client) valid(e *transport.Event) error {
	return e.Validate(transport.Inbox(c.Tenant, transport.Cortex))
}

// isEmpty reports whether parts contain only blank text.
func isEmpty(parts a2a.ContentParts) bool {
	return !slices.ContainsFunc(parts, func(p *a2a.Part) bool {
		if p == nil {
			return false
		}
		text, ok := p.Content.(a2a.Text)
		return !ok || strings.TrimSpace(string(text)) != ""
	})
}

// turnOf returns the turn that an event of message begins.
func turnOf(msg *transport.Event) Turn { return Turn{msg.ContextID, msg.From, msg.ID} }

func (c *Client) event(contextID, from string, p transport.Payload) *transport.Event {
	return &transport.Event{ID: c.NextID(), Time: c.Clock(), From: from, Tenant: c.Tenant, ContextID: contextID, Payload: p}
}

func (c *Client) user() string {
	return cmp.Or(c.User, "user")
}

// NextID makes an id, such as for a new conversation.
func (c *Client) NextID() string {
	if c.NewID != nil {
		return c.NewID()
	}
	return a2a.NewMessageID()
}

// Clock returns the current time, from Now if that is set.
func (c *Client) Clock() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}
