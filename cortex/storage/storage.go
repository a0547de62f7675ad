package storage

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
)

// Store keeps the log of every conversation. All methods are safe for concurrent use. Implementations live in memstore
// and jetstore; each passes the suite of package storetest unchanged.
type Store interface {
	// Load yields the entries of a conversation after version after (0: all), oldest first, with Version set. When the
	// iteration ends without an error, it was complete: every entry whose Append had returned before Load was called is
	// in it. A load that cannot prove that ends with an error. A conversation nobody wrote to is empty.
	Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error]

	// Append adds e behind version after, which must be the conversation's last, and returns its version. It returns
	// ErrConflict, and stores nothing, when the conversation has gone on; transport.ErrTooLarge or ErrInvalid when it
	// can never keep e. When it returns another error, e may have been stored or not: load to find out. e is not retained.
	Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error)

	// Contexts yields the tenant's conversations, the most recently changed first.
	Contexts(ctx context.Context, tenant string) iter.Seq2[ContextInfo, error]
}

// Snapshots is implemented by stores that keep a fold of a conversation beside its log, so that a long one loads fast.
// A snapshot is a cache: losing one costs time only.
type Snapshots interface {
	// Snapshot returns the newest snapshot and the version it stands for, or 0 and nil when there is none.
	Snapshot(ctx context.Context, tenant, contextID string) (conversation.Version, []byte, error)
	// PutSnapshot replaces the snapshot.
	PutSnapshot(ctx context.Context, tenant, contextID string, v conversation.Version, data []byte) error
}

// SpendLog is implemented by stores that keep what was spent on models each day, for all conversations of a tenant together.
// A day is written as 2006-01-02, in UTC; it can be forgotten three days after it.
type SpendLog interface {
	// Spent returns what was spent on a day: at least what every Spend counted that had returned before.
	Spent(ctx context.Context, tenant, day string) (llm.Usage, error)
	// Spend adds u to what was spent on a day and returns the sum. Every one of several at the same time counts. When it
	// returns an error, u may have been counted or not.
	Spend(ctx context.Context, tenant, day string, u llm.Usage) (llm.Usage, error)
}

// Notes is implemented by stores that keep small values by name: what is known of agents, what was learned about them. A value
// is at most [MaxNote] bytes.
type Notes interface {
	// Note returns a note; one without a value, of version 0, when there is none. A kind is a short word of lower-case letters.
	Note(ctx context.Context, tenant, kind, key string) (Note, error)
	// Notes yields the notes of a kind, in any order.
	Notes(ctx context.Context, tenant, kind string) iter.Seq2[Note, error]
	// PutNote replaces the note whose version is n.Version (0: there is none) and returns its new version. It returns
	// ErrConflict, and keeps nothing, when the note is another one by now; transport.ErrTooLarge or ErrInvalid when it can never
	// keep n. n is not retained.
	PutNote(ctx context.Context, tenant, kind string, n Note) (conversation.Version, error)
	// EraseNote is PutNote, and when it returns without an error nobody can read any more what the note was before, neither from the
	// store nor from its files or copies of them. It costs more. After another error than those of PutNote, n may have been put or
	// not, and what the note was may still be in the files: to do it again, at the version that the note has then, erases that, too.
	EraseNote(ctx context.Context, tenant, kind string, n Note) (conversation.Version, error)
	// DeleteNote removes a note, whatever its version, as EraseNote does. One that is not there is no error.
	DeleteNote(ctx context.Context, tenant, kind, key string) error
}

// NoteAgent is the kind of the notes by which a Cortex remembers whom it knew. They say what cards say, and everybody of the tenant
// reads them: a store that hides notes leaves these as they are, like those of [NoteRefusal], and their files may keep what they were.
const NoteAgent = "agent"

// NoteEvidence is the kind of the notes that hold what was learned about agents: the key is the agent's id, the value a JSON list of
// router.Evidence. Deleting one makes the agent's evidence forgotten for good, also by an orchestrator that runs.
const NoteEvidence = "evidence"

// NoteRefusal is the kind of the notes that say what became of messages that are in no log, since they were refused. They name no
// message but by its digest, and hold Cortex's own words only: everybody of the tenant may read them.
const NoteRefusal = "refusal"

// NoteOutline is the kind of the notes in which a store may keep outlines, see [Outlines].
const NoteOutline = "outline"

// Eraser is implemented by stores that can forget a conversation.
type Eraser interface {
	// Erase removes the log of a conversation and everything that was kept beside it, so that nothing of it can be read from the
	// store or from its files. A conversation that is not there is no error. Who appends to it at the same time gets
	// ErrConflict, or begins it anew.
	Erase(ctx context.Context, tenant, contextID string) error
}

// MaxNote bounds a note, in bytes.
const MaxNote = 256 << 10

// Note is a small value that a store keeps.
type Note struct {
	Key     string // an id as [transport.CheckID] allows it
	Value   []byte
	Version conversation.Version // 0 for one that is not stored yet
}

// ErrConflict is returned by Store.Append when the version it was given is not the conversation's last, and alike by Notes.PutNote and
// Notes.EraseNote.
var ErrConflict = errors.New("it has gone on in the meantime")

// ContextInfo describes a conversation in a list.
type ContextInfo struct {
	ContextID string
	Title     string               // the beginning of the first message, on one line, at most 80 bytes
	Entries   int                  // length of the log
	Updated   time.Time            // of the last entry
	Version   conversation.Version // likewise
	Outline   *Outline             // of all of these entries; nil: none is kept, and loading the conversation tells
}
