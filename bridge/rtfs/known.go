package rtfs

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/transport"
)

// cardOf returns the card by which an agent that registers is known in Cortex. Calls may have been made when they fail, so that they are not repeated
// by Cortex unless the card allows it.
func cardOf(c *card, prefix string) (*a2a.AgentCard, error) {
	capabilities := make([]map[string]any, len(c.Capabilities))
	for i := range c.Capabilities {
		one := &c.Capabilities[i]
		capabilities[i] = map[string]any{"capability_id": one.ID, "description": one.Description}
		for name, s := range map[string]*schema{"input_schema_ref": one.InputSchema, "output_schema_ref": one.OutputSchema} {
			if is := s.inline(); is != nil {
				capabilities[i][name] = is
			}
		}
	}
	document, err := json.Marshal(map[string]any{
		"agent_id": c.AgentID, "name": c.Name, "version": c.Version, "description": cmp.Or(c.Description, c.Name),
		"capabilities": capabilities, "discovery_tags": c.Tags, "metadata": map[string]any{"owner": asText(c.Metadata["owner"])},
	})
	if err != nil {
		return nil, err
	}
	is, _, err := agentcard.Read("agent_card", document)
	if err != nil {
		return nil, err
	}
	is.Name = prefix + c.AgentID
	spec := *agentcard.SpecOf(is)
	spec.Labels = labelsOf(c, spec.Labels)
	spec.Extra = maps.Clone(spec.Extra)
	delete(spec.Extra, "metadata") // it has become labels
	if !c.isIdempotent() {
		none := 0
		spec.Limits.MaxRetries, spec.Abilities = &none, maps.Clone(spec.Abilities)
		if spec.Abilities == nil {
			spec.Abilities = map[string]agentcard.Ability{}
		}
		for i := range is.Skills {
			id := agentcard.SkillID(&is.Skills[i])
			a := spec.Abilities[id]
			a.Once = true
			spec.Abilities[id] = a
		}
	}
	is = agentcard.Attach(is, &spec)
	if err := transport.ValidateCard(is); err != nil {
		return nil, err
	}
	return is, nil
}

// labelsOf returns the metadata of a card as labels, as far as there is room.
func labelsOf(c *card, labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Metadata)) {
		value := asText(c.Metadata[key])
		if _, is := labels[key]; !is && len(labels) < agentcard.MaxLabels && key != "" && value != "" && len(key) <= agentcard.MaxWord && len(value) <= agentcard.MaxWord {
			labels[key] = value
		}
	}
	return labels
}

// shownCard returns the card of one of Cortex's other agents for a registry at the address base, where the agent is called.
func shownCard(a *a2a.AgentCard, base string) (*card, error) {
	id, err := transport.AgentID(a.Name)
	if err != nil {
		return nil, err
	}
	spec := agentcard.SpecOf(a)
	c := &card{
		AgentID: id, Name: a.Name, Version: a.Version, Description: a.Description, Tags: slices.Clone(spec.Tags), Metadata: map[string]json.RawMessage{},
		Communication: communication{Protocols: []string{"http"}, Endpoints: []endpoint{{Protocol: "http", URI: base + "/agents/" + url.PathEscape(id)}}},
	}
	for i := range a.Skills {
		s := &a.Skills[i]
		id := agentcard.SkillID(s)
		ability := spec.Abilities[id]
		one := capability{ID: id, Description: cmp.Or(s.Description, s.Name), InputSchema: textOf(ability.InputSchema), OutputSchema: textOf(ability.OutputSchema)}
		if ability.DispatchKey != "" {
			one.Metadata = map[string]json.RawMessage{dispatchKey: quoted(ability.DispatchKey)}
		}
		c.Capabilities = append(c.Capabilities, one)
		for _, tag := range s.Tags {
			if !slices.Contains(c.Tags, tag) {
				c.Tags = append(c.Tags, tag)
			}
		}
	}
	for key, value := range spec.Labels {
		c.Metadata[key] = quoted(value)
	}
	if spec.OwnerTeam != "" {
		c.Metadata["owner"] = quoted(spec.OwnerTeam)
	}
	c.fill()
	return c, nil
}

func textOf(raw json.RawMessage) *schema {
	if len(raw) == 0 {
		return nil
	}
	s := schema(raw)
	return &s
}

func quoted(text string) json.RawMessage {
	b, _ := json.Marshal(text) // a text always can
	return b
}
