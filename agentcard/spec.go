package agentcard

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// ExtensionURI is the URI of the extension in which a card carries a Spec.
const ExtensionURI = "https://github.com/cortex-orchestrator/cortex/extensions/agent-spec/v1"

// Bounds of a Spec. What exceeds them is left out.
const (
	MaxSchema   = 16 << 10 // bytes of one schema
	MaxTags     = 64
	MaxLabels   = 64
	MaxPatterns = 16
	MaxWord     = 256                  // bytes of a tag, a label, a team or another name
	MaxNumber   = 1_000_000            // of concurrent tasks, and of retries
	MaxTimeout  = 365 * 24 * time.Hour // of a task, and of a model's call
)

// NoTenant is the TenantScope of an agent whose scope is invalid. No tenant's name has spaces, so no tenant may use the agent.
const NoTenant = "(cannot be read)"

// Spec has the properties of an agent that an A2A card has no fields for. In the zero value nothing is specified. It is shared and read-only.
type Spec struct {
	Abilities   map[string]Ability // by skill id, or by the name of a skill without an id
	Tags        []string           // of the agent, in order
	Labels      map[string]string  // tags with values
	OwnerTeam   string
	TenantScope string   // the only tenant that may use the agent; "" is any, NoTenant is none
	Patterns    []string // communication patterns, such as "coordinator_managed"
	Limits      Limits
	// Extra has other fields of an AgentSpec: evaluators, whose names a policy uses, and nats_subject, tools and others, which Cortex keeps only. Those
	// of a card from [Pack] may be JSON.
	Extra map[string]any
}

// Ability has the properties of one skill.
type Ability struct {
	InputSchema  json.RawMessage // JSON Schema 2020-12 of a task's structured input; nil: none
	OutputSchema json.RawMessage // of its result; nil: none
	Confidence   *float64        // the agent's estimate of its quality, from 0 to 1; nil: not specified
	DispatchKey  string          // the task type that the agent expects; "": the skill's id
	Confirm      bool            // the user has to consent first, unless a policy rule says otherwise
	Once         bool            // a task that was sent is given to no other agent, since it may have had an effect
}

// Limits are an agent's limits. 0, or nil, is not specified.
type Limits struct {
	MaxConcurrentTasks int
	TaskTimeout        time.Duration
	LLMTimeout         time.Duration
	MaxRetries         *int
}

// Evaluators returns the names of evaluators in Extra.
func (s *Spec) Evaluators() (names []string) {
	list, _ := unpacked(s.Extra[fieldEvaluators]).([]any)
	for _, v := range list {
		if name, ok := v.(string); ok && name != "" {
			names = append(names, name)
		}
	}
	return names
}

// SkillID returns a skill's identifier: its id, or its name when it has no id.
func SkillID(s *a2a.AgentSkill) string { return cmp.Or(s.ID, s.Name) }

// SpecOf returns the Spec of c; the zero Spec when it has none. It ignores invalid values: of another type, above a bound, or with unprintable
// characters; but an invalid tenant scope becomes [NoTenant]. Schemas have a canonical form, so that specs can be compared. It is fast for a card
// without the extension. The result is not nil; it shares memory with c.
func SpecOf(c *a2a.AgentCard) *Spec {
	if c == nil {
		return none
	}
	for i := range c.Capabilities.Extensions {
		if e := &c.Capabilities.Extensions[i]; e.URI == ExtensionURI {
			return readParams(e.Params, c.Skills)
		}
	}
	return none
}

// none is the Spec of all cards without one.
var none = &Spec{}

// AbilityOf returns what [SpecOf] has of one skill of c. Of a large card it is far faster.
func AbilityOf(c *a2a.AgentCard, skill string) Ability {
	return readAbility(abilityOf(c, skill))
}

// ConfidenceOf returns the Confidence of [AbilityOf]. It reads no schema.
func ConfidenceOf(c *a2a.AgentCard, skill string) *float64 {
	return confidence(abilityOf(c, skill))
}

// abilityOf returns what a card says of one of its skills in the extension, or nil.
func abilityOf(c *a2a.AgentCard, skill string) map[string]any {
	if c == nil || !HasSkill(c, skill) {
		return nil
	}
	for i := range c.Capabilities.Extensions {
		if e := &c.Capabilities.Extensions[i]; e.URI == ExtensionURI {
			abilities, _ := e.Params[fieldAbilities].(map[string]any)
			ability, _ := abilities[skill].(map[string]any)
			return ability
		}
	}
	return nil
}

// HasSkill reports whether c has a skill with this id, see [SkillID].
func HasSkill(c *a2a.AgentCard, skill string) bool {
	return slices.ContainsFunc(c.Skills, func(s a2a.AgentSkill) bool { return SkillID(&s) == skill })
}

// TakesPart reports whether the Spec of c names a communication pattern, such as [MarketBidding]. It allocates nothing for a card without the extension.
func TakesPart(c *a2a.AgentCard, pattern string) bool {
	if c == nil {
		return false
	}
	for i := range c.Capabilities.Extensions {
		if e := &c.Capabilities.Extensions[i]; e.URI == ExtensionURI {
			return slices.Contains(words(e.Params[fieldPatterns], MaxPatterns), pattern)
		}
	}
	return false
}

// Attach returns a copy of c with s, replacing its former Spec; an empty or nil Spec removes it. It leaves out what [SpecOf] would ignore. The copy
// shares memory with c, except for its extensions.
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
