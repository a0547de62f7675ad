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
	// Publish sends e to topic t and returns nil when the transport has accepted it: stored for an inbox and for a card, sent for a live topic. e is
	// neither retained nor modified, and may be reused after the return. An event with DeliverAt set (inboxes only) is delivered at that time; it
	// replaces the one that still waits for the same inbox and ContextID. Errors: ErrInvalid, ErrTooLarge, ErrUnavailable, ErrClosed, or ctx's.
	Publish(ctx context.Context, t Topic, e *Event) error

	// Subscribe returns a subscription that is active already: events that are published to t after the return reach it (in an inbox, also those that
	// waited before). nil options are the defaults. Nothing is handled before Serve is called.
	Subscribe(ctx context.Context, t Topic, o *SubscribeOptions) (Subscription, error)

	// Close ends every subscription and unblocks every call. It is idempotent. Events that were not acknowledged stay in their inbox.
	Close() error
}

// SubscribeOptions configures Subscribe. The zero value is for the orchestrator's inbox.
type SubscribeOptions struct {
	// Concurrency bounds the concurrent handlers; 0 is [DefaultConcurrency].
	Concurrency int
	// Unordered permits that the events of one conversation are handled at the same time and in any order. Agents set it: two tasks of one conversation
	// do not depend on each other. Another subscriber may then get an event whose handler failed.
	Unordered bool
	// Label describes the process of this subscriber in [Owners]: host, process, version. At most [MaxLabel] bytes.
	Label string
	// OnOwned, if set, is called with the [Partitions] that this subscriber of an ordered inbox owns, sorted, at the beginning of Serve and whenever
	// they change. It must not block.
	OnOwned func(partitions []int)
	// OnGivenUp, if set, is called before an event of an inbox becomes a dead letter, with the reason, so that it can notify whoever waits for the
	// event. The payload of an event that cannot be decoded is an [Opaque], and its envelope may be incomplete. After a [Temporary] error the event is
	// delivered again instead; after nil or another error it is a dead letter. Like a Handler it is called at least once.
	OnGivenUp func(ctx context.Context, e *Event, reason error) error
}

// MaxLabel bounds SubscribeOptions.Label, in bytes.
const MaxLabel = 256

// Partitions is the number of parts into which an inbox's conversations are divided. Of several ordered subscribers of an inbox each owns some
// partitions, and gets the events of their conversations only, so that the order within a conversation is kept. When a subscriber ends, others take
// over its partitions at once; when it is killed or cut off, within five seconds. A new subscriber gets its share. A partition changes its owner
// between two events of a conversation: the new owner gets what the old one has not acknowledged, in order. When an owner ends, the contexts of its
// handlers end, and it releases a partition when they have returned. An owner that was only paused may still be handling an event when the new one
// gets it, too; handlers exclude each other by what they write (as a Store's Append does).
const Partitions = 4

// Partition returns the partition that a conversation of a tenant belongs to, from 0 to [Partitions]-1: FNV-1a, 32 bits, of the escaped tenant, a dot
// and the escaped contextID.
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
	Partitions []int     // those that it owns, sorted; empty while it waits for its share
}

// Owners is implemented by transports that know the owners of partitions.
type Owners interface {
	// Owners returns the ordered subscribers of an inbox that are serving, sorted by their ids.
	Owners(ctx context.Context, t Topic) ([]Owner, error)
}

// Withdrawer is implemented by transports that can remove an event.
type Withdrawer interface {
	// Withdraw removes the event with this ID, ContextID and sender from inbox t, unless it was acknowledged; a subscriber that is handling it is not
	// notified. A missing event is no error.
	Withdraw(ctx context.Context, t Topic, contextID, from, id string) error
}

// DefaultConcurrency is the default limit of the concurrent handlers of one subscription.
const DefaultConcurrency = 4096

// Handler handles one event of a subscription; for an inbox, nil acknowledges it. After an error the transport delivers the event again later, with
// increasing delay and e.Delivery counted up, unless the error is [Permanent]: then the event becomes a [DeadLetter]. So does one that has failed
// [MaxFailures] times at the same subscriber with errors that are not [Temporary]; a panic counts as such an error. In an ordered inbox, later events
// of the conversation wait until then. A handler may take as long as it needs; the event is not delivered elsewhere while it runs. Effects must be
// idempotent by e.ID or e.TaskID, since delivery is at least once.
//
// The handler owns e, but not e.Payload: it may keep it, and must not modify it, nor anything that it refers to. All who listen to a live topic may get the
// same one, at the same time, so that what is said to many is decoded once.
//
// ctx ends when the subscription or the transport is closed, or the context of Serve ends.
type Handler func(ctx context.Context, e *Event) error

// Subscription is a subscriber of a topic.
type Subscription interface {
	// Serve calls h for each event and blocks until ctx ends (then it returns ctx's error), or the subscription or its transport is closed (then
	// ErrClosed). It waits for running handlers, whose ctx ends; events that they do not acknowledge return to the inbox at once, for another or a later
	// subscriber. Serve is called at most once.
	Serve(ctx context.Context, h Handler) error
	// Close ends the subscription. It is idempotent and does not wait for handlers; Serve does.
	Close() error
}

// DeadLetter is an event that was given up, with the reason.
type DeadLetter struct {
	ID         string // among the dead letters of its tenant
	Topic      Topic
	Event      *Event    // payload [Opaque] if it could not be decoded
	Reason     string    // the error's text
	Time       time.Time // when it was given up
	Deliveries int       // number of its deliveries
}

// DeadLetters is implemented by transports that store events that were given up: those whose handler returned a [Permanent] error or failed
// [MaxFailures] times, and those that could not be decoded.
type DeadLetters interface {
	// DeadLetters lists a tenant's dead letters, oldest first.
	DeadLetters(ctx context.Context, tenant string) iter.Seq2[*DeadLetter, error]
	// DeadLetter returns the one with this id, or an error that wraps ErrNotFound.
	DeadLetter(ctx context.Context, tenant, id string) (*DeadLetter, error)
	// ReplayDead puts the event back into its inbox as if it were published now, even within [DuplicateWindow], and removes the dead letter. The error
	// wraps ErrNotFound, or ErrInvalid for one that could not be decoded, which stays where it is.
	ReplayDead(ctx context.Context, tenant, id string) error
	// RemoveDead removes a dead letter permanently. A missing one is no error.
	RemoveDead(ctx context.Context, tenant, id string) error
}

// Eraser is implemented by transports that can erase a conversation.
type Eraser interface {
	// Erase removes all data of a conversation from the transport: events in inboxes, timers, dead letters, files. After an error some of it may remain:
	// call Erase again.
	Erase(ctx context.Context, tenant, contextID string) error
}

// InboxWatcher is implemented by transports that can report which of many inboxes have received events, at far less cost than subscribing to all of
// them. The caller subscribes to a reported inbox, and closes the subscription when nothing waits there any more.
type InboxWatcher interface {
	// WatchInboxes returns a watch without inboxes. Errors are those of Subscribe.
	WatchInboxes(ctx context.Context) (InboxWatch, error)
}

// InboxWatch watches inboxes. Its methods are safe for concurrent use.
type InboxWatch interface {
	// Add adds inboxes to the watch. When it returns, the watch reports what is published from then on. An inbox that is watched already is no error.
	Add(ctx context.Context, inboxes ...Topic) error
	// Remove removes inboxes from the watch.
	Remove(inboxes ...Topic)
	// Serve calls wake, one at a time, for each watched inbox in which an event waits when it is added, and whenever an event is published to it, until
	// ctx ends, whose error it returns, or the watch or the transport is closed (ErrClosed). One call may stand for several events, or for none;
	// redeliveries after a failed handler are not reported. wake must not block. Serve is called at most once.
	Serve(ctx context.Context, wake func(inbox Topic)) error
	// Close ends the watch. It is idempotent.
	Close() error
}

// Health is implemented by transports that can be unavailable.
type Health interface {
	// Healthy returns nil while the transport can publish and deliver, otherwise what is wrong.
	Healthy(ctx context.Context) error
}

// Sender is implemented by transports that authenticate senders.
type Sender interface {
	// Sender returns the tenant of this connection, and what it sends as Event.From: an agent's id, "user" or "user:NAME", or [Cortex]. from is empty
	// without authentication. The result does not change during the life of the connection.
	Sender() (tenant, from string)
}

// InboxDepth is implemented by transports that can report how much work waits in an inbox, delivered or not.
type InboxDepth interface {
	// Waiting returns the number of unacknowledged events in the inbox.
	Waiting(ctx context.Context, t Topic) (int, error)
}

// InboxAge is implemented by transports that can report how long work has been waiting in an inbox.
type InboxAge interface {
	// Age returns what Waiting of an [InboxDepth] does, and when the oldest of these events was put into the inbox; the zero time when there is none.
	Age(ctx context.Context, t Topic) (waiting int, oldest time.Time, err error)
}

// Returned says that the subscribers of an inbox hand back an event again and again, instead of handling it.
type Returned struct {
	Inbox  Topic
	Stored time.Time // when the event was put into the inbox
	Times  int       // how often it was delivered
}

// ReturnWatcher is implemented by transports that can tell of what is handed back.
type ReturnWatcher interface {
	// WatchReturned calls tell for events of a tenant's inboxes that are handed back, from the tenth time on and for each further time, until ctx ends.
	// It may leave out some, and calls tell from one goroutine at a time. It returns nil when ctx has ended.
	WatchReturned(ctx context.Context, tenant string, tell func(Returned)) error
}

// InboxBacklog is implemented by transports that can report how many events of an inbox its subscribers have not taken yet: when there are none, the
// subscribers could do more.
type InboxBacklog interface {
	// Untaken returns the number of events in the inbox that were never delivered.
	Untaken(ctx context.Context, t Topic) (int, error)
}

// InboxSearch is implemented by transports that can report whether an event is in an inbox, for senders that repeat an event after [DuplicateWindow].
type InboxSearch interface {
	// Holds reports whether an event with e's sender, conversation and task is in inbox t and unacknowledged, delivered or not: the one with e's ID, or
	// any if e has no ID.
	Holds(ctx context.Context, t Topic, e *Event) (bool, error)
}
