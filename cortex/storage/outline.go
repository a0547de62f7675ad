package storage

import (
	"context"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
)

// Outline is what a list shows of a conversation and else only its whole log tells.
type Outline struct {
	Version conversation.Version // of the last entry that went into it
	Entries int                  // length of the log then
	Updated time.Time            // of that entry
	Life    string               // as in [conversation.Conversation]
	Owner   string               // likewise
	Shared  []string             // likewise
	Usage   llm.Usage            // spent on it
}

// OutlineOf returns the outline of a conversation whose last entry is of this time.
func OutlineOf(c *conversation.Conversation, updated time.Time) Outline {
	return Outline{
		Version: c.Version, Entries: int(c.Seq), Updated: updated, //nolint:gosec // the length of a log
		Life: c.Life, Owner: c.Owner, Shared: c.Shared, Usage: c.Usage,
	}
}

// Outlines is implemented by stores that keep outlines beside the logs, so that a list costs no more when more is said. An outline is a
// cache: losing one costs time only, and one that does not stand for the whole log is not shown.
type Outlines interface {
	// PutOutline keeps o in place of the outline that is there. It need not be kept when another one is put at the same time, nor when the
	// log has no such entry: that was erased. o is not retained.
	PutOutline(ctx context.Context, tenant, contextID string, o Outline) error
}
