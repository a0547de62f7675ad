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
	maxSeen    = 2048    // event ids by which a repeated event is recognised
	maxWindow  = 64      // answered turns; when more, the older half is left out, so that the prompt's prefix changes rarely
	maxWaiting = 32      // questions that wait for one and the same; when more, their oldest is given up
	maxAsked   = 512     // questions that wait for anybody; likewise
	maxWeight  = 1 << 20 // bytes of text in them; likewise
)

// Conversation is the fold of a conversation's log: what the entries so far mean. It is a cache; the log is the truth.
// It is not safe for concurrent use.
type Conversation struct {
	Tenant    string
	ContextID string
	Life      string    // tells it from one of the same name that was erased; empty in old logs
	Owner     string    // who began it, see [Conversation.Admits]
	Shared    []string  `json:",omitempty"` // who else may speak in it, in order
	Version   Version   // of the last entry applied
	Seq       uint64    // its place in the conversation
	Turns     []*Turn   // open turns and a window of answered ones, in the order they began
	Summary   string    // of the answered turns that have left the window; empty when there is none
	Omitted   int       // answered turns that have left the window and are not in the Summary either
	Usage     llm.Usage // of all turns, those before the window included
	// Listed are the agents that prompts begin with, and Changes how these changed since, see [Roster]; a nil Listed says
	// that nothing was recorded yet. With Relist the next decision begins the list anew.
	Listed     []prompt.Agent
	Changes    []Change
	Relist     bool
	Choice     bool // Listed is a choice out of more agents
	ListedSize int  `json:"Told"` // bytes of Listed and Changes in a prompt, where they are a choice
	Tasks      map[a2a.TaskID]*Task
	Chains     map[string]*Chain `json:",omitempty"` // of the open turns, by their roots
	Numbered   int               `json:",omitempty"` // files that have got a key
	Seen       []SeenEvent       // the newest events, a ring that begins at SeenAt once full
	SeenAt     int

	ids    idNames
	seen   map[string]uint64
	named  int           // bytes of the ids in it
	at     time.Time     // Time of the last entry applied; zero: it is not known, as behind a snapshot
	listed int           // weight of Listed and Changes
	past   []*Turn       // what History returns; nil: it is to be looked for
	shown  []prompt.Turn // the same, as prompts show it
}

// SeenEvent says which entry an event led to.
type SeenEvent struct {
	ID  string
	Seq uint64
}

// Key names a conversation among those of all tenants.
type Key struct{ Tenant, ContextID string }

// Key returns the name of the conversation.
func (c *Conversation) Key() Key { return Key{c.Tenant, c.ContextID} }

// NewConversation returns the fold of an empty log.
func NewConversation(tenant, contextID string) *Conversation {
	return &Conversation{Tenant: tenant, ContextID: contextID, Tasks: map[a2a.TaskID]*Task{}, seen: map[string]uint64{}}
}

// SeenEntry returns the place of the entry that an event led to, if the event is one of the newest.
func (c *Conversation) SeenEntry(e *transport.Event) (seq uint64, ok bool) {
	seq, ok = c.seen[EventKey(e)]
	return seq, ok
}

// EventKey names an event among those of its conversation. Two senders may choose the same id.
func EventKey(e *transport.Event) string { return e.From + " " + e.ID }

func (c *Conversation) remember(eventID string, seq uint64) {
	if len(c.Seen) < maxSeen {
		c.Seen = append(c.Seen, SeenEvent{eventID, seq})
	} else {
		delete(c.seen, c.Seen[c.SeenAt].ID)
		c.named -= len(c.Seen[c.SeenAt].ID)
		c.Seen[c.SeenAt] = SeenEvent{eventID, seq}
		c.SeenAt = (c.SeenAt + 1) % maxSeen
	}
	c.seen[eventID] = seq
	c.named += len(eventID)
}

// Updated returns when the last entry was made; the zero time when that is not known, as behind a snapshot.
func (c *Conversation) Updated() time.Time { return c.at }

// Undated reports whether it is not known when the last entry was made.
func (c *Conversation) Undated() bool { return c.at.IsZero() }

// EndsWith reports whether e is the last entry applied. After a power cut another one may have its version.
func (c *Conversation) EndsWith(e *Entry) bool {
	if e.Cause == nil || e.Version != c.Version || e.Seq != c.Seq || !e.Time.Equal(c.at) {
		return false
	}
	seq, ok := c.SeenEntry(e.Cause)
	return ok && seq == c.Seq
}
