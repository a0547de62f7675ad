package repl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Client is the user's side of a conversation with Cortex. Its fields are set before the first call and not changed
// after; its methods are then safe for concurrent use.
type Client struct {
	Transport transport.Transport
	Tenant    string
	User      string           // who speaks; "" is "user"
	NewID     func() string    // makes ids of messages, events and conversations; nil: random
	Now       func() time.Time // nil: time.Now

	// Answer reads the answer to a message of User's from the conversation's log, or why it was refused; false while there is neither.
	// It makes up for what a live topic may lose, and for a restart of Cortex within a turn. nil: the live answer is all there is.
	Answer func(ctx context.Context, contextID, messageID string) (*a2a.Message, bool, error)

	// Said, if not nil, is called with the user's own event just before it is published.
	Said func(*transport.Event)

	// Poll is how often Answer is asked while a turn lasts; 0 is 2 s.
	Poll time.Duration
	// Grace is how long a canceled turn waits for the answer to that; 0 is 2 s.
	Grace time.Duration
}

// Turn says text in the conversation and yields the events of that turn as they come: pieces of the answer
// ([transport.Delta]), delegations (*a2a.Task, submitted), the agents' progress and artifacts, settled delegations
// (*a2a.TaskStatusUpdateEvent of [transport.Cortex]), and last the answer, an *a2a.Message of role agent. All but the
// answer are best effort; the answer comes exactly once, and ends the turn. Events of other turns of the same
// conversation are left out.
//
// An error is yielded last: one that wraps [transport.ErrInvalid] before anything is sent, when text is empty, too large
// or not UTF-8; the transport's; or ctx's. When ctx ends, the turn is canceled, and an answer that comes within Grace is
// still yielded before the error. A consumer that stops early leaves the turn to go on without being watched.
func (c *Client) Turn(ctx context.Context, contextID, text string) iter.Seq2[*transport.Event, error] {
	return c.TurnTo(ctx, contextID, text, nil)
}

// TurnTo is Turn of a direct request, which names the agent that it is for; nil: it names none.
func (c *Client) TurnTo(ctx context.Context, contextID, text string, to *transport.Direct) iter.Seq2[*transport.Event, error] {
	return func(yield func(*transport.Event, error) bool) {
		if err := c.turn(ctx, contextID, text, to, func(e *transport.Event) bool { return yield(e, nil) }); err != nil {
			yield(nil, err)
		}
	}
}

// Cancel asks Cortex to stop what x names in the conversation: a task, a turn, or everything open.
func (c *Client) Cancel(ctx context.Context, contextID string, x transport.Cancel) error {
	e := c.event(contextID, &x)
	e.TaskID = x.TaskID
	// The inbox is certain but waits for what the conversation is busy with; the control topic interrupts that. It comes
	// first, or it could hit what is decided after the cancellation.
	_ = c.Transport.Publish(ctx, transport.Control(c.Tenant, transport.Cortex), e) // best effort
	if err := c.Transport.Publish(ctx, transport.Inbox(c.Tenant, transport.Cortex), e); err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return nil
}

// turn returns nil when the answer was yielded or yield returned false.
func (c *Client) turn(ctx context.Context, contextID, text string, to *transport.Direct, yield func(*transport.Event) bool) error {
	say, err := c.message(contextID, text, to)
	if err != nil {
		return err
	}

	// Watching outlives ctx: a canceled turn still gets its answer.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	events, served := make(chan *transport.Event, 64), make(chan error, 1)
	live, err := c.Transport.Subscribe(ctx, transport.Live(c.Tenant, contextID), &transport.SubscribeOptions{Concurrency: 1})
	if err != nil {
		return fmt.Errorf("%w: watch the conversation: %w", errUnsent, err)
	}
	defer live.Close()
	running.Go(func() {
		served <- live.Serve(watching, func(ctx context.Context, e *transport.Event) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})

	if c.Said != nil {
		c.Said(say)
	}
	err = c.Transport.Publish(ctx, transport.Inbox(c.Tenant, transport.Cortex), say)
	if err != nil && ctx.Err() == nil { // when ctx ended meanwhile, the message may have been taken: it is canceled below
		return fmt.Errorf("%w: %w", errUnsent, err)
	}

	f := filter{turn: transport.TurnID(say.Tenant, contextID, say.From, say.ID)}
	deliver := func(e *transport.Event) (done bool) {
		for _, e := range f.pass(e) {
			if !yield(e) {
				err = nil
				return true
			}
			if f.isAnswer(e) {
				return true
			}
		}
		return false
	}
	var (
		poll     = time.NewTicker(orDefault(c.Poll, 2*time.Second))
		logged   = make(chan loggedAnswer, 1)
		asking   bool
		askErr   error
		ended    = ctx.Done()
		graceEnd <-chan time.Time
	)
	defer poll.Stop()
	err = nil // from here on: what follows the answer
	for {
		select {
		case e := <-events:
			if deliver(e) {
				return err
			}
		case <-poll.C:
			if c.Answer == nil || asking {
				continue
			}
			asking = true
			running.Go(func() {
				ask, done := context.WithTimeout(watching, 10*time.Second)
				defer done()
				m, ok, err := c.Answer(ask, contextID, say.ID)
				logged <- loggedAnswer{m, ok && err == nil && m != nil, err}
			})
		case a := <-logged:
			asking, askErr = false, a.err
			if !a.found {
				continue
			}
			// What was on its way while the log was read comes first; the live answer may be among it.
			for len(events) > 0 {
				if deliver(<-events) {
					return err
				}
			}
			e := c.event(contextID, a.message)
			e.ID, e.From = a.message.ID, transport.Cortex
			if !yield(e) {
				return nil
			}
			return err
		case serveErr := <-served:
			return fmt.Errorf("watch the conversation: %w", serveErr)
		case <-ended:
			ended, err = nil, ctx.Err()
			grace := orDefault(c.Grace, 2*time.Second)
			graceEnd = time.After(grace)
			poll.Reset(max(grace/4, time.Millisecond))
			bounded, done := context.WithTimeout(watching, grace)
			cancelErr := c.Cancel(bounded, contextID, transport.Cancel{Turn: f.turn, Reason: "by the user"})
			done()
			if cancelErr != nil {
				return errors.Join(err, cancelErr)
			}
		case <-graceEnd:
			if askErr != nil {
				return fmt.Errorf("%w (reading the answer: %w)", err, askErr)
			}
			return err
		}
	}
}

// errUnsent is of a message that was not taken, as far as one can tell: it is not sent again.
var errUnsent = errors.New("send the message")

// loggedAnswer is what Client.Answer returned.
type loggedAnswer struct {
	message *a2a.Message
	found   bool
	err     error
}

// message returns the event that says text, or an error that wraps transport.ErrInvalid.
func (c *Client) message(contextID, text string, to *transport.Direct) (*transport.Event, error) {
	if contextID == "" {
		return nil, fmt.Errorf("%w: no conversation to speak in", transport.ErrInvalid)
	}
	if strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("%w: message is empty", transport.ErrInvalid)
	}
	m := &a2a.Message{Role: a2a.MessageRoleUser, ContextID: contextID, Parts: a2a.ContentParts{a2a.NewTextPart(text)}}
	if to != nil {
		if err := to.Address(m); err != nil {
			return nil, err
		}
	}
	e := c.event(contextID, m)
	e.To, m.ID = transport.Cortex, e.ID
	return e, e.Validate(transport.Inbox(c.Tenant, transport.Cortex))
}

func (c *Client) event(contextID string, p transport.Payload) *transport.Event {
	from := c.User
	if from == "" {
		from = "user"
	}
	return &transport.Event{ID: c.newID(), Time: c.now(), From: from, Tenant: c.Tenant, ContextID: contextID, Payload: p}
}

func (c *Client) newID() string {
	if c.NewID != nil {
		return c.NewID()
	}
	return a2a.NewMessageID()
}

func (c *Client) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}
