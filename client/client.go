package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Client is one side of conversations with Cortex. Its fields are set before the first call and not changed after; its methods are then safe
// for concurrent use. Only Transport is required.
type Client struct {
	Transport transport.Transport
	Tenant    string
	User      string           // who speaks where a message does not say; "" is "user"
	NewID     func() string    // makes ids of messages, events and conversations; nil: random
	Now       func() time.Time // nil: time.Now

	// Log reads the answer to a turn from where it is kept, or why the message was refused; false while there is neither. See [ReadLog]. nil:
	// the live answer is all there is, and one that was lost does not come.
	Log func(context.Context, Turn) (*a2a.Message, bool, error)

	// Said, if not nil, is called with what is said just before it is published.
	Said func(*transport.Event)

	// Poll is how often Log is asked while a turn lasts; 0 is 2 s.
	Poll time.Duration
	// Grace is how long a canceled turn waits for the answer to that; 0 is 2 s.
	Grace time.Duration
}

// Message is what is said in a conversation. ContextID and Parts are required.
type Message struct {
	ContextID string // any new word begins a conversation
	ID        string // "" makes one; the same one again, of the same sender, is the same turn
	From      string // "" is Client.User
	Parts     a2a.ContentParts
	// To is the agent that it is for; nil: whoever fits.
	To *transport.Direct
	// Metadata is what else is said with it.
	Metadata map[string]any
}

// Text is a message of one text.
func Text(contextID, text string) *Message {
	return &Message{ContextID: contextID, Parts: a2a.ContentParts{a2a.NewTextPart(text)}}
}

// Turn names what a message has begun. It can be kept, and watched by another process.
type Turn struct {
	ContextID string `json:"contextId"`
	From      string `json:"from"`
	MessageID string `json:"messageId"`
}

// ErrUnsent is wrapped by the errors of a message that was not taken, as far as one can tell. It is not sent again by itself; whoever does so
// uses the same ID.
var ErrUnsent = errors.New("send the message")

// Send says m and returns the turn that this begins, as soon as the message is safe with the transport. Errors wrap
// [transport.ErrInvalid] when m cannot be said, and [ErrUnsent] else.
func (c *Client) Send(ctx context.Context, m *Message) (Turn, error) {
	say, err := c.message(ctx, m)
	if err != nil {
		return Turn{}, err
	}
	return turnOf(say), c.send(ctx, say)
}

// Reply says something in the conversation of a turn, in the name of who began it: the answer to what Cortex or an agent has asked there. It
// begins a turn of its own.
func (c *Client) Reply(ctx context.Context, t Turn, parts ...*a2a.Part) (Turn, error) {
	return c.Send(ctx, &Message{ContextID: t.ContextID, From: t.From, Parts: parts})
}

// Cancel asks Cortex to stop what x names in the conversation: a task, a turn (see [Client.ID]), or everything open.
func (c *Client) Cancel(ctx context.Context, contextID string, x transport.Cancel) error {
	return c.cancel(ctx, contextID, c.user(), x)
}

// ID returns the name that Cortex has for a turn.
func (c *Client) ID(t Turn) string {
	return transport.TurnID(c.Tenant, t.ContextID, t.From, t.MessageID)
}

func (c *Client) cancel(ctx context.Context, contextID, from string, x transport.Cancel) error {
	e := c.event(contextID, from, &x)
	e.TaskID = x.TaskID
	// The inbox is certain but waits for what the conversation is busy with; the control topic interrupts that. It comes
	// first, or it could hit what is decided after the cancellation.
	_ = c.Transport.Publish(ctx, transport.Control(c.Tenant, transport.Cortex), e) // best effort
	if err := c.Transport.Publish(ctx, transport.Inbox(c.Tenant, transport.Cortex), e); err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return nil
}

// send publishes what message has made.
func (c *Client) send(ctx context.Context, say *transport.Event) error {
	if c.Said != nil {
		c.Said(say)
	}
	if err := c.Transport.Publish(ctx, transport.Inbox(c.Tenant, transport.Cortex), say); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsent, err)
	}
	return nil
}

// Check returns the error with which [Client.Send] would refuse m before it sends or stores anything; it wraps transport.ErrInvalid. Who stores
// files for a message on its own, as with [Attach], asks before.
func (c *Client) Check(m *Message) error {
	e, _, err := c.words(m)
	if err != nil {
		return err
	}
	if _, _, _, err := transport.EncodePayload(e.Payload); err != nil {
		return err
	}
	return c.valid(e)
}

// message returns the event that says m, or an error that wraps transport.ErrInvalid. Files that are too many for a message are stored with
// the transport, whose errors it may return; nothing is stored for a message that cannot be said.
func (c *Client) message(ctx context.Context, m *Message) (*transport.Event, error) {
	e, said, err := c.words(m)
	if err != nil {
		return nil, err
	}
	files, ok := c.Transport.(transport.Files)
	if !ok {
		return e, c.valid(e)
	}
	_, err = transport.PackFiles(ctx, files, c.Tenant, m.ContextID, c.user(), said.Parts, func(parts a2a.ContentParts) error {
		said.Parts = parts
		if slices.ContainsFunc(parts, transport.IsFileRef) {
			if _, _, _, err := transport.EncodePayload(said); err != nil {
				return err
			}
		}
		return c.valid(e)
	})
	return e, err
}

// words returns the event that says m, with its files as they are, and its payload.
func (c *Client) words(m *Message) (*transport.Event, *a2a.Message, error) {
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
	from := m.From
	if from == "" {
		from = c.user()
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

// isEmpty reports whether parts say nothing.
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
func turnOf(say *transport.Event) Turn { return Turn{say.ContextID, say.From, say.ID} }

func (c *Client) event(contextID, from string, p transport.Payload) *transport.Event {
	return &transport.Event{ID: c.NextID(), Time: c.Clock(), From: from, Tenant: c.Tenant, ContextID: contextID, Payload: p}
}

func (c *Client) user() string {
	if c.User == "" {
		return "user"
	}
	return c.User
}

// NextID makes an id, such as for a new conversation.
func (c *Client) NextID() string {
	if c.NewID != nil {
		return c.NewID()
	}
	return a2a.NewMessageID()
}

// Clock returns the time.
func (c *Client) Clock() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}
