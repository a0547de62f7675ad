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

// Ledger is implemented by stores that keep what was spent on models each day, for all conversations of a tenant together.
// A day is written as 2006-01-02, in UTC; it can be forgotten three days after it.
type Ledger interface {
	// Spent returns what was spent on a day: at least what every Spend counted that had returned before.
	Spent(ctx context.Context, tenant, day string) (llm.Usage, error)
	// Spend adds u to what was spent on a day and returns the sum. Every one of several at the same time counts. When it
	// returns an error, u may have been counted or not.
	Spend(ctx context.Context, tenant, day string, u llm.Usage) (llm.Usage, error)
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
	// Roster is what the decision was the first to be shown of the agents; nil when that was nothing.
	Roster *Roster `json:"roster,omitempty"`
	// Summary stands from now on for the oldest answered turns of the window and the summary before it. When it has no Text,
	// nothing stands for its Turns.
	Summary *llm.Summary `json:"summary,omitempty"`
	// Omitted is how many of the Summary's Turns are left out of its Text, since they could not be summarised.
	Omitted int `json:"omitted,omitempty"`
	// Usage is what was spent beside the decision: on a Summary, whose own Usage is part of it, and on decisions that failed.
	Usage llm.Usage `json:"usage,omitzero"`
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
