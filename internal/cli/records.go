package cli

import (
	"encoding/json"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
)

// recordJSON is an agent in JSON output.
type recordJSON struct {
	ID            string            `json:"id"`
	Version       string            `json:"version"`
	State         registry.State    `json:"state"`
	Status        registry.Status   `json:"status"`
	Refused       string            `json:"refused,omitempty"`
	TakeCare      string            `json:"takeCare,omitempty"` // a warning that it may be mistaken for another agent
	Pinned        bool              `json:"pinned,omitempty"`
	OwnerTeam     string            `json:"ownerTeam,omitempty"`
	TenantScope   string            `json:"tenantScope,omitempty"`
	Tags          []string          `json:"tags"`
	Labels        map[string]string `json:"labels,omitempty"`
	Limits        limitsJSON        `json:"limits,omitzero"`
	Patterns      []string          `json:"patterns,omitempty"`
	Abilities     []abilityJSON     `json:"abilities"`
	Instances     []instanceJSON    `json:"instances"`
	RegisteredAt  time.Time         `json:"registeredAt,omitzero"`
	LastSeen      time.Time         `json:"lastSeen,omitzero"`
	LastHeartbeat time.Time         `json:"lastHeartbeat,omitzero"` // LastSeen, under the name that AgentSpec has for it
	ExpiresAt     time.Time         `json:"expiresAt,omitzero"`
	Card          *a2a.AgentCard    `json:"card"`
}

type limitsJSON struct {
	MaxConcurrentTasks int   `json:"maxConcurrentTasks,omitempty"`
	TaskTimeoutMS      int64 `json:"taskTimeoutMs,omitempty"`
	LLMTimeoutMS       int64 `json:"llmTimeoutMs,omitempty"`
	MaxRetries         *int  `json:"maxRetries,omitempty"`
}

// abilityJSON is a skill with what the agent's spec adds to the card.
type abilityJSON struct {
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	Tags         []string        `json:"tags,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Confidence   *float64        `json:"confidence,omitempty"`
	DispatchKey  string          `json:"dispatchKey,omitempty"`
}

// projectionJSON is an ability with its offers, the best first.
type projectionJSON struct {
	ID     string      `json:"id"`
	Offers []offerJSON `json:"offers"`
}

type offerJSON struct {
	AgentID string         `json:"agentId"`
	Version string         `json:"version"`
	State   registry.State `json:"state"`
	abilityJSON
}

type instanceJSON struct {
	ID       string         `json:"id"`
	State    registry.State `json:"state"`
	Since    time.Time      `json:"since"`
	LastSeen time.Time      `json:"lastSeen"`
}

// recordsJSON converts records. alike holds the names of all known agents.
func recordsJSON(records []*registry.Record, alike *lookalikes) []recordJSON {
	out := make([]recordJSON, len(records))
	for i, r := range records {
		l := r.Spec.Limits
		j := recordJSON{
			ID: r.ID, Version: r.Version, State: r.State, Status: r.Status(), Refused: r.Refused, TakeCare: alike.mark(r), Pinned: r.Pinned,
			OwnerTeam: r.Spec.OwnerTeam, TenantScope: r.Spec.TenantScope, Tags: append([]string{}, r.Spec.Tags...), Labels: r.Spec.Labels,
			Limits:   limitsJSON{l.MaxConcurrentTasks, l.TaskTimeout.Milliseconds(), l.LLMTimeout.Milliseconds(), l.MaxRetries},
			Patterns: r.Spec.Patterns, Abilities: []abilityJSON{}, Instances: []instanceJSON{},
			RegisteredAt: r.RegisteredAt, LastSeen: r.LastSeen, LastHeartbeat: r.LastSeen, ExpiresAt: r.ExpiresAt, Card: r.Card,
		}
		for k := range r.Card.Skills {
			s := &r.Card.Skills[k]
			j.Abilities = append(j.Abilities, newAbilityJSON(s, r.Spec.Abilities[agentcard.SkillID(s)]))
		}
		for _, in := range r.Instances {
			j.Instances = append(j.Instances, instanceJSON{in.ID, in.State, in.Since, in.LastSeen})
		}
		out[i] = j
	}
	return out
}

func newAbilityJSON(s *a2a.AgentSkill, spec agentcard.Ability) abilityJSON {
	return abilityJSON{
		agentcard.SkillID(s), s.Name, s.Description, s.Tags, spec.InputSchema, spec.OutputSchema, spec.Confidence, spec.DispatchKey,
	}
}

func abilitiesJSON(abilities []registry.Ability) []projectionJSON {
	out := make([]projectionJSON, len(abilities))
	for i, a := range abilities {
		out[i].ID = a.ID
		for _, o := range a.Offers {
			out[i].Offers = append(out[i].Offers, offerJSON{o.Record.ID, o.Record.Version, o.Record.State, newAbilityJSON(o.Skill, o.Spec)})
		}
	}
	return out
}

// changeJSON converts an event for a line of JSON.
func changeJSON(e registry.Event) *transport.AgentEvent { return e.Wire() }
