package agentcard

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// ExtensionURI names the extension by which a card carries a Spec.
const ExtensionURI = "https://github.com/cortex-orchestrator/cortex/extensions/agent-spec/v1"

// Bounds of what a Spec holds. What is beyond them is left out.
const (
	MaxSchema   = 16 << 10 // bytes of one schema
	MaxTags     = 64
	MaxLabels   = 64
	MaxPatterns = 16
	MaxWord     = 256                  // bytes of a tag, a label, a team or another name
	MaxNumber   = 1_000_000            // of tasks at once, and of retries
	MaxTimeout  = 365 * 24 * time.Hour // of a task, and of a call of a model
)

// NoTenant is the TenantScope of an agent whose scope cannot be read. No tenant has a name with a space, so that nobody may use
// the agent.
const NoTenant = "(cannot be read)"

// Spec is what an agent says of itself beyond the fields of an A2A card. The zero value says nothing. It is shared by readers,
// who do not write to it.
type Spec struct {
	Abilities   map[string]Ability // by skill id; a skill without an id goes by its name
	Tags        []string           // of the agent, in order
	Labels      map[string]string  // tags with values
	OwnerTeam   string
	TenantScope string   // the only tenant that may use the agent; "" is any, and NoTenant none
	Patterns    []string // communication patterns, such as "coordinator_managed"
	Limits      Limits
	// Extra holds the fields of an AgentSpec that Cortex keeps and does not read: nats_subject, tools, evaluators and others.
	Extra map[string]any
}

// Ability is what a Spec says of one skill.
type Ability struct {
	InputSchema  json.RawMessage // JSON Schema 2020-12 of a task's structured input; nil: none
	OutputSchema json.RawMessage // of its result; nil: none
	Confidence   *float64        // how good the agent thinks it is, from 0 to 1; nil: not said
	DispatchKey  string          // what the agent wants as a task's type; "": the skill's id
	Confirm      bool            // the user has to say yes first, unless a policy rule says otherwise
	Once         bool            // a task that was sent is given to no other agent, since it may have had its effect
}

// Limits are what an agent can bear. 0, or nil, is not said.
type Limits struct {
	MaxConcurrentTasks int
	TaskTimeout        time.Duration
	LLMTimeout         time.Duration
	MaxRetries         *int
}

// SkillID returns what a skill is called for by: its id, or its name when it has none.
func SkillID(s *a2a.AgentSkill) string { return cmp.Or(s.ID, s.Name) }

// SpecOf returns what c carries; the zero Spec when it carries nothing. What cannot be read is left out: values of another
// type, over a bound, or with characters that cannot be printed; but such a tenant scope is [NoTenant]. Schemas are in one form
// however the card came, so that specs can be compared. It is fast for a card without the extension. The result is not nil; it
// shares memory with c.
func SpecOf(c *a2a.AgentCard) *Spec {
	if c == nil {
		return &Spec{}
	}
	for i := range c.Capabilities.Extensions {
		if e := &c.Capabilities.Extensions[i]; e.URI == ExtensionURI {
			return readParams(e.Params, c.Skills)
		}
	}
	return &Spec{}
}

// Attach returns a copy of c that carries s, in the place of what it carried; a Spec that says nothing, or nil, removes it.
// What [SpecOf] would leave out is left out already here. The copy shares memory with c, except for its extensions.
func Attach(c *a2a.AgentCard, s *Spec) *a2a.AgentCard {
	n := *c
	n.Capabilities.Extensions = slices.DeleteFunc(slices.Clone(c.Capabilities.Extensions), func(e a2a.AgentExtension) bool {
		return e.URI == ExtensionURI
	})
	if len(n.Capabilities.Extensions) == 0 {
		n.Capabilities.Extensions = nil
	}
	if s == nil {
		return &n
	}
	if params := writeParams(s, c.Skills); len(params) > 0 {
		n.Capabilities.Extensions = append(n.Capabilities.Extensions, a2a.AgentExtension{
			URI: ExtensionURI, Description: "What the agent takes, gives and can bear", Params: params,
		})
	}
	return &n
}
