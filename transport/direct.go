package transport

import (
	"encoding/json"
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// Direct names the agent that a message is for. Such a message is a direct request: no model decides, the agent gets the text and the input, and its
// result is the answer. Rules, budgets, schemas and the limits of chains apply as to other requests.
type Direct struct {
	Agent string
	Skill string          // "": the agent's choice, or its only one
	Input json.RawMessage `json:",omitempty"` // according to the skill's schema; nil: only the text
}

// Address makes m a direct request. The input becomes a data part of it.
func (d Direct) Address(m *a2a.Message) error {
	if err := CheckID(d.Agent); err != nil {
		return fmt.Errorf("%w: agent: %w", ErrInvalid, err)
	}
	if m.Metadata == nil {
		m.Metadata = map[string]any{}
	}
	m.Metadata[MetaForAgent] = d.Agent
	if d.Skill != "" {
		m.Metadata[MetaForSkill] = d.Skill
	}
	if len(d.Input) == 0 {
		return nil
	}
	var value any
	if err := json.Unmarshal(d.Input, &value); err != nil {
		return fmt.Errorf("%w: input is not JSON: %w", ErrInvalid, err)
	}
	if value == nil { // a part needs some content
		return fmt.Errorf("%w: input is null: leave it out, or give the values that the skill takes", ErrInvalid)
	}
	m.Parts = append(m.Parts, a2a.NewDataPart(d.Input))
	return nil
}

// DirectOf returns the agent that a message is for; false when the message names none, so that a model decides. The first data part is the input.
func DirectOf(m *a2a.Message) (d Direct, ok bool) {
	d = Direct{Agent: MetaString(m, MetaForAgent), Skill: MetaString(m, MetaForSkill)}
	if d.Agent == "" {
		return Direct{}, false
	}
	for _, p := range m.Parts {
		if p == nil {
			continue
		}
		if data, ok := p.Content.(a2a.Data); ok {
			if b, err := EncodeValue(data.Value); err == nil {
				d.Input = b
			}
			break
		}
	}
	return d, true
}
