package registry

import (
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
)

// State is the state of an agent, or of one of its instances.
type State string

// The states of a Record. An Instance is active or draining.
const (
	StateUnknown  State = "unknown"  // well known, without instances
	StateActive   State = "active"   // takes work
	StateDraining State = "draining" // finishes its tasks, takes no new ones
	StateRefused  State = "refused"  // present, but may not be given work: see [Record.Refused]
	StateGone     State = "gone"     // no longer in the registry; in an [Event] only
)

// Status is a state in the terms of AgentSpec.
type Status string

// The statuses of an agent.
const (
	StatusRegistered   Status = "registered" // known, but not ready
	StatusReady        Status = "ready"
	StatusDraining     Status = "draining"
	StatusDeregistered Status = "deregistered"
)

// Origin says where the card of a Record comes from.
type Origin string

// The origins of a card.
const (
	OriginAnnounced Origin = "announced"  // announced by a running instance
	OriginWellKnown Origin = "well-known" // from a list of well-known agents
)

// Record is what the registry knows about one agent. It is immutable and shared by readers. All times are by the registry's clock.
type Record struct {
	ID     string // the agent's address
	Tenant string
	// Card is never nil. When instances announce different cards, it is that of the instance that represents the agent: an active one, with the highest
	// version, announced last.
	Card    *a2a.AgentCard
	Version string          // as on the card: any text
	Spec    *agentcard.Spec // the card's extensions to A2A; never nil
	State   State
	Origin  Origin
	// Refused is a line that says why the agent may not be given work although it is present; "": it may.
	Refused string
	// Pinned means that the agent is well known: it stays in the registry, and may be given work, even when it does not run.
	Pinned bool
	// Instances are the agent's running processes, sorted by id.
	Instances    []Instance
	RegisteredAt time.Time // of the first announcement; zero: never
	// LastSeen is the time of its latest heartbeat, which any announcement is; zero: never. In a Snapshot it may be up to a second old.
	LastSeen  time.Time
	ExpiresAt time.Time // when the agent will be gone unless it is announced again; zero: never, or it has no instances
}

// Instance is one running process of an agent.
type Instance struct {
	ID        string
	State     State
	CardHash  string // SHA-256 of its card in hexadecimal; equal for equal cards
	Since     time.Time
	LastSeen  time.Time
	Heartbeat time.Duration // between its heartbeats; 0: none are expected
	ExpiresAt time.Time     // when it is considered gone without another heartbeat; zero: never
}

// lateSlack is how late a heartbeat may be, at least, before its instance is [Instance.Late]: LastSeen may be a second old.
const lateSlack = 2 * time.Second

// Late reports whether a heartbeat of the instance has not come, a third of its time after it was due. The instance may have ended without a goodbye.
func (i *Instance) Late(now time.Time) bool {
	return i.Heartbeat > 0 && now.Sub(i.LastSeen) > i.Heartbeat+max(i.Heartbeat/3, lateSlack)
}

// Routable reports whether the agent may be given work: one of its instances is active, or it is well known, so that work waits in its inbox until it
// runs again.
func (r *Record) Routable() bool {
	return r.Refused == "" && (r.State == StateActive || r.Pinned)
}

// Status returns the state in the terms of AgentSpec.
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
