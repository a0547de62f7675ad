package nats

import (
	"maps"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

// checks look at the conversations and the files while a store is checked, those of each account apart.
type checks struct {
	conversations map[string]*jetstore.Audit
	files         map[string]*nats.FileAudit
}

// audit is what they have found of conversations.
type audit map[string]jetstore.Audited

// notes is what a service says of its store to `cortex doctor`.
type notes struct {
	jetstore.Audited
	Loose []erase.Loose `json:"loose_files,omitempty"`
}

func newChecks() checks {
	return checks{map[string]*jetstore.Audit{}, map[string]*nats.FileAudit{}}
}

// inspect is a [nats.Inspector].
func (c checks) inspect(account, stream string, since uint64) func(*storecheck.Record) {
	if c.files[account] == nil {
		c.files[account] = &nats.FileAudit{}
	}
	files := c.files[account].Inspect(stream)
	if stream != jetstore.Stream {
		return files
	}
	a := jetstore.NewAudit(since)
	c.conversations[account] = a
	return func(r *storecheck.Record) {
		files(r)
		if r.Gone {
			a.Gone(r.Seq)
		} else {
			a.Message(r.Seq, r.Subject, r.Header, r.Data)
		}
	}
}

// loose returns whose files those are of which nothing speaks.
func (c checks) loose() []erase.Loose {
	sizes := map[transport.Object]int64{}
	for _, a := range c.files {
		maps.Copy(sizes, a.Silent())
	}
	return erase.LooseOf(sizes)
}

// end ends the checks of conversations.
func (c checks) end() audit {
	ended := audit{}
	for account, a := range c.conversations {
		found := a.End()
		for i := range found.Damaged {
			found.Damaged[i].Account = account
		}
		ended[account] = found
	}
	return ended
}

// all returns what was found as one.
func (a audit) all() jetstore.Audited {
	all := jetstore.Audited{Damaged: []jetstore.Damaged{}}
	for _, found := range a {
		all.Conversations += found.Conversations
		all.Entries += found.Entries
		all.Lost += found.Lost
		all.Damaged = append(all.Damaged, found.Damaged...)
	}
	return all
}
