package transport

import (
	"fmt"
	"time"
)

// AgentEvent tells what happened to an agent, as the registry of the running Cortex sees it. It is published on Cards by
// [Cortex] only, is not retained, and may be lost: who must not miss anything keeps a registry of its own from the cards. Cortex also
// sends one to its own inbox, for each conversation that works with an agent that has gone.
type AgentEvent struct {
	Time time.Time `json:"time"`
	// Kind is a kind of event of package registry, such as "registered". More may come.
	Kind     string `json:"event"`
	AgentID  string `json:"agentId"`
	Instance string `json:"instance,omitempty"` // the one that it comes from
	State    string `json:"state,omitempty"`    // of the agent after it
	// Reason says why, where there is a choice; at most [MaxReason] bytes.
	Reason    string   `json:"reason,omitempty"`
	Added     []string `json:"added,omitempty"`   // skills that it has now
	Removed   []string `json:"removed,omitempty"` // and those that it had
	Instances int      `json:"instances"`         // how many run after it
}

// AgentGone is the kind of AgentEvent by which Cortex tells a conversation that an agent has gone.
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
