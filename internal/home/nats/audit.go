package nats

import (
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

// checks look at the conversations while a store is checked, those of each account apart.
type checks map[string]*jetstore.Audit

// audit is what they have found.
type audit map[string]jetstore.Audited

func newChecks() checks { return checks{} }

// inspect is a [nats.Inspector].
func (c checks) inspect(account, stream string, since uint64) func(*storecheck.Record) {
	if stream != jetstore.Stream {
		return nil
	}
	a := jetstore.NewAudit(since)
	c[account] = a
	return func(r *storecheck.Record) {
		if r.Gone {
			a.Gone(r.Seq)
		} else {
			a.Message(r.Seq, r.Subject, r.Header, r.Data)
		}
	}
}

// end ends the checks.
func (c checks) end() audit {
	ended := audit{}
	for account, a := range c {
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
