package cli

import (
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
)

// recordJSON is an agent as scripts see it.
type recordJSON struct {
	ID           string         `json:"id"`
	State        registry.State `json:"state"`
	Pinned       bool           `json:"pinned,omitempty"`
	Instances    []instanceJSON `json:"instances"`
	RegisteredAt time.Time      `json:"registeredAt,omitzero"`
	LastSeen     time.Time      `json:"lastSeen,omitzero"`
	ExpiresAt    time.Time      `json:"expiresAt,omitzero"`
	Card         *a2a.AgentCard `json:"card"`
}

type instanceJSON struct {
	ID       string         `json:"id"`
	State    registry.State `json:"state"`
	Since    time.Time      `json:"since"`
	LastSeen time.Time      `json:"lastSeen"`
}

func recordsJSON(records []*registry.Record) []recordJSON {
	out := make([]recordJSON, len(records))
	for i, r := range records {
		j := recordJSON{
			ID: r.ID, State: r.State, Pinned: r.Pinned, Instances: []instanceJSON{},
			RegisteredAt: r.RegisteredAt, LastSeen: r.LastSeen, ExpiresAt: r.ExpiresAt, Card: r.Card,
		}
		for _, in := range r.Instances {
			j.Instances = append(j.Instances, instanceJSON{in.ID, in.State, in.Since, in.LastSeen})
		}
		out[i] = j
	}
	return out
}

// changeLine is a change as a line of JSON.
type changeLine struct {
	Time     time.Time           `json:"time"`
	Kind     registry.ChangeKind `json:"kind"`
	AgentID  string              `json:"agentId"`
	Instance string              `json:"instance,omitempty"`
	State    registry.State      `json:"state"`
}

func changeJSON(c registry.Change) changeLine {
	return changeLine{c.Time, c.Kind, c.AgentID, c.Instance, c.Record.State}
}
