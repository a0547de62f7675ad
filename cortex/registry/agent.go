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

// content is a card with data derived from it.
type content struct {
	card    *a2a.AgentCard
	hash    string
	size    int // about what it takes of memory, in bytes
	spec    *agentcard.Spec
	skills  []string        // their ids, sorted
	version *semver.Version // of the card; nil: not a semantic version
}

// hashOf returns a hash of a card's content.
func hashOf(c *a2a.AgentCard) (string, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

func newContent(c *a2a.AgentCard, hash string) *content {
	c = agentcard.Pack(c)
	skills := make([]string, len(c.Skills))
	for i := range c.Skills {
		skills[i] = agentcard.SkillID(&c.Skills[i])
	}
	slices.Sort(skills)
	version, _ := semver.NewVersion(c.Version) // nil on an error
	return &content{card: c, hash: hash, size: agentcard.Weight(c), spec: agentcard.SpecOf(c), skills: slices.Compact(skills), version: version}
}

// agent is the mutable state of an agent; readers get the Record made from it.
type agent struct {
	id, tenant string
	pinned     *content // from the list of well-known agents; nil: not listed
	instances  map[string]*instance
	registered time.Time
	seen       time.Time
	last       *content // the last card of an agent that is gone
	warned     []string // the hashes of the cards that were announced concurrently at the last change
	refused    string   // why it may not be given work
	claimed    []string // its exclusive abilities, with Config.StrictAbilities
	bytes      int      // of the distinct cards of its instances
	within     string   // the host for which they count; "": none
	shown      view     // zero: to be made again
}

// view is an agent as readers see it. The record is nil when there is no agent.
type view struct {
	record  *Record
	content *content // the content of the record's card
}

type instance struct {
	id             string
	content        *content
	announced      uint64 // serial number of the first announcement of this card; greater is newer
	draining       bool
	since, seen    time.Time
	ttl, heartbeat time.Duration
	due            time.Time // when the instance is considered gone without another heartbeat; zero: never
	leased         bool      // the transport is to report the end at due
	event          string    // id of the latest event that announced it, and the event's time
	sent           time.Time
	recalled       time.Time // when it was restored from its note, and it has not been heard of since; else zero
	grace          bool      // not heard of since a pause of Cortex, and tolerated until due
	reread         bool      // during this grace, the transport has redelivered its retained card
	lost           bool      // the transport has no retained card of it
	absent         bool      // it has not returned since Cortex was restarted, and gets no new work
	host           *host     // the host that it runs in; nil: none
}

// there reports whether readers see the agent.
func (a *agent) there() bool { return a.pinned != nil || len(a.instances) > 0 }

// view returns the present state of the agent.
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
			ID: in.id, State: in.state(), CardHash: in.content.hash, Since: in.since, LastSeen: in.seen, Heartbeat: in.beats(), ExpiresAt: in.due,
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

// speaker returns the instance whose card represents the agent, or nil, and that card's content.
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

// before reports whether in precedes o as speaker: active before draining, then by the higher version, so that all readers choose the same card
// whatever the order of arrival, then by the newer card.
func (in *instance) before(o *instance) bool {
	if in.rests() != o.rests() {
		return o.rests()
	}
	if c := compareVersions(in.content.version, o.content.version); c != 0 {
		return c > 0
	}
	return in.announced > o.announced
}

func (in *instance) state() State {
	if in.rests() {
		return StateDraining
	}
	return StateActive
}

// rests reports whether the instance gets no new work.
func (in *instance) rests() bool { return in.draining || in.absent }

// content returns the content with this hash if an instance has announced it, so that equal cards are stored once.
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

// known returns the content with this hash if an instance of the agent has announced it.
func (r *Registry) known(id, hash string) *content {
	if a := r.agents[id]; a != nil {
		return a.content(hash)
	}
	return nil
}

// size returns what the distinct cards of the agent's instances take, in bytes.
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

// cards returns the hashes of the distinct cards of active instances, sorted.
func (a *agent) cards() []string {
	set := map[string]bool{}
	for _, in := range a.instances {
		if !in.rests() {
			set[in.content.hash] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// hear records that an instance of the agent was heard of.
func (a *agent) hear(in *instance, seen time.Time) {
	in.seen, a.shown = seen, view{}
	if seen.After(a.seen) {
		a.seen = seen
	}
}

// hear records an announcement of the instance.
func (in *instance) hear(c *transport.Card, now time.Time) {
	in.ttl, in.heartbeat = c.TTL, c.Heartbeat
	in.grace, in.reread = false, false
	in.lost, in.absent, in.recalled = false, false, time.Time{}
	in.due, in.leased = time.Time{}, false
	if in.ttl > 0 {
		in.due, in.leased = now.Add(in.ttl), true
	}
	if silent := now.Add(max(missed*in.heartbeat, time.Second)); in.heartbeat > 0 && (in.due.IsZero() || silent.Before(in.due)) {
		in.due, in.leased = silent, false
	}
}

// beats returns the time between the instance's heartbeats, or those of its host; 0: it has none.
func (in *instance) beats() time.Duration {
	if in.host != nil {
		return in.host.heartbeat
	}
	return in.heartbeat
}

// spare gives the instance a full grace from now on, because the silence may be due to Cortex.
func (in *instance) spare(now time.Time) {
	grace := minGrace
	switch {
	case in.heartbeat > 0:
		grace = max(grace, missed*in.heartbeat)
	case in.ttl > 0:
		grace = max(grace, in.ttl)
	default:
		return // without heartbeat and lease nothing is expected
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

// silence returns the reason for removing a silent instance.
func (in *instance) silence() string {
	if in.heartbeat > 0 || in.grace || in.host != nil {
		return ReasonMissed
	}
	return ReasonExpired
}
