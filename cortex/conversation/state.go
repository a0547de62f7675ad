package conversation

import (
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of what a Conversation keeps.
const (
	maxSeen      = 2048    // event ids by which a repeated event is recognised
	maxWindow    = 64      // answered turns; beyond it the older half is left out, so that the prompt's prefix changes rarely
	maxAsking    = 32      // questions of agents for one person or agent; beyond it the oldest of theirs is canceled
	maxQuestions = 512     // questions for anybody; likewise
	maxWeight    = 1 << 20 // bytes of text in answered turns; as for maxWindow
)

// Conversation is the fold of a conversation's log: what the entries so far mean. It is a cache; the log is the truth.
// It is not safe for concurrent use.
type Conversation struct {
	Tenant    string
	ContextID string
	Life      string    // distinguishes it from an erased one with the same context id; empty in old logs
	Owner     string    // the sender of the first message, see [Conversation.Admits]
	Began     time.Time // Time of the first entry
	Shared    []string  `json:",omitempty"` // who else may speak in it, sorted
	Version   Version   // of the last entry applied
	Seq       uint64    // place of the last entry applied
	Turns     []*Turn   // open turns and a window of answered ones, in the order they began
	Summary   string    // of the answered turns that have left the window; empty when there is none
	Omitted   int       // answered turns that have left the window and are not in the Summary either
	Begun     int       // number of turns, those before the window included
	Usage     llm.Usage // of all turns, those before the window included
	// Listed are the agents that prompts begin with, and Changes the later changes, see [Roster]. A nil Listed means that nothing was
	// recorded yet. With Relist set, the next decision begins the list anew.
	Listed     []prompt.Agent
	Changes    []Change
	Relist     bool
	Choice     bool // Listed is a choice out of more agents
	ListedSize int  `json:"Told"` // bytes of Listed and Changes in a prompt, when they are a choice
	Tasks      map[a2a.TaskID]*Task
	Chains     map[string]*Chain `json:",omitempty"` // of the open turns, by root
	Numbered   int               `json:",omitempty"` // number of files that have got a key
	Seen       []SeenEvent       // the newest events, a ring that begins at SeenAt once full
	SeenAt     int

	ids           idNames
	seen          map[string]uint64
	seenBytes     int           // bytes of the ids in seen
	at            time.Time     // Time of the last entry applied; zero when unknown, as after a snapshot
	rosterWeight  int           // weight of Listed and Changes
	historyCache  []*Turn       // cache of History; nil when stale
	promptHistory []prompt.Turn // the same turns, as prompts show them
	historyWeight int           // the sum of their weights
}

// SeenEvent says which entry an event led to.
type SeenEvent struct {
	ID  string
	Seq uint64
}

// Key identifies a conversation among those of all tenants.
type Key struct{ Tenant, ContextID string }

// Key returns the key of the conversation.
func (c *Conversation) Key() Key { return Key{c.Tenant, c.ContextID} }

// NewConversation returns the fold of an empty log.
func NewConversation(tenant, contextID string) *Conversation {
	return &Conversation{Tenant: tenant, ContextID: contextID, Tasks: map[a2a.TaskID]*Task{}, seen: map[string]uint64{}}
}

// SeenEntry returns the place of the entry that e led to, if e is among the newest events.
func (c *Conversation) SeenEntry(e *transport.Event) (seq uint64, ok bool) {
	seq, ok = c.seen[EventKey(e)]
	return seq, ok
}

// EventKey identifies an event within its conversation. Two senders may choose the same id.
func EventKey(e *transport.Event) string { return e.From + " " + e.ID }

func (c *Conversation) remember(eventID string, seq uint64) {
	if len(c.Seen) < maxSeen {
		c.Seen = append(c.Seen, SeenEvent{eventID, seq})
	} else {
		delete(c.seen, c.Seen[c.SeenAt].ID)
		c.seenBytes -= len(c.Seen[c.SeenAt].ID)
		c.Seen[c.SeenAt] = SeenEvent{eventID, seq}
		c.SeenAt = (c.SeenAt + 1) % maxSeen
	}
	c.seen[eventID] = seq
	c.seenBytes += len(eventID)
}

// Updated returns the time of the last entry; the zero time when it is unknown, as after a snapshot.
func (c *Conversation) Updated() time.Time { return c.at }

// Undated reports whether the time of the last entry is unknown, as after a snapshot.
func (c *Conversation) Undated() bool { return c.at.IsZero() }

// Stands reports whether e, whose version is not known, is entry seq of the log. Of an entry that is not the last one it knows only if it has ended a
// turn that is in the window.
func (c *Conversation) Stands(e *Entry, seq uint64) bool {
	if e.Seq != seq {
		return false
	}
	if seq == c.Seq {
		same := *e
		same.Version = c.Version
		return c.EndsWith(&same)
	}
	turn := c.Turn(e.Turn)
	return turn != nil && turn.AnswerSeq == seq && turn.Answered.Equal(e.Time)
}

// EndsWith reports whether e is the last entry applied. After a power failure another entry may have its version.
func (c *Conversation) EndsWith(e *Entry) bool {
	if e.Cause == nil || e.Version != c.Version || e.Seq != c.Seq || !e.Time.Equal(c.at) {
		return false
	}
	seq, ok := c.SeenEntry(e.Cause)
	return ok && seq == c.Seq
}
