package view

import (
	"encoding/json"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
)

// RecordJSON is an agent in JSON output.
type RecordJSON struct {
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
	Limits        LimitsJSON        `json:"limits,omitzero"`
	Patterns      []string          `json:"patterns,omitempty"`
	Abilities     []AbilityJSON     `json:"abilities"`
	Instances     []InstanceJSON    `json:"instances"`
	RegisteredAt  time.Time         `json:"registeredAt,omitzero"`
	LastSeen      time.Time         `json:"lastSeen,omitzero"`
	LastHeartbeat time.Time         `json:"lastHeartbeat,omitzero"` // LastSeen, under the name that AgentSpec has for it
	ExpiresAt     time.Time         `json:"expiresAt,omitzero"`
	Card          *a2a.AgentCard    `json:"card"`
}

type LimitsJSON struct {
	MaxConcurrentTasks int   `json:"maxConcurrentTasks,omitempty"`
	TaskTimeoutMS      int64 `json:"taskTimeoutMs,omitempty"`
	LLMTimeoutMS       int64 `json:"llmTimeoutMs,omitempty"`
	MaxRetries         *int  `json:"maxRetries,omitempty"`
}

// AbilityJSON is a skill with what the agent's spec adds to the card.
type AbilityJSON struct {
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	Tags         []string        `json:"tags,omitempty"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Confidence   *float64        `json:"confidence,omitempty"`
	DispatchKey  string          `json:"dispatchKey,omitempty"`
}

// ProjectionJSON is an ability with its offers, the best first.
type ProjectionJSON struct {
	ID     string      `json:"id"`
	Offers []OfferJSON `json:"offers"`
}

type OfferJSON struct {
	AgentID string         `json:"agentId"`
	Version string         `json:"version"`
	State   registry.State `json:"state"`
	AbilityJSON
}

type InstanceJSON struct {
	ID       string         `json:"id"`
	State    registry.State `json:"state"`
	Since    time.Time      `json:"since"`
	LastSeen time.Time      `json:"lastSeen"`
}

// RecordsJSON converts records. alike holds the names of all known agents.
func RecordsJSON(records []*registry.Record, alike *Lookalikes) []RecordJSON {
	out := make([]RecordJSON, len(records))
	for i, r := range records {
		l := r.Spec.Limits
		j := RecordJSON{
			ID: r.ID, Version: r.Version, State: r.State, Status: r.Status(), Refused: r.Refused, TakeCare: alike.MarkOf(r), Pinned: r.Pinned,
			OwnerTeam: r.Spec.OwnerTeam, TenantScope: r.Spec.TenantScope, Tags: append([]string{}, r.Spec.Tags...), Labels: r.Spec.Labels,
			Limits:   LimitsJSON{l.MaxConcurrentTasks, l.TaskTimeout.Milliseconds(), l.LLMTimeout.Milliseconds(), l.MaxRetries},
			Patterns: r.Spec.Patterns, Abilities: []AbilityJSON{}, Instances: []InstanceJSON{},
			RegisteredAt: r.RegisteredAt, LastSeen: r.LastSeen, LastHeartbeat: r.LastSeen, ExpiresAt: r.ExpiresAt, Card: r.Card,
		}
		for k := range r.Card.Skills {
			s := &r.Card.Skills[k]
			j.Abilities = append(j.Abilities, newAbilityJSON(s, r.Spec.Abilities[agentcard.SkillID(s)]))
		}
		for _, in := range r.Instances {
			j.Instances = append(j.Instances, InstanceJSON{in.ID, in.State, in.Since, in.LastSeen})
		}
		out[i] = j
	}
	return out
}

func newAbilityJSON(s *a2a.AgentSkill, spec agentcard.Ability) AbilityJSON {
	return AbilityJSON{
		agentcard.SkillID(s), s.Name, s.Description, s.Tags, spec.InputSchema, spec.OutputSchema, spec.Confidence, spec.DispatchKey,
	}
}

func AbilitiesJSON(abilities []registry.Ability) []ProjectionJSON {
	out := make([]ProjectionJSON, len(abilities))
	for i, a := range abilities {
		out[i].ID = a.ID
		for _, o := range a.Offers {
			out[i].Offers = append(out[i].Offers, OfferJSON{o.Record.ID, o.Record.Version, o.Record.State, newAbilityJSON(o.Skill, o.Spec)})
		}
	}
	return out
}
