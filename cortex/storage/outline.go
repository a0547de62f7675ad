package storage

import (
	"context"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
)

// Outline is what a list shows of a conversation. One without an owner says only where the conversation is in a list, and its whole log the rest.
type Outline struct {
	Version conversation.Version `json:"version"`          // of the last entry that went into it
	Entries int                  `json:"entries"`          // length of the log then
	Updated time.Time            `json:"updated"`          // of that entry
	Title   string               `json:"title"`            // as in [ContextInfo]
	Life    string               `json:"life,omitempty"`   // as in [conversation.Conversation]
	Owner   string               `json:"owner,omitempty"`  // likewise
	Shared  []string             `json:"shared,omitempty"` // likewise
	Usage   llm.Usage            `json:"usage,omitzero"`   // spent on it
}

// Whole reports whether there is an outline that says all.
func (o *Outline) Whole() bool { return o != nil && o.Owner != "" }

// OutlineOf returns the outline of a conversation whose last entry is of this time. An empty title is one that is not known.
func OutlineOf(c *conversation.Conversation, title string, updated time.Time) Outline {
	return Outline{
		Version: c.Version, Entries: int(c.Seq), Title: title, Updated: updated, //nolint:gosec // the length of a log
		Life: c.Life, Owner: c.Owner, Shared: c.Shared, Usage: c.Usage,
	}
}

// Outlines is implemented by stores that keep outlines beside the logs, so that a list costs no more when more is said. An outline is a
// cache: losing one costs time only, and one that does not stand for the whole log is not shown.
type Outlines interface {
	// PutOutline keeps o in place of the outline that is there; when it has no title, with the one that the log gives. It need not be kept when
	// another one is put at the same time, nor when the log has no such entry: that was erased. o is not retained.
	PutOutline(ctx context.Context, tenant, contextID string, o Outline) error
}
