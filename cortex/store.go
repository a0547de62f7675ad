package cortex

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

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
	PutNote(ctx context.Context, tenant, kind string, n Note) (Version, error)
	// EraseNote is PutNote, and when it returns without an error nobody can read any more what the note was before, neither from the
	// store nor from its files or copies of them. It costs more. After another error than those of PutNote, n may have been put or
	// not, and what the note was may still be in the files: to do it again, at the version that the note has then, erases that, too.
	EraseNote(ctx context.Context, tenant, kind string, n Note) (Version, error)
	// DeleteNote removes a note, whatever its version, as EraseNote does. One that is not there is no error.
	DeleteNote(ctx context.Context, tenant, kind, key string) error
}

// NoteAgent is the kind of the notes by which a Cortex remembers whom it knew. They say what cards say, and everybody of the tenant
// reads them: a store that hides notes leaves these as they are, like those of [NoteRefusal], and their files may keep what they were.
const NoteAgent = "agent"

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
	Version Version // 0 for one that is not stored yet
}

// ErrConflict is returned by Store.Append when the version it was given is not the conversation's last, and alike by Notes.PutNote and
// Notes.EraseNote.
var ErrConflict = errors.New("it has gone on in the meantime")

// ErrDamaged is returned by Store.Load for a conversation whose log has lost entries, or has some that are not what was appended. The
// entries before that are yielded. It stays so until somebody repairs the store, or erases the conversation.
var ErrDamaged = errors.New("the log of the conversation is damaged")

// Version is a place in a conversation's log, given by the store: greater is later, 0 is before the first entry.
type Version uint64

// Entry is one record of a conversation's log: an event, and what was decided about it. What Cortex sends follows from
// the log alone, so an entry that is stored is never decided again.
type Entry struct {
	Version Version `json:"-"` // set by the store

	Seq  uint64    `json:"seq"` // place in the conversation, from 1 without gaps
	Time time.Time `json:"time"`
	// Life, made of the first event as the id of a turn is, is in the first entry, and goes into the ids that are derived: a
	// conversation that was erased may begin anew. Old logs have the id of that event, or none.
	Life  string           `json:"life,omitempty"`
	Cause *transport.Event `json:"cause"`
	// Turn is the turn that the entry belongs to, see [transport.TurnID]; in old logs the id of the user's message. Empty when it
	// belongs to none or several.
	Turn string `json:"turn,omitempty"`
	// Decision is what the cause led to; nil when nothing was to be decided.
	Decision *llm.Decision `json:"decision,omitempty"`
	// Failure says why no decision could be made; the user is told.
	Failure string `json:"failure,omitempty"`
	// Roster is what the decision was the first to be shown of the agents; nil when that was nothing.
	Roster *Roster `json:"roster,omitempty"`
	// Shortlist are the agents that the decision was offered out of many, the best first; nil when all were offered.
	Shortlist []Candidate `json:"shortlist,omitempty"`
	// Terms are what the decision's delegations were given under, by their ids.
	Terms map[string]Terms `json:"terms,omitempty"`
	// Consent asks the user for a yes: until then the decision's delegations wait.
	Consent string `json:"consent,omitempty"`
	// Withheld says why tasks are not given that could be now, since what they waited for is done: the rules have changed.
	Withheld map[a2a.TaskID]string `json:"withheld,omitempty"`
	// Retries are the tasks that end here without a result and are tried again.
	Retries map[a2a.TaskID]Retry `json:"retries,omitempty"`
	// Rejected says why the result that is the cause was not taken for one: its task fails.
	Rejected string `json:"rejected,omitempty"`
	// Summary stands from now on for the oldest answered turns of the window and the summary before it. When it has no Text,
	// nothing stands for its Turns.
	Summary *llm.Summary `json:"summary,omitempty"`
	// Omitted is how many of the Summary's Turns are left out of its Text, since they could not be summarised.
	Omitted int `json:"omitted,omitempty"`
	// Usage is what was spent beside the decision: on a Summary, whose own Usage is part of it, and on decisions that failed.
	Usage llm.Usage `json:"usage,omitzero"`
	// Sent is when the tasks that this entry sends go out: after Time when the decision took long, or could not be stored at
	// first. Zero, as in old logs, is Time.
	Sent time.Time `json:"sent,omitzero"`
	// Deadline is when the tasks that this entry sends must be done, unless their agent said how long it takes.
	Deadline time.Time `json:"deadline,omitzero"`
	// Asked is when Consent was asked.
	Asked time.Time `json:"asked,omitzero"`
	// ReplyBy is how long the question that the cause asks waits for the user, or Consent.
	ReplyBy time.Time `json:"reply_by,omitzero"`
}

// plainEntry is an Entry as encoding/json writes and reads it.
type plainEntry Entry

// noCause is what encoding/json writes for an entry without its cause. In a string it would have other quotes.
var noCause = []byte(`"cause":null`)

// MarshalJSON writes an entry, with the cause's payload as it came if it is as it came (see [transport.Event.Decode]). The stores call
// it by name: encoding/json would go over every byte of it again.
func (e *Entry) MarshalJSON() ([]byte, error) {
	plain := plainEntry(*e)
	plain.Cause = nil
	b, err := json.Marshal(&plain)
	if err != nil || e.Cause == nil {
		return b, err
	}
	cause, err := e.Cause.MarshalJSON()
	if err != nil {
		return nil, err
	}
	before, after, _ := bytes.Cut(b, noCause)
	b = slices.Concat(before, noCause[:len(noCause)-len("null")], cause, after)
	if bytes.Count(b, []byte("{"))+bytes.Count(b, []byte("[")) > maxNested && !json.Valid(b) {
		return nil, errors.New("it is nested too deeply")
	}
	return b, nil
}

// maxNested is how many values may be nested without a look at how deep: encoding/json reads no more than 10,000 levels.
const maxNested = 5000

// UnmarshalJSON reads an entry. What b does not name stays as it is.
func (e *Entry) UnmarshalJSON(b []byte) error {
	if e.readApart(b) {
		return nil
	}
	return json.Unmarshal(b, (*plainEntry)(e))
}

// readApart reads the cause apart from the rest of b, which is much faster, if b is as MarshalJSON writes it.
func (e *Entry) readApart(b []byte) bool {
	before, cause, found := bytes.Cut(b, []byte(`,"cause":`))
	// No object nor array begins before it, and no string is open.
	if !found || !bytes.HasPrefix(b, []byte(`{"seq":`)) || bytes.ContainsAny(before[1:], `{[\`) || bytes.Count(before, []byte(`"`))%2 != 0 {
		return false
	}
	n := objectLen(cause)
	if n == 0 || n == len(cause) || cause[n] != ',' && cause[n] != '}' {
		return false
	}
	plain, mark, event := plainEntry(*e), new(transport.Event), new(transport.Event)
	plain.Cause = mark
	if event.UnmarshalJSON(cause[:n]) != nil || json.Unmarshal(slices.Concat(before, cause[n:]), &plain) != nil {
		return false
	}
	if plain.Cause != mark || mark.Payload != nil {
		return false // there is another one
	}
	*e = Entry(plain)
	e.Cause = event
	return true
}

// objectLen returns how long the object is that b begins with, or 0.
func objectLen(b []byte) int {
	if !bytes.HasPrefix(b, []byte("{")) {
		return 0
	}
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\':
			i++
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			depth--
		}
		if depth == 0 {
			return i + 1
		}
	}
	return 0
}

// ContextInfo describes a conversation in a list.
type ContextInfo struct {
	ContextID string
	Title     string    // the beginning of the first message, on one line, at most 80 bytes
	Entries   int       // length of the log
	Updated   time.Time // of the last entry
}
