package transport

import (
	"context"
	"iter"
	"time"
)

// DuplicateWindow is how long an inbox remembers the IDs of its events.
const DuplicateWindow = 2 * time.Minute

// Transport carries events between processes. All methods are safe for concurrent use.
type Transport interface {
	// Publish hands e to topic t and returns nil once the transport has taken responsibility: stored for an inbox and
	// for a card, on its way for a live topic. e is not retained and not changed; it may be reused after the return.
	// An event with DeliverAt set (inboxes only) is delivered then; it takes the place of the one that still waits for
	// the same inbox and ContextID. Errors: ErrInvalid, ErrTooLarge, ErrUnavailable, ErrClosed, or ctx's.
	Publish(ctx context.Context, t Topic, e *Event) error

	// Subscribe returns a subscription that is already active: what is published to t after the return reaches it (for
	// an inbox, also what waited before). nil options are the defaults. Nothing is handled before Serve is called.
	Subscribe(ctx context.Context, t Topic, o *SubscribeOptions) (Subscription, error)

	// Close ends every subscription and unblocks every call. It is idempotent. Events that were not acknowledged
	// stay in their inbox.
	Close() error
}

// SubscribeOptions configures Subscribe. The zero value is right for the orchestrator's inbox.
type SubscribeOptions struct {
	// Concurrency bounds the handlers that run at once; 0 is [DefaultConcurrency].
	Concurrency int
	// Unordered lets the events of one conversation be handled at the same time and in any order. Agents set it: two
	// tasks of one conversation do not depend on each other. An event whose handler failed may then be taken by
	// another subscriber.
	Unordered bool
}

// DefaultConcurrency is how many handlers of one subscription run at once when the options do not say.
const DefaultConcurrency = 4096

// Handler handles one event of a subscription; for an inbox, nil acknowledges it. An error makes the transport deliver
// it again later, with growing delay and e.Delivery counted up, unless it is [Permanent]: then the event becomes a
// [DeadLetter]. A handler may take as long as it needs; the event is not delivered elsewhere while it runs. Effects must
// be idempotent by e.ID or e.TaskID: delivery is at least once. The handler owns e.
//
// ctx ends when the subscription or the transport is closed, or the context of Serve ends.
type Handler func(ctx context.Context, e *Event) error

// Subscription is one subscriber of a topic.
type Subscription interface {
	// Serve calls h for each event and blocks until ctx ends (then it returns ctx's error), or the subscription or its
	// transport is closed (then ErrClosed). It waits for running handlers, whose ctx is then ended; events they do not
	// acknowledge go back to the inbox at once, for another subscriber or a later one. Serve is called at most once.
	Serve(ctx context.Context, h Handler) error
	// Close ends the subscription. It is idempotent and does not wait for handlers; Serve does.
	Close() error
}

// DeadLetter is an event that was given up, with the reason.
type DeadLetter struct {
	Topic      Topic
	Event      *Event    // payload [Opaque] when it could not be read
	Reason     string    // the error's text
	Time       time.Time // when it was given up
	Deliveries int       // how often it had been delivered
}

// DeadLetters is implemented by transports that keep what was given up: events whose handler returned a [Permanent]
// error, and events that could not be decoded.
type DeadLetters interface {
	// DeadLetters lists a tenant's dead letters, oldest first.
	DeadLetters(ctx context.Context, tenant string) iter.Seq2[*DeadLetter, error]
}

// Health is implemented by transports that can be away.
type Health interface {
	// Healthy returns nil while the transport can publish and deliver, else what is wrong.
	Healthy(ctx context.Context) error
}

// InboxDepth is implemented by transports that can tell how much work waits in an inbox, delivered or not.
type InboxDepth interface {
	// Waiting returns the number of events in the inbox that are not acknowledged.
	Waiting(ctx context.Context, t Topic) (int, error)
}
