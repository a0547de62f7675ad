package home

import (
	"context"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

// Folder is the folder of a server that may or may not run.
type Folder interface {
	// Empty reports whether there is nothing in it, and nothing is remembered of what was. What cannot be looked at is not empty: whoever
	// needs it says why it cannot be used.
	Empty() bool
	// Keyed reports whether it has what was stored with keys.
	Keyed() bool
	// Known returns what the server that runs on it says of its state; nil when it has not said anything yet.
	Known() (*Report, error)
	// Check reads everything. No server may run on it.
	Check(ctx context.Context) (*Report, error)
}

// Report is what is known of the state of what is stored.
type Report struct {
	Streams       []string // by the account and a slash
	Findings      []storecheck.Finding
	Conversations jetstore.Audited
	Loose         []erase.Loose // files of which nothing speaks
	Accounts      []string      // in which something is damaged; of Folder.Check only
	Forgotten     bool          // nothing was remembered: what is missing altogether cannot be told
}
