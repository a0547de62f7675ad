package registry

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// agent is what a Registry works on; readers get the Record that is made from it.
type agent struct {
	id, tenant string
	pinned     *a2a.AgentCard // of the list of well-known agents; nil: not on it
	instances  map[string]*instance
	registered time.Time
	seen       time.Time
	last       *a2a.AgentCard // of an agent that is gone
	warned     []string       // the cards that were announced side by side at the last change
	record     *Record        // nil: to be made
}

type instance struct {
	Instance
	card      *a2a.AgentCard
	announced uint64 // serial of when it began to announce this card: greater is newer
}

// current returns the agent's record.
func (a *agent) current() *Record {
	if a.record != nil {
		return a.record
	}
	r := &Record{
		ID: a.id, Tenant: a.tenant, Card: a.pinned, Origin: OriginWellKnown, Pinned: a.pinned != nil,
		RegisteredAt: a.registered, LastSeen: a.seen,
	}
	var newest *instance
	forever := false
	for _, in := range a.instances {
		r.Instances = append(r.Instances, in.Instance)
		if newest == nil || in.before(newest) {
			newest = in
		}
		forever = forever || in.ExpiresAt.IsZero()
		if in.ExpiresAt.After(r.ExpiresAt) {
			r.ExpiresAt = in.ExpiresAt
		}
	}
	slices.SortFunc(r.Instances, func(x, y Instance) int { return cmp.Compare(x.ID, y.ID) })
	if forever {
		r.ExpiresAt = time.Time{}
	}
	switch {
	case newest != nil:
		r.Card, r.Origin, r.State = newest.card, OriginAnnounced, newest.State
	case a.pinned == nil:
		r.Card, r.Origin, r.State = a.last, OriginAnnounced, StateGone
	case a.seen.IsZero():
		r.State = StateUnknown
	default:
		r.State = StateStale
	}
	a.record = r
	return r
}

// before reports whether in speaks for the agent rather than o: active before draining before stale, then the card that
// was new last.
func (in *instance) before(o *instance) bool {
	if rank(in.State) != rank(o.State) {
		return rank(in.State) < rank(o.State)
	}
	return in.announced > o.announced
}

func rank(s State) int {
	return slices.Index([]State{StateActive, StateDraining, StateStale}, s)
}

// cards returns the hashes of the different cards that active instances announce, in order.
func (a *agent) cards() []string {
	set := map[string]bool{}
	for _, in := range a.instances {
		if in.State == StateActive {
			set[in.CardHash] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}
