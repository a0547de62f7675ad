package agentcard

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// registryDocument is the agent_card of an RTFS discovery registry.
type registryDocument struct {
	AgentID       string                       `json:"agent_id"`
	Name          string                       `json:"name"`
	Version       string                       `json:"version"`
	Description   string                       `json:"description"`
	Capabilities  []registryCapabilityDocument `json:"capabilities"`
	DiscoveryTags []string                     `json:"discovery_tags"`
	ProfileURI    string                       `json:"agent_profile_uri"`
	Communication map[string]any               `json:"communication"`
	Metadata      map[string]any               `json:"metadata"`
}

// registryCapabilityDocument is a capability in a registryDocument. Its schemas are references, or inline.
type registryCapabilityDocument struct {
	CapabilityID    string `json:"capability_id"`
	Name            string `json:"name"`
	Description     string `json:"description"`
	InputSchemaRef  any    `json:"input_schema_ref"`
	OutputSchemaRef any    `json:"output_schema_ref"`
	abilityDocument
}

// schemaRefs is the field of the extension that keeps unresolved references to schemas.
const schemaRefs = "schema_refs"

func (r *reader) readRegistryCard(m map[string]any) (*a2a.AgentCard, error) {
	var d registryDocument
	if err := into("", m, &d); err != nil {
		return nil, err
	}
	if d.AgentID == "" {
		return nil, errors.New(`agent_id is missing; add a line such as "agent_id: data-processor"`)
	}
	c := &a2a.AgentCard{Name: d.AgentID, Version: d.Version, Description: d.Description}
	s := &Spec{}
	refs := map[string]any{}
	for i := range d.Capabilities {
		cd := &d.Capabilities[i]
		at := fmt.Sprintf("capabilities[%d].", i)
		if cd.CapabilityID == "" {
			return nil, fmt.Errorf("%scapability_id is missing; add a line such as \"capability_id: csv_processing\"", at)
		}
		if slices.ContainsFunc(c.Skills, func(s a2a.AgentSkill) bool { return s.ID == cd.CapabilityID }) {
			return nil, fmt.Errorf("%scapability_id %.60q is there twice: each ability has its own", at, cd.CapabilityID)
		}
		kept := map[string]any{}
		for _, f := range []struct {
			name string
			ref  any
			to   *any
		}{{"input_schema_ref", cd.InputSchemaRef, &cd.InputSchema}, {"output_schema_ref", cd.OutputSchemaRef, &cd.OutputSchema}} {
			switch ref := f.ref.(type) {
			case nil:
			case map[string]any:
				*f.to = ref
			case string:
				kept[f.name] = ref
				r.warn("%s%s: %.100q is not read: anything is allowed there", at, f.name, ref)
			default:
				return nil, fmt.Errorf("%s%s must be a text or a schema, not %s", at, f.name, kindWord(ref))
			}
		}
		if len(kept) > 0 {
			refs[cd.CapabilityID] = kept
		}
		c.Skills = append(c.Skills, a2a.AgentSkill{ID: cd.CapabilityID, Name: cmp.Or(cd.Name, cd.CapabilityID), Description: cd.Description, Tags: []string{}})
		if err := r.addAbility(at, cd.CapabilityID, &cd.abilityDocument, s); err != nil {
			return nil, err
		}
	}
	tags := specDocument{Tags: m["discovery_tags"]}
	if tags.Tags != nil {
		if err := tags.applyTags("discovery_", s); err != nil {
			return nil, err
		}
	}
	if owner, ok := d.Metadata["owner"].(string); ok {
		s.OwnerTeam = word(owner)
	}
	keep(s, m, []string{"name", "agent_profile_uri", "communication", "metadata"})
	if len(refs) > 0 {
		put(&s.Extra, schemaRefs, any(refs))
	}
	return Attach(c, s), nil
}

// wellKnownDocument is an entry of a list of well-known agents: a card with another field for the name.
type wellKnownDocument struct {
	AgentName   string          `json:"agentName"`
	Description string          `json:"description"`
	Version     string          `json:"version"`
	Skills      []skillDocument `json:"skills"`
}

func (r *reader) readWellKnown(m map[string]any) (*a2a.AgentCard, error) {
	var d wellKnownDocument
	if err := into("", m, &d); err != nil {
		return nil, err
	}
	if d.AgentName == "" {
		return nil, errors.New(`agentName is missing; add a line such as "agentName: ResearchAgent"`)
	}
	card := map[string]any{"name": d.AgentName}
	for _, f := range []string{"description", "version", "skills"} {
		if m[f] != nil {
			card[f] = m[f]
		}
	}
	return r.readCard(card)
}
