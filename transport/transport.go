package transport

import (
	"context"
	"hash/fnv"
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
	// Label says in [Owners] which process this subscriber is, for people: host, process, version. At most [MaxLabel] bytes.
	Label string
	// OnOwned, if set, is told what this subscriber of an ordered inbox owns, at the beginning of Serve and whenever that changes:
	// some of the [Partitions], in their order. It must not block.
	OnOwned func(partitions []int)
	// OnGivenUp, if set, is called before an event of an inbox becomes a dead letter, with the reason, so that whoever waits for it can
	// be told. The payload of an event that cannot be read is an [Opaque], and of its envelope only what could be read is there. After
	// a [Temporary] error the event is delivered again instead; after nil or another error it is a dead letter. Like a Handler it is
	// called at least once.
	OnGivenUp func(ctx context.Context, e *Event, reason error) error
}

// MaxLabel bounds SubscribeOptions.Label, in bytes.
const MaxLabel = 256

// Partitions is the number of parts into which an inbox's conversations are divided. Of several ordered subscribers of an inbox
// each owns some of them, and gets the events of their conversations only, so that a conversation's order is kept
// whoever handles it. When a subscriber ends, others own its parts at once; when it is killed or cut off, within five seconds.
// When one joins, it gets its share. Parts change their owner between two events of a conversation: the new owner gets what
// the old one has not acknowledged, in order. An owner that ends has the contexts of its handlers ended, and gives a part up when they
// have returned. An owner that was only paused may still be handling an event when the new one
// gets it too; handlers fence each other off by what they write (as a Store's Append does).
const Partitions = 4

// Partition returns the part that a conversation of a tenant belongs to, from 0 to [Partitions]-1: FNV-1a, 32 bits, of the
// escaped tenant, a dot and the escaped contextID.
func Partition(tenant, contextID string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(Escape(tenant) + "." + Escape(contextID))) // never fails
	return int(h.Sum32() % Partitions)
}

// Owner is an ordered subscriber of an inbox.
type Owner struct {
	ID         string    // of the subscription
	Label      string    // as in SubscribeOptions
	Since      time.Time // when it began to serve
	Partitions []int     // that it owns, in their order; none for one that waits for its share
}

// Owners is implemented by transports that know who owns what.
type Owners interface {
	// Owners returns the ordered subscribers of an inbox that are being served, in the order of their ids.
	Owners(ctx context.Context, t Topic) ([]Owner, error)
}

// Withdrawer is implemented by transports that can take an event back.
type Withdrawer interface {
	// Withdraw removes the event with this ID, ContextID and sender from inbox t, unless it was acknowledged; a subscriber that
	// is handling it is not told. One that is not there is no error.
	Withdraw(ctx context.Context, t Topic, contextID, from, id string) error
}

// DefaultConcurrency is how many handlers of one subscription run at once when the options do not say.
const DefaultConcurrency = 4096

// Handler handles one event of a subscription; for an inbox, nil acknowledges it. An error makes the transport deliver
// it again later, with growing delay and e.Delivery counted up, unless it is [Permanent]: then the event becomes a
// [DeadLetter]. So does one that has failed [MaxFailures] times at the same subscriber with errors that are not [Temporary]. A panic is
// such an error. Of an ordered inbox, the events behind it in its conversation wait until then. A handler may take as long as it needs; the event is not delivered elsewhere while it runs. Effects must
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
	ID         string // among the dead letters of its tenant
	Topic      Topic
	Event      *Event    // payload [Opaque] when it could not be read
	Reason     string    // the error's text
	Time       time.Time // when it was given up
	Deliveries int       // how often it had been delivered
}

// DeadLetters is implemented by transports that keep what was given up: events whose handler returned a [Permanent]
// error or failed [MaxFailures] times, and events that could not be decoded.
type DeadLetters interface {
	// DeadLetters lists a tenant's dead letters, oldest first.
	DeadLetters(ctx context.Context, tenant string) iter.Seq2[*DeadLetter, error]
	// DeadLetter returns the one with this id, or an error that wraps ErrNotFound.
	DeadLetter(ctx context.Context, tenant, id string) (*DeadLetter, error)
	// ReplayDead puts the event back into its inbox as if it were published now, also within [DuplicateWindow], and removes the
	// dead letter. An error wraps ErrNotFound, or ErrInvalid for one that could not be read; then it stays where it is.
	ReplayDead(ctx context.Context, tenant, id string) error
	// RemoveDead removes a dead letter for good. One that is not there is no error.
	RemoveDead(ctx context.Context, tenant, id string) error
}

// Eraser is implemented by transports that can forget a conversation.
type Eraser interface {
	// Erase removes everything of a conversation that the transport keeps: events in inboxes, timers, dead letters, files.
	Erase(ctx context.Context, tenant, contextID string) error
}

// InboxWatcher is implemented by transports that can tell which of many inboxes have got something, at far less cost than subscribers of all of
// them have. Who hears of one subscribes to it, and closes the subscription when nothing waits there any more.
type InboxWatcher interface {
	// WatchInboxes returns a watch of no inbox yet. Errors are those of Subscribe.
	WatchInboxes(ctx context.Context) (InboxWatch, error)
}

// InboxWatch watches inboxes. Its methods are safe for concurrent use.
type InboxWatch interface {
	// Add watches more inboxes. It returns when what is published from now on is heard of. One that is watched already is no error.
	Add(ctx context.Context, inboxes ...Topic) error
	// Remove watches some no longer.
	Remove(inboxes ...Topic)
	// Serve calls wake, one at a time, for each watched inbox that something waits in when it is added, and whenever something is published to it,
	// until ctx ends, whose error it returns, or the watch or the transport is closed (ErrClosed). Several events may be one call, and one
	// may be in vain; events that come again after a failed handler are not told of. wake must not block. Serve is called at most once.
	Serve(ctx context.Context, wake func(inbox Topic)) error
	// Close ends the watch. It is idempotent.
	Close() error
}

// Health is implemented by transports that can be away.
type Health interface {
	// Healthy returns nil while the transport can publish and deliver, else what is wrong.
	Healthy(ctx context.Context) error
}

// Sender is implemented by transports on which whoever sends has to prove who they are.
type Sender interface {
	// Sender returns of which tenant this connection is, and what it sends as Event.From: an agent's id, "user" or "user:NAME", or
	// [Cortex]. from is empty where nobody has to prove anything. It stays the same for the life of the connection.
	Sender() (tenant, from string)
}

// InboxDepth is implemented by transports that can tell how much work waits in an inbox, delivered or not.
type InboxDepth interface {
	// Waiting returns the number of events in the inbox that are not acknowledged.
	Waiting(ctx context.Context, t Topic) (int, error)
}

// InboxBacklog is implemented by transports that can tell how much of an inbox its subscribers have not asked for yet: when there is
// none, they could do more.
type InboxBacklog interface {
	// Untaken returns the number of events in the inbox that were delivered to nobody.
	Untaken(ctx context.Context, t Topic) (int, error)
}

// InboxSearch is implemented by transports that can tell whether an event is in an inbox: who sends it once more, later than
// [DuplicateWindow], can know whether the first one is still there.
type InboxSearch interface {
	// Holds reports whether an event of e's sender, conversation and task is in inbox t and not acknowledged, delivered or not: the one with
	// e's ID, or any, if e has none.
	Holds(ctx context.Context, t Topic, e *Event) (bool, error)
}
