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
	// Load yields the entries of a conversation after version after (0: all), oldest first, with Version set. An iteration that ends
	// without an error was complete: it included every entry whose Append had returned before Load was called. A load that cannot
	// guarantee that ends with an error. A conversation without a log is empty.
	Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error]

	// Append adds e after version after, which must be the conversation's last, and returns its version. It returns ErrConflict, and
	// stores nothing, when the log has newer entries; transport.ErrTooLarge or ErrInvalid when it can never store e. After any other
	// error e may have been stored or not: the caller loads the log to find out. e is not retained.
	Append(ctx context.Context, tenant, contextID string, after conversation.Version, e *conversation.Entry) (conversation.Version, error)

	// Contexts yields the tenant's conversations, the most recently changed first.
	Contexts(ctx context.Context, tenant string) iter.Seq2[ContextInfo, error]
}

// Ends is implemented by stores that find the end of a log without reading what is before it.
type Ends interface {
	// End returns the last entry of a conversation, with Version set, or nil when its log is empty or the entry cannot be read. It includes every
	// entry whose Append had returned before End was called. That a log is empty is for Load to say.
	End(ctx context.Context, tenant, contextID string) (*conversation.Entry, error)
}

// Snapshots is implemented by stores that keep a fold of a conversation beside its log, so that a long log loads fast.
// A snapshot is a cache: losing one only costs time.
type Snapshots interface {
	// Snapshot returns the newest snapshot and its version, or 0 and nil when there is none.
	Snapshot(ctx context.Context, tenant, contextID string) (conversation.Version, []byte, error)
	// PutSnapshot replaces the snapshot.
	PutSnapshot(ctx context.Context, tenant, contextID string, v conversation.Version, data []byte) error
}

// SpendLog is implemented by stores that record what is spent on models each day, by all conversations of a tenant together.
// A day is formatted as 2006-01-02, in UTC; a store may forget it three days later.
type SpendLog interface {
	// Spent returns what was spent on a day, at least everything that was counted by each Spend that had returned before.
	Spent(ctx context.Context, tenant, day string) (llm.Usage, error)
	// Spend adds u to what was spent on a day and returns the sum. Concurrent calls all count. After an error u may have been counted
	// or not.
	Spend(ctx context.Context, tenant, day string, u llm.Usage) (llm.Usage, error)
}

// Notes is implemented by stores that keep small values by name, such as known agents and what was learned about them. A value
// is at most [MaxNote] bytes.
type Notes interface {
	// Note returns a note, or one without a value and of version 0 when there is none. A kind is a short word of lower-case letters.
	Note(ctx context.Context, tenant, kind, key string) (Note, error)
	// Notes yields the notes of a kind, in any order.
	Notes(ctx context.Context, tenant, kind string) iter.Seq2[Note, error]
	// PutNote replaces the note whose version is n.Version (0: there is none) and returns its new version. It returns
	// ErrConflict, and stores nothing, when the note has another version by now; transport.ErrTooLarge or ErrInvalid when it can never
	// store n. n is not retained.
	PutNote(ctx context.Context, tenant, kind string, n Note) (conversation.Version, error)
	// EraseNote is PutNote with erasure: when it returns without an error, the previous value can no longer be read, neither from the
	// store nor from its files or copies of them. It costs more. After an error other than those of PutNote, n may have been stored or
	// not, and the previous value may remain in the files; calling EraseNote again at the note's present version erases that as well.
	EraseNote(ctx context.Context, tenant, kind string, n Note) (conversation.Version, error)
	// DeleteNote removes a note and erases its value as EraseNote does. With a version that is not 0 it returns ErrConflict, and removes
	// nothing, when the note has another one by now. Deleting a missing note is no error.
	DeleteNote(ctx context.Context, tenant, kind, key string, version conversation.Version) error
}

// NewNotes is implemented by a [Notes] that finds what is new in it.
type NewNotes interface {
	// NewNotes returns the keys of the notes of a kind that were put since an earlier call, and what to give to the next call; 0 is for all notes. Some keys
	// may be there twice, and some of the notes deleted by now.
	NewNotes(ctx context.Context, tenant, kind string, since conversation.Version) (keys []string, now conversation.Version, err error)
}

// NoteAgent is the kind of the notes in which Cortex remembers agents. They hold what cards say, which everybody of the tenant may read:
// a store that encrypts notes may leave these in plain text, like those of [NoteRefusal], and need not erase them from its files.
const NoteAgent = "agent"

// NoteEvidence is the kind of the notes that hold what was learned about agents: the key is the agent's id, the value a JSON list of
// router.Evidence. Deleting a note makes running orchestrators forget the agent's evidence as well.
const NoteEvidence = "evidence"

// NoteRecord is the kind of the notes that hold how agents that bid have done their tasks: the key is the agent's id, the value a JSON object of
// learn.Record by skill. They hold none of anybody's words, so a store that encrypts notes may leave them in plain text.
const NoteRecord = "record"

// NoteCalls is the kind of the notes that count calls for rules of the policy: the keys are digests of who calls what, and the values hold digests, times and ids of tasks.
const NoteCalls = "calls"

// NoteRefusal is the kind of the notes about refused messages, which are in no log. They identify a message only by its digest and hold
// only Cortex's own words, so everybody of the tenant may read them.
const NoteRefusal = "refusal"

// NoteOutline is the kind of the notes in which a store may keep outlines, see [Outlines].
const NoteOutline = "outline"

// NoteDeletion is the kind of the notes about deletions that have begun: the key is the conversation's id. They hold none of its words.
const NoteDeletion = "deletion"

// NotePush is the kind of the notes that say where events of a conversation are sent: the key is the conversation's id, a dot, and a word without
// dots. They hold addresses and secrets of strangers, and are erased with the conversation.
const NotePush = "push"

// NoteReply is the kind of the notes that say to whom a bridge owes the answer to a message: the key is the conversation's id, a dot, and a word
// without dots. They hold names and ids of strangers, and are erased with the conversation.
const NoteReply = "reply"

// NoteConsole is the kind of the note with the key that signs the sessions of the console in the browser, where there are no keys.
const NoteConsole = "console"

// NoteLogin is the kind of the notes about who is logged in to the console by an identity provider: the key is the hash of the session's cookie, the
// value says who it is, and until when. Deleting a note ends the session.
const NoteLogin = "login"

// NoteCall is the kind of the notes that say that somebody else was perhaps called for a task, where a second call would be too many: the key is derived
// from the task. They hold none of its words, so a store that encrypts notes may leave them in plain text.
const NoteCall = "call"

// NoteLease is the kind of the notes about agents that have registered for a time: the key is derived from the agent's id. They hold addresses of
// strangers.
const NoteLease = "lease"

// NoteSent is the kind of the notes about tasks that somebody else has, and what came of them: the key is the conversation's id, a dot, and a word
// without dots. They may hold results, and are erased with the conversation.
const NoteSent = "sent"

// NoteGuest is the kind of the notes about agents of others that a bridge has heard of, so that it knows them after a restart: the key is derived from
// the agent's name.
const NoteGuest = "guest"

// Clock is implemented by stores that date what they store by a clock that is not the caller's, as Entry.Time is.
type Clock interface {
	// Clock returns the time by that clock, and the time by it when an entry was last stored. Either is zero if it is unknown.
	Clock(ctx context.Context) (now, last time.Time, err error)
	// Stored returns the time by that clock when the last entry of a conversation was stored; zero if there is none.
	Stored(ctx context.Context, tenant, contextID string) (time.Time, error)
}

// Eraser is implemented by stores that can erase a conversation.
type Eraser interface {
	// Erase removes the log of a conversation and everything stored beside it, so that nothing of it can be read from the store or from
	// its files. Erasing a missing conversation is no error. A concurrent Append returns ErrConflict or begins the conversation anew.
	// The caller puts a mark of it before, by [KeepErased]: without one, an orchestrator that knows the conversation takes its log for damaged.
	Erase(ctx context.Context, tenant, contextID string) error
}

// MaxNote bounds the value of a note, in bytes.
const MaxNote = 256 << 10

// Note is a small value that a store keeps.
type Note struct {
	Key     string // an id as [transport.CheckID] allows it
	Value   []byte
	Version conversation.Version // 0: not stored yet
}

// ErrConflict is returned by Store.Append when the given version is not the conversation's last, and likewise by Notes.PutNote and
// Notes.EraseNote.
var ErrConflict = errors.New("it has gone on in the meantime")

// ContextInfo describes a conversation in a list.
type ContextInfo struct {
	ContextID string
	Title     string               // the beginning of the first message, on one line, at most 80 bytes
	Entries   int                  // length of the log
	Updated   time.Time            // time of the last entry
	Version   conversation.Version // of the last entry
	Outline   *Outline             // covers all entries; nil: none is stored, and the log has to be loaded
}
