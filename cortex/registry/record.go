package registry

import (
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
)

// State says what can be expected of an agent, or of one of its instances.
type State string

// The states of a Record; an Instance is active or draining.
const (
	StateUnknown  State = "unknown"  // well known, and nothing of it runs
	StateActive   State = "active"   // takes work
	StateDraining State = "draining" // finishes what it has, takes nothing new
	StateRefused  State = "refused"  // is there, and may not be given work: see [Record.Refused]
	StateGone     State = "gone"     // no longer in the registry; in an [Event] only
)

// Status is a state in the words of an AgentSpec.
type Status string

// The statuses of an agent.
const (
	StatusRegistered   Status = "registered" // known, and not ready
	StatusReady        Status = "ready"
	StatusDraining     Status = "draining"
	StatusDeregistered Status = "deregistered"
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
	Card    *a2a.AgentCard
	Version string          // as the card says it: any text
	Spec    *agentcard.Spec // what the card says beyond A2A; never nil
	State   State
	Origin  Origin
	// Refused says in a line why the agent may not be given work although it is there; "" is that it may.
	Refused string
	// Pinned says that the agent is well known: it stays here, and may be given work, whether it runs or not.
	Pinned bool
	// Instances are the running processes of the agent, in the order of their ids.
	Instances    []Instance
	RegisteredAt time.Time // of the first announcement; zero: never
	// LastSeen is when its latest heartbeat came, that is any announcement; zero: never. It may be a second behind in a
	// Snapshot.
	LastSeen  time.Time
	ExpiresAt time.Time // when nothing is left of it unless it is announced again; zero: never, or nothing runs
}

// Instance is one running process of an agent.
type Instance struct {
	ID        string
	State     State
	CardHash  string // SHA-256 of its card in hexadecimal: equal for instances that announce the same
	Since     time.Time
	LastSeen  time.Time
	ExpiresAt time.Time // when its silence has been too long; zero: never
}

// Routable reports whether the agent may be given work: one of its instances is active, or it is well known, so that
// work waits in its inbox until it runs again.
func (r *Record) Routable() bool {
	return r.Refused == "" && (r.State == StateActive || r.Pinned)
}

// Status returns the state in the words of an AgentSpec.
func (r *Record) Status() Status {
	switch r.State {
	case StateActive:
		return StatusReady
	case StateDraining:
		return StatusDraining
	case StateGone:
		return StatusDeregistered
	}
	return StatusRegistered
}
