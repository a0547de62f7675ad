package transport

import (
	"fmt"
	"time"
)

// AgentEvent reports a change of an agent, as seen by the registry of the running Cortex. Only [Cortex] publishes it, on Cards. It is not retained,
// and may be lost: a subscriber that must not miss changes keeps its own registry from the cards. Cortex also sends one to its own inbox, for each
// conversation that works with an agent that is gone.
type AgentEvent struct {
	Time time.Time `json:"time"`
	// Kind is a kind of event of package registry, such as "registered". Later versions may add kinds.
	Kind     string `json:"event"`
	AgentID  string `json:"agentId"`
	Instance string `json:"instance,omitempty"` // the instance that caused it
	State    string `json:"state,omitempty"`    // of the agent, after the change
	// Reason is the reason for kinds that have several; at most [MaxReason] bytes.
	Reason    string   `json:"reason,omitempty"`
	Added     []string `json:"added,omitempty"`   // new skills
	Removed   []string `json:"removed,omitempty"` // former skills
	Instances int      `json:"instances"`         // how many run after the change
}

// AgentGone is the kind of the AgentEvent by which Cortex tells a conversation that an agent is gone.
const AgentGone = "deregistered"

// MaxReason bounds AgentEvent.Reason, in bytes.
const MaxReason = 400

func (e *AgentEvent) validate() error {
	for _, id := range []struct {
		name, value string
		optional    bool
	}{{"event", e.Kind, false}, {"agentId", e.AgentID, false}, {"instance", e.Instance, true}, {"state", e.State, true}} {
		if err := CheckID(id.value); err != nil && (id.value != "" || !id.optional) {
			return fmt.Errorf("event of an agent: %s %w", id.name, err)
		}
	}
	switch {
	case len(e.Reason) > MaxReason:
		return fmt.Errorf("event of %s: reason is %d bytes long, at most %d are allowed", e.AgentID, len(e.Reason), MaxReason)
	case len(e.Added) > MaxSkills || len(e.Removed) > MaxSkills:
		return fmt.Errorf("event of %s: %d skills added and %d removed, at most %d each are allowed", e.AgentID, len(e.Added), len(e.Removed), MaxSkills)
	case e.Instances < 0:
		return fmt.Errorf("event of %s: %d instances", e.AgentID, e.Instances)
	}
	return nil
}
