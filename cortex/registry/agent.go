package registry

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/transport"
)

// content is a card, with what is found out about it once.
type content struct {
	card    *a2a.AgentCard
	hash    string
	size    int // of its text
	spec    *agentcard.Spec
	skills  []string        // their ids, sorted
	version *semver.Version // of the card; nil: it is not semantic
}

// hashOf returns what is equal for cards of the same content, and the size of their text.
func hashOf(c *a2a.AgentCard) (hash string, size int, err error) {
	text, err := json.Marshal(c)
	if err != nil {
		return "", 0, err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), len(text), nil
}

func newContent(c *a2a.AgentCard, hash string, size int) *content {
	skills := make([]string, len(c.Skills))
	for i := range c.Skills {
		skills[i] = agentcard.SkillID(&c.Skills[i])
	}
	slices.Sort(skills)
	version, _ := semver.NewVersion(c.Version) // nil with an error
	return &content{card: c, hash: hash, size: size, spec: agentcard.SpecOf(c), skills: slices.Compact(skills), version: version}
}

// agent is what a Registry works on; readers get the Record that is made from it.
type agent struct {
	id, tenant string
	pinned     *content // of the list of well-known agents; nil: not on it
	instances  map[string]*instance
	registered time.Time
	seen       time.Time
	last       *content // of an agent that is gone
	warned     []string // the cards that were announced side by side at the last change
	refused    string   // why it may not be given work
	claimed    []string // the abilities that are its own, with Config.StrictAbilities
	bytes      int      // of the different cards of its instances
	shown      view     // without a record: to be made
}

// view is an agent as readers see it. Without a record, there is no agent.
type view struct {
	record  *Record
	content *content // what the record's card is of
}

type instance struct {
	id             string
	content        *content
	announced      uint64 // serial of when it began to announce this card: greater is newer
	draining       bool
	since, seen    time.Time
	ttl, heartbeat time.Duration
	due            time.Time // when its silence has been too long; zero: never
	leased         bool      // due is for the transport to say first
	event          string    // id of the event that announced it last, and its time
	sent           time.Time
	grace          bool  // it is not heard of since a pause of Cortex, which is not held against it until due
	reread         bool  // in this grace, the transport has delivered what it retains once more
	lost           bool  // the transport does not retain it
	host           *host // that it lives in; nil: none
}

// there reports whether readers see the agent.
func (a *agent) there() bool { return a.pinned != nil || len(a.instances) > 0 }

// view returns the agent as it is now.
func (a *agent) view() view {
	if a.shown.record != nil {
		return a.shown
	}
	r := &Record{
		ID: a.id, Tenant: a.tenant, Origin: OriginAnnounced, Pinned: a.pinned != nil, Refused: a.refused,
		RegisteredAt: a.registered, LastSeen: a.seen,
	}
	forever := false
	for _, in := range a.instances {
		r.Instances = append(r.Instances, Instance{
			ID: in.id, State: in.state(), CardHash: in.content.hash, Since: in.since, LastSeen: in.seen, ExpiresAt: in.due,
		})
		forever = forever || in.due.IsZero()
		if in.due.After(r.ExpiresAt) {
			r.ExpiresAt = in.due
		}
	}
	slices.SortFunc(r.Instances, func(x, y Instance) int { return cmp.Compare(x.ID, y.ID) })
	if forever {
		r.ExpiresAt = time.Time{}
	}
	newest, c := a.speaker()
	switch {
	case newest != nil:
		r.State = newest.state()
	case a.pinned != nil:
		r.State, r.Origin = StateUnknown, OriginWellKnown
	default:
		r.State = StateGone
	}
	if a.refused != "" && r.State != StateGone {
		r.State = StateRefused
	}
	r.Card, r.Version, r.Spec = c.card, c.card.Version, c.spec
	a.shown = view{r, c}
	return a.shown
}

// speaker returns the instance that speaks for the agent, or nil, and the card that holds.
func (a *agent) speaker() (*instance, *content) {
	var newest *instance
	for _, in := range a.instances {
		if newest == nil || in.before(newest) {
			newest = in
		}
	}
	switch {
	case newest != nil:
		return newest, newest.content
	case a.pinned != nil:
		return nil, a.pinned
	}
	return nil, a.last
}

// before reports whether in speaks for the agent rather than o: active before draining, then the higher version, so that every
// reader of the cards takes the same one, whatever the order in which they come; then the card that was new last.
func (in *instance) before(o *instance) bool {
	if in.draining != o.draining {
		return o.draining
	}
	if c := compareVersions(in.content.version, o.content.version); c != 0 {
		return c > 0
	}
	return in.announced > o.announced
}

func (in *instance) state() State {
	if in.draining {
		return StateDraining
	}
	return StateActive
}

// content returns the card with this hash if one of the instances announces it, so that it is kept once.
func (a *agent) content(hash string) *content {
	for _, in := range a.instances {
		if in.content != nil && in.content.hash == hash {
			return in.content
		}
	}
	if a.pinned != nil && a.pinned.hash == hash {
		return a.pinned
	}
	return nil
}

// size is how many bytes the different cards of its instances have.
func (a *agent) size() (n int) {
	counted := map[*content]bool{}
	for _, in := range a.instances {
		if in.content != nil && !counted[in.content] {
			counted[in.content] = true
			n += in.content.size
		}
	}
	return n
}

// cards returns the hashes of the different cards that active instances announce, in order.
func (a *agent) cards() []string {
	set := map[string]bool{}
	for _, in := range a.instances {
		if !in.draining {
			set[in.content.hash] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// hear takes in that the instance was announced now.
func (in *instance) hear(c *transport.Card, now time.Time) {
	in.ttl, in.heartbeat = c.TTL, c.Heartbeat
	in.grace, in.reread, in.lost = false, false, false
	in.due, in.leased = time.Time{}, false
	if in.ttl > 0 {
		in.due, in.leased = now.Add(in.ttl), true
	}
	if silent := now.Add(max(missed*in.heartbeat, time.Second)); in.heartbeat > 0 && (in.due.IsZero() || silent.Before(in.due)) {
		in.due, in.leased = silent, false
	}
}

// spare gives the instance one full grace from now on, for silence that may be Cortex's own.
func (in *instance) spare(now time.Time) {
	grace := minGrace
	switch {
	case in.heartbeat > 0:
		grace = max(grace, missed*in.heartbeat)
	case in.ttl > 0:
		grace = max(grace, in.ttl)
	default:
		return // nobody waits for it
	}
	in.grace, in.reread = true, false
	in.due, in.leased = now.Add(grace), false
}

// silent reports whether the instance has been silent for too long.
func (in *instance) silent(now time.Time) bool {
	if in.host != nil && in.host.silent(now) {
		return true
	}
	if in.due.IsZero() {
		return false
	}
	if in.leased {
		return now.After(in.due.Add(leaseSlack))
	}
	return !now.Before(in.due)
}

// silence is why an instance goes that was silent for too long.
func (in *instance) silence() string {
	if in.heartbeat > 0 || in.grace || in.host != nil {
		return ReasonMissed
	}
	return ReasonExpired
}
