package cortex

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Store keeps the log of every conversation. All methods are safe for concurrent use. Implementations live in memstore
// and jetstore; each passes the suite of package storetest unchanged.
type Store interface {
	// Load yields the entries of a conversation after version after (0: all), oldest first, with Version set. When the
	// iteration ends without an error, it was complete: every entry whose Append had returned before Load was called is
	// in it. A load that cannot prove that ends with an error. A conversation nobody wrote to is empty.
	Load(ctx context.Context, tenant, contextID string, after Version) iter.Seq2[*Entry, error]

	// Append adds e behind version after, which must be the conversation's last, and returns its version. It returns
	// ErrConflict, and stores nothing, when the conversation has gone on; transport.ErrTooLarge or ErrInvalid when it
	// can never keep e. When it returns another error, e may have been stored or not: load to find out. e is not retained.
	Append(ctx context.Context, tenant, contextID string, after Version, e *Entry) (Version, error)

	// Contexts yields the tenant's conversations, the most recently changed first.
	Contexts(ctx context.Context, tenant string) iter.Seq2[ContextInfo, error]
}

// Snapshots is implemented by stores that keep a fold of a conversation beside its log, so that a long one loads fast.
// A snapshot is a cache: losing one costs time only.
type Snapshots interface {
	// Snapshot returns the newest snapshot and the version it stands for, or 0 and nil when there is none.
	Snapshot(ctx context.Context, tenant, contextID string) (Version, []byte, error)
	// PutSnapshot replaces the snapshot.
	PutSnapshot(ctx context.Context, tenant, contextID string, v Version, data []byte) error
}

// ErrConflict is returned by Store.Append when the version it was given is not the conversation's last.
var ErrConflict = errors.New("conversation has gone on")

// Version is a place in a conversation's log, given by the store: greater is later, 0 is before the first entry.
type Version uint64

// Entry is one record of a conversation's log: an event, and what was decided about it. What Cortex sends follows from
// the log alone, so an entry that is stored is never decided again.
type Entry struct {
	Version Version `json:"-"` // set by the store

	Seq   uint64           `json:"seq"` // place in the conversation, from 1 without gaps
	Time  time.Time        `json:"time"`
	Cause *transport.Event `json:"cause"`
	// Turn is the turn that the entry belongs to: the id of the user's message. Empty when it belongs to none or several.
	Turn string `json:"turn,omitempty"`
	// Decision is what the cause led to; nil when nothing was to be decided.
	Decision *llm.Decision `json:"decision,omitempty"`
	// Failure says why no decision could be made; the user is told.
	Failure string `json:"failure,omitempty"`
	// Deadline is when the tasks that this entry sends must be done.
	Deadline time.Time `json:"deadline,omitzero"`
	// ReplyBy is how long the question that the cause asks waits for the user.
	ReplyBy time.Time `json:"reply_by,omitzero"`
}

// ContextInfo describes a conversation in a list.
type ContextInfo struct {
	ContextID string
	Title     string    // the beginning of the first message, on one line, at most 80 bytes
	Entries   int       // length of the log
	Updated   time.Time // of the last entry
}
