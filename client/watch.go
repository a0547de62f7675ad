package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Ask sends m and yields the events of its turn as they arrive: pieces of the answer ([transport.Delta]), delegations (*a2a.Task, submitted),
// progress and artifacts of the agents, settled delegations (*a2a.TaskStatusUpdateEvent of [transport.Cortex]), and last the answer, an
// *a2a.Message of role agent. All but the answer are best effort; the answer is yielded exactly once, and ends the turn. Events of other turns
// of the conversation are left out.
//
// An error is yielded last: one of [Client.Send], before anything is sent; the transport's; or ctx's. When ctx ends, Ask cancels the turn, and
// still yields an answer that arrives within Grace before it yields the error. When the consumer stops early, the turn goes on unwatched.
func (c *Client) Ask(ctx context.Context, m *Message) iter.Seq2[*transport.Event, error] {
	return func(yield func(*transport.Event, error) bool) {
		c.ask(ctx, m, false, yield)
	}
}

// Follow is Ask for a caller who may stop waiting before the answer comes: when ctx ends, the turn goes on. The caller sets m.ID, and so knows
// the turn; the same message sent again is the same turn.
func (c *Client) Follow(ctx context.Context, m *Message) iter.Seq2[*transport.Event, error] {
	return func(yield func(*transport.Event, error) bool) {
		c.ask(ctx, m, true, yield)
	}
}

func (c *Client) ask(ctx context.Context, m *Message, leave bool, yield func(*transport.Event, error) bool) {
	msg, err := c.message(ctx, m)
	if err == nil {
		err = c.follow(ctx, turnOf(msg), msg, leave, func(e *transport.Event) bool { return yield(e, nil) })
	}
	if err != nil {
		yield(nil, err)
	}
}

// Watch yields the events of a turn from now on, as [Client.Ask] does, and its answer, even if that was given earlier. Any process may have
// begun the turn. When ctx ends, Watch ends and the turn goes on.
func (c *Client) Watch(ctx context.Context, t Turn) iter.Seq2[*transport.Event, error] {
	return func(yield func(*transport.Event, error) bool) {
		if err := c.follow(ctx, t, nil, true, func(e *transport.Event) bool { return yield(e, nil) }); err != nil {
			yield(nil, err)
		}
	}
}

// Answer waits for the answer to a turn. When ctx ends, Answer returns its error and the turn goes on.
func (c *Client) Answer(ctx context.Context, t Turn) (*a2a.Message, error) {
	for e, err := range c.Watch(ctx, t) {
		if err != nil {
			return nil, err
		}
		if m, ok := e.Payload.(*a2a.Message); ok {
			return m, nil
		}
	}
	return nil, errors.New("the turn ended without an answer") // cannot happen
}

// Listen calls hear with what is live in a conversation, of all its turns, until ctx ends, and returns ctx's error. All of it is best effort: what was
// said while a connection was lost is not heard.
func (c *Client) Listen(ctx context.Context, contextID string, hear func(*transport.Event)) error {
	t := Turn{ContextID: contextID}
	live, err := c.listen(ctx, t)
	if err != nil && !isUnavailable(err) {
		return err
	}
	return c.serve(ctx, live, t, func(_ context.Context, e *transport.Event) error {
		hear(e)
		return nil
	})
}

// readTime bounds how long an answer is looked for in the log at a time.
const readTime = 10 * time.Second

// watched is an event for whoever watches a turn, who closes done after it. The transport has it handled until then, and bounds what all that it has handled
// weighs; others wait there, where those that listen to the same share them.
type watched struct {
	event *transport.Event
	done  chan struct{}
}

// beforeTime bounds how long the answer from the log waits for the rest of what the transport has before it.
const beforeTime = 100 * time.Millisecond

// logged is what Client.Log returned.
type logged struct {
	message *a2a.Message
	found   bool
	err     error
}

// follow returns nil when it has yielded the answer or yield has returned false. Unless msg is nil, follow first sends it. When ctx ends, follow
// cancels the turn, unless leave is set.
func (c *Client) follow(ctx context.Context, t Turn, msg *transport.Event, leave bool, yield func(*transport.Event) bool) error {
	// Watching outlives ctx: a canceled turn still gets its answer.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	events, served := make(chan watched), make(chan error, 1)
	f := filter{turn: c.ID(t)}
	hand := func(ctx context.Context, e *transport.Event) error {
		for _, e := range f.pass(e) { // what is of other turns does not wait for the consumer
			w := watched{e, make(chan struct{})}
			select {
			case events <- w:
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case <-w.done:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	live, err := c.listen(ctx, t)
	switch {
	case err == nil:
	case msg != nil:
		return fmt.Errorf("%w: watch the conversation: %w", ErrUnsent, err)
	case !isUnavailable(err):
		return fmt.Errorf("watch the conversation: %w", err)
	}
	running.Go(func() { served <- c.serve(watching, live, t, hand) })

	if msg != nil {
		if err := c.send(ctx, msg); err != nil && ctx.Err() == nil { // if ctx has ended, the message may have been stored: the turn is canceled below
			return err
		}
	}
	err = nil      // from here on: the error to return after the answer
	heard := false // something since the log began to be read
	deliver := func(w watched) (last bool) {
		defer close(w.done)
		heard = true
		if !yield(w.event) {
			err = nil
			return true
		}
		return f.isAnswer(w.event)
	}
	// before delivers what arrived while the log was read; the live answer may be among it. What waits in the transport comes one by one.
	before := func() (last bool) {
		if !heard {
			select {
			case w := <-events:
				last = deliver(w)
			default:
				return false
			}
		}
		for soon := time.After(beforeTime); !last; {
			select {
			case w := <-events:
				last = deliver(w)
			case <-soon:
				return false
			}
		}
		return true
	}
	var (
		first    = orDefault(c.Poll, 2*time.Second)
		pause    = first // of poll
		poll     = time.NewTimer(pause)
		read     = make(chan logged, 1)
		asking   bool
		askErr   error
		ended    = ctx.Done()
		graceEnd <-chan time.Time
	)
	defer poll.Stop()
	ask := func() {
		if c.Log == nil || asking {
			return
		}
		asking, heard = true, false
		running.Go(func() {
			ctx, done := context.WithTimeout(watching, readTime)
			defer done()
			m, ok, err := c.Log(ctx, t)
			read <- logged{m, ok && err == nil && m != nil, err}
		})
	}
	if msg == nil { // the turn may be answered already
		ask()
	}
	for {
		select {
		case w := <-events:
			if deliver(w) {
				return err
			}
		case <-poll.C:
			ask()
			if graceEnd == nil {
				pause = min(2*pause, 4*first)
			}
			poll.Reset(pause)
		case a := <-read:
			if asking, askErr = false, a.err; a.err != nil && graceEnd == nil { // after an interruption an answer may be there
				pause = first
				poll.Reset(pause)
			}
			if !a.found {
				continue
			}
			if before() {
				return err
			}
			e := c.event(t.ContextID, transport.Cortex, a.message)
			e.ID = a.message.ID
			if !yield(e) {
				return nil
			}
			return err
		case serveErr := <-served:
			return fmt.Errorf("watch the conversation: %w", serveErr)
		case <-ended:
			if err = ctx.Err(); leave {
				return err
			}
			ended = nil
			grace := orDefault(c.Grace, 2*time.Second)
			graceEnd = time.After(grace)
			pause = max(grace/4, time.Millisecond)
			poll.Reset(pause)
			bounded, done := context.WithTimeout(watching, grace)
			cancelErr := c.cancel(bounded, t.ContextID, t.From, transport.Cancel{Turn: f.turn, Reason: "by the user"})
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

// listen subscribes to the live topic of a turn's conversation.
func (c *Client) listen(ctx context.Context, t Turn) (transport.Subscription, error) {
	return c.Transport.Subscribe(ctx, transport.Live(c.Tenant, t.ContextID), &transport.SubscribeOptions{Concurrency: 1})
}

// resubscribePause is the pause before a new attempt at a subscription that was lost or failed.
const resubscribePause = time.Second

// serve hands over live events until ctx ends. It renews a lost subscription unless the transport is closed.
func (c *Client) serve(ctx context.Context, live transport.Subscription, t Turn, hand transport.Handler) error {
	for {
		if live != nil {
			err := live.Serve(ctx, hand)
			live.Close()
			if ctx.Err() != nil || !isUnavailable(err) {
				return err
			}
		}
		pause := time.NewTimer(resubscribePause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
		var err error
		if live, err = c.listen(ctx, t); err != nil && !isUnavailable(err) {
			return err
		}
	}
}

// isUnavailable reports whether err says that the transport is unavailable, so that a later attempt may succeed.
func isUnavailable(err error) bool { return errors.Is(err, transport.ErrUnavailable) }

func orDefault(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}
