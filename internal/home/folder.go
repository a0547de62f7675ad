package home

import (
	"context"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

// Folder is the data folder of a server that may or may not run.
type Folder interface {
	// Empty reports whether the folder is empty and nothing is remembered about its content. A folder that cannot be read is not empty:
	// using it fails with the reason.
	Empty() bool
	// Keyed reports whether its content was stored by a server with keys. With an error that cannot be read: whoever takes it for one without keys may begin to
	// serve without.
	Keyed() (bool, error)
	// Known returns what the server that runs on it has recorded about its state; nil when nothing is recorded yet.
	Known() (*Report, error)
	// Check reads everything that is stored. No server may run on the folder.
	Check(ctx context.Context) (*Report, error)
}

// Report is what is known about the state of stored data.
type Report struct {
	Streams       []string // by account, followed by a slash
	Findings      []storecheck.Finding
	Conversations jetstore.Audited            // of all accounts
	ByAccount     map[string]jetstore.Audited // set by Folder.Check only
	Loose         []erase.Loose               // files without a reference
	Accounts      []string                    // accounts with damage; set by Folder.Check only
	Forgotten     bool                        // nothing was remembered: what is missing altogether is unknown
	Outdated      bool                        // likewise for what was stored after the time of which something is remembered
}
