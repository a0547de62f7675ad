package agentcard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// cardDocument is an A2A card of any version, as written by people and programs.
type cardDocument struct {
	a2a.AgentCard
	Capabilities         capabilitiesDocument `json:"capabilities"`
	Skills               []skillDocument      `json:"skills"`
	SecuritySchemes      map[string]any       `json:"securitySchemes"`
	SecurityRequirements []any                `json:"securityRequirements"`

	// What a card has no field for, for its extension.
	Spec map[string]any `json:"spec"`

	// Before version 1.0.
	ProtocolVersion                   string              `json:"protocolVersion"`
	URL                               string              `json:"url"`
	PreferredTransport                string              `json:"preferredTransport"`
	AdditionalInterfaces              []interfaceDocument `json:"additionalInterfaces"`
	SupportsAuthenticatedExtendedCard bool                `json:"supportsAuthenticatedExtendedCard"`
	SupportsExtendedAgentCard         bool                `json:"supportsExtendedAgentCard"`
	Security                          []any               `json:"security"`
	Authentication                    any                 `json:"authentication"`
}

type capabilitiesDocument struct {
	a2a.AgentCapabilities
	StateTransitionHistory any `json:"stateTransitionHistory"` // before version 1.0; of no use
}

type skillDocument struct {
	a2a.AgentSkill
	SecurityRequirements []any `json:"securityRequirements"`
	Security             []any `json:"security"` // before version 1.0
	abilityDocument
}

// abilityDocument has the fields of an Ability.
type abilityDocument struct {
	InputSchema    any      `json:"input_schema"`
	OutputSchema   any      `json:"output_schema"`
	ConfidenceHint *float64 `json:"confidence_hint"`
	DispatchKey    string   `json:"dispatch_key"`
	Confirm        bool     `json:"confirm"`
	Once           bool     `json:"once"`
}

// interfaceDocument is an interface from before version 1.0.
type interfaceDocument struct {
	URL             string `json:"url"`
	Transport       string `json:"transport"`
	ProtocolBinding string `json:"protocolBinding"`
	Tenant          string `json:"tenant"`
}

func (r *reader) readCard(m map[string]any) (*a2a.AgentCard, error) {
	var d cardDocument
	if name, ok := m["name"]; !ok || name == nil || name == "" {
		if len(m) > 0 {
			if err := into("", m, &d); err != nil {
				return nil, err // the error suggests the correct name
			}
		}
		return nil, errNoName
	}
	if err := into("", m, &d); err != nil {
		return nil, err
	}
	c := d.AgentCard
	c.Capabilities = d.Capabilities.AgentCapabilities
	c.Capabilities.ExtendedAgentCard = c.Capabilities.ExtendedAgentCard || d.SupportsAuthenticatedExtendedCard || d.SupportsExtendedAgentCard
	if len(c.SupportedInterfaces) == 0 {
		c.SupportedInterfaces = d.interfaces()
	}
	c.SupportedInterfaces = slices.DeleteFunc(c.SupportedInterfaces, func(i *a2a.AgentInterface) bool { return i == nil })
	c.SecuritySchemes = r.schemes(d.SecuritySchemes)
	c.SecurityRequirements = r.requirements("securityRequirements", "security", d.SecurityRequirements, d.Security)
	if d.Authentication != nil {
		r.warn("authentication is left out: cards now say it by securitySchemes")
	}

	c.Skills = nil
	for i := range d.Skills {
		s := &d.Skills[i]
		at := fmt.Sprintf("skills[%d].", i)
		skill := s.AgentSkill
		skill.SecurityRequirements = r.requirements(at+"securityRequirements", at+"security", s.SecurityRequirements, s.Security)
		if skill.ID == "" {
			skill.ID = defaultSkillID(skill.Name)
		}
		c.Skills = append(c.Skills, skill)
	}
	return r.attach(&c, &d)
}

// attach puts the document's fields that a card lacks into the card's extension.
func (r *reader) attach(c *a2a.AgentCard, d *cardDocument) (*a2a.AgentCard, error) {
	s := &Spec{}
	for i := range c.Capabilities.Extensions {
		if e := &c.Capabilities.Extensions[i]; e.URI == ExtensionURI {
			at := fmt.Sprintf("capabilities.extensions[%d].params.", i)
			if err := r.readSpec(at, e.Params, c.Skills, s, true); err != nil {
				return nil, err
			}
		}
	}
	if err := r.readSpec("spec.", d.Spec, c.Skills, s, false); err != nil {
		return nil, err
	}
	for i := range d.Skills {
		if err := r.addAbility(fmt.Sprintf("skills[%d].", i), SkillID(&c.Skills[i]), &d.Skills[i].abilityDocument, s); err != nil {
			return nil, err
		}
	}
	return Attach(c, s), nil
}

// interfaces returns the interfaces of an agent of an older version.
func (d *cardDocument) interfaces() []*a2a.AgentInterface {
	version := a2a.ProtocolVersion("0.3")
	if parts := strings.Split(d.ProtocolVersion, "."); d.ProtocolVersion != "" {
		version = a2a.ProtocolVersion(strings.Join(parts[:min(2, len(parts))], "."))
	}
	var out []*a2a.AgentInterface
	add := func(i interfaceDocument) {
		binding := cmp.Or(a2a.TransportProtocol(i.Transport), a2a.TransportProtocol(i.ProtocolBinding), a2a.TransportProtocolJSONRPC)
		same := func(o *a2a.AgentInterface) bool { return o.URL == i.URL && o.ProtocolBinding == binding }
		if i.URL != "" && !slices.ContainsFunc(out, same) {
			out = append(out, &a2a.AgentInterface{URL: i.URL, ProtocolBinding: binding, Tenant: i.Tenant, ProtocolVersion: version})
		}
	}
	add(interfaceDocument{URL: d.URL, Transport: d.PreferredTransport})
	for _, i := range d.AdditionalInterfaces {
		add(i)
	}
	return out
}
