package registry

import (
	"fmt"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// State says what can be expected of an agent, or of one of its instances.
type State string

// The states of a Record; an Instance is active, draining or stale.
const (
	StateUnknown  State = "unknown"  // well known, not seen since the registry began
	StateActive   State = "active"   // takes work
	StateDraining State = "draining" // finishes what it has, takes nothing new
	StateStale    State = "stale"    // seen, but not lately; or well known, and not running now
	StateGone     State = "gone"     // no longer in the registry; in a [Change] only
)

// Origin says where the card of a Record comes from.
type Origin string

// The origins of a card.
const (
	OriginAnnounced Origin = "announced"  // a running instance said so
	OriginWellKnown Origin = "well-known" // a list of well-known agents says so
)

// Record is what is known of one agent. It is a value that never changes; readers share it and do not write to it. All
// times are by the registry's clock.
type Record struct {
	ID     string // the agent's address
	Tenant string
	// Card is never nil. When instances announce different cards, it is the one that was new last.
	Card   *a2a.AgentCard
	State  State
	Origin Origin
	// Pinned says that the agent is well known: it stays here, and may be given work, whether it runs or not.
	Pinned bool
	// Instances are the running processes of the agent, in the order of their ids.
	Instances    []Instance
	RegisteredAt time.Time // of the first announcement; zero: never
	LastSeen     time.Time // of the latest announcement; zero: never. It may be a second behind in a Snapshot
	ExpiresAt    time.Time // when nothing is left of it unless it is announced again; zero: never, or nothing runs
}

// Instance is one running process of an agent.
type Instance struct {
	ID        string
	State     State
	CardHash  string // SHA-256 of its card in hexadecimal: equal for instances that announce the same
	Since     time.Time
	LastSeen  time.Time
	ExpiresAt time.Time // zero: never
}

// Routable reports whether the agent may be given work: one of its instances is active, or it is well known, so that
// work waits in its inbox until it runs again.
func (r *Record) Routable() bool { return r.State == StateActive || r.Pinned }

// LastSeenText says for a person when the agent was last seen, as in "3 s ago".
func (r *Record) LastSeenText(now time.Time) string {
	if r.LastSeen.IsZero() {
		return "well-known (not yet seen this session)"
	}
	switch d := now.Sub(r.LastSeen); {
	case d < time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	default:
		return fmt.Sprintf("%d d ago", d/(24*time.Hour))
	}
}

// ChangeKind says what happened to an agent.
type ChangeKind string

// The kinds of change. That an instance was merely seen again is none.
const (
	ChangeJoined   ChangeKind = "joined"   // an instance is there, or there again after being stale
	ChangeUpdated  ChangeKind = "updated"  // an instance announced another card, or takes work again
	ChangeDraining ChangeKind = "draining" // an instance takes no more work
	ChangeStale    ChangeKind = "stale"    // an instance should have been announced again long ago
	ChangeLeft     ChangeKind = "left"     // an instance said that it goes
	ChangeExpired  ChangeKind = "expired"  // the transport found that an instance was not announced again
	// ChangeConflict warns that instances of one agent announce different cards: an update that is under way, or two
	// agents that share a name by mistake. It comes once for each set of cards.
	ChangeConflict ChangeKind = "conflict"
)

// Change is something that happened to one instance of an agent.
type Change struct {
	Kind     ChangeKind
	AgentID  string
	Instance string
	// Record is the agent after the change. Its State is gone when the last instance of an agent that is not well known
	// went; Instances is empty then.
	Record *Record
	Time   time.Time
}
