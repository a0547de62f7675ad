package storage

import (
	"context"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
)

// Outline is what a list shows of a conversation. Without an Owner it only gives the conversation its place in a list, and the log has to be
// loaded for the rest.
type Outline struct {
	Version conversation.Version `json:"version"`          // of the last entry included
	Entries int                  `json:"entries"`          // length of the log at that entry
	Updated time.Time            `json:"updated"`          // time of that entry
	Title   string               `json:"title"`            // as in [ContextInfo]
	Life    string               `json:"life,omitempty"`   // as in [conversation.Conversation]
	Owner   string               `json:"owner,omitempty"`  // likewise
	Shared  []string             `json:"shared,omitempty"` // likewise
	Turns   int                  `json:"turns,omitempty"`  // number of turns; 0: not known to the older version that wrote this
	Usage   llm.Usage            `json:"usage,omitzero"`   // spent on the conversation
	Idle    bool                 `json:"idle,omitempty"`   // known to have no task that is with an agent
}

// Whole reports whether o is an outline with all of its fields; o may be nil.
func (o *Outline) Whole() bool { return o != nil && o.Owner != "" && o.Turns > 0 }

// maxShared bounds the names in an outline of those that a conversation is shared with, in bytes: a list reads the outlines of all conversations at once.
const maxShared = 2 << 10

// OutlineOf returns the outline of a conversation whose last entry was made at updated. An empty title means that it is unknown. It leaves out whose a
// conversation is that is shared with very many.
func OutlineOf(c *conversation.Conversation, title string, updated time.Time) Outline {
	o := Outline{
		Version: c.Version, Entries: int(c.Seq), Title: title, Updated: updated, //nolint:gosec // the length of a log
		Life: c.Life, Owner: c.Owner, Shared: c.Shared, Turns: c.Begun, Usage: c.Usage, Idle: len(c.Running()) == 0,
	}
	names := 0
	for _, id := range c.Shared {
		names += len(id)
	}
	if names > maxShared {
		o.Owner, o.Shared, o.Turns = "", nil, 0
	}
	return o
}

// Outlines is implemented by stores that keep outlines beside the logs, so that listing conversations does not load them. An outline is a
// cache: losing one only costs time, and an outline that does not cover the whole log is not shown.
type Outlines interface {
	// PutOutline replaces the conversation's outline by o. An empty title is filled in from the log. The store may drop o when another
	// outline is put at the same time, and when the log has no entry of that version because it was erased. o is not retained.
	PutOutline(ctx context.Context, tenant, contextID string, o Outline) error
}
