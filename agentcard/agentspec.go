package agentcard

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// minTimeout is the shortest time that an AgentSpec may specify.
const minTimeout = time.Second

// The communication patterns of an AgentSpec in which an agent takes part.
const (
	CoordinatorManaged = "coordinator_managed"
	SwarmPeer          = "swarm_peer"     // may get the same task as others
	Blackboard         = "blackboard"     // may use the board of its task
	MarketBidding      = "market_bidding" // is asked to bid for tasks
)

var knownPatterns = []string{CoordinatorManaged, SwarmPeer, Blackboard, MarketBidding}

// threeNumbers is the form of an AgentSpec's version.
var threeNumbers = regexp.MustCompile(`^\d+\.\d+\.\d+$`)

// specDocument has the fields of an AgentSpec that a card lacks.
type specDocument struct {
	OwnerTeam         string                     `json:"owner_team"`
	TenantScope       string                     `json:"tenant_scope"`
	SupportedPatterns []string                   `json:"supported_patterns"`
	MaxConcurrent     *int                       `json:"max_concurrent_tasks"`
	TaskTimeout       *int                       `json:"task_timeout_ms"`
	LLMTimeout        *int                       `json:"llm_timeout_ms"`
	MaxRetries        *int                       `json:"max_retries"`
	Tags              any                        `json:"tags"` // a list, or a map as in an AgentSpec
	Labels            map[string]string          `json:"labels"`
	Abilities         map[string]abilityDocument `json:"abilities"`
	keptDocument
}

// keptDocument has the fields of an AgentSpec that are checked and kept, but not used.
type keptDocument struct {
	NATSSubject   string              `json:"nats_subject"`
	ConsumerGroup string              `json:"consumer_group"`
	Reflection    *reflectionDocument `json:"reflection_config"`
	Evaluators    []string            `json:"evaluators"`
	Tools         []string            `json:"tools"`
}

var keptFields = []string{"nats_subject", "consumer_group", "reflection_config", "evaluators", "tools"}

type reflectionDocument struct {
	Enabled   bool     `json:"enabled"`
	MaxRounds *int     `json:"max_rounds"`
	Criteria  []string `json:"criteria"`
	Model     string   `json:"model"`
}

// agentSpecDocument is an AgentSpec.
type agentSpecDocument struct {
	AgentType    string               `json:"agent_type"`
	Version      string               `json:"version"`
	Description  string               `json:"description"`
	Capabilities []capabilityDocument `json:"capabilities"`
	specDocument

	// Fields that the registry determines.
	Status        any `json:"status"`
	RegisteredAt  any `json:"registered_at"`
	LastHeartbeat any `json:"last_heartbeat"`
}

// capabilityDocument is a capability in an AgentSpec.
type capabilityDocument struct {
	Name         string   `json:"name"`
	Description  string   `json:"description"`
	InputSchema  any      `json:"input_schema"`
	OutputSchema any      `json:"output_schema"`
	Confidence   *float64 `json:"confidence_hint"`
}

// readAgentSpec converts an AgentSpec. Its fields nats_subject and consumer_group may be missing: agents are reached through their inboxes.
func (r *reader) readAgentSpec(m map[string]any) (*a2a.AgentCard, error) {
	var d agentSpecDocument
	if err := into("", m, &d); err != nil {
		return nil, err
	}
	for _, f := range []struct{ name, value, example string }{
		{"agent_type", d.AgentType, "product-search-agent"},
		{"version", d.Version, `"1.2.0"`},
		{"description", d.Description, "what the agent is for"},
		{fieldOwner, d.OwnerTeam, "the team that is responsible"},
	} {
		if f.value == "" {
			return nil, fmt.Errorf(`%s is missing; add a line such as "%s: %s"`, f.name, f.name, strings.Trim(f.example, `"`))
		}
	}
	if !threeNumbers.MatchString(d.Version) {
		return nil, fmt.Errorf("version %.40q must be three numbers, such as \"1.2.0\"", d.Version)
	}
	if len(d.Capabilities) == 0 {
		return nil, errors.New("capabilities is missing: at least one with name, description, input_schema and output_schema")
	}
	if len(d.Abilities) > 0 {
		return nil, errors.New("unknown field \"abilities\"; an AgentSpec says it in capabilities")
	}
	c := &a2a.AgentCard{Name: d.AgentType, Version: d.Version, Description: d.Description}
	s := &Spec{}
	for i := range d.Capabilities {
		if err := r.addCapability(fmt.Sprintf("capabilities[%d].", i), &d.Capabilities[i], c, s); err != nil {
			return nil, err
		}
	}
	d.setDefaults()
	if err := d.apply("", s); err != nil {
		return nil, err
	}
	keep(s, m, keptFields)
	for _, f := range []string{"status", "registered_at", "last_heartbeat"} {
		if m[f] != nil {
			r.warn("%s is left out: the registry finds it out by itself", f)
		}
	}
	return Attach(c, s), nil
}

func (r *reader) addCapability(at string, d *capabilityDocument, c *a2a.AgentCard, s *Spec) error {
	switch {
	case d.Name == "":
		return fmt.Errorf("%sname is missing; add a line such as \"name: product.search\"", at)
	case d.Description == "":
		return fmt.Errorf("%sdescription is missing: by it an agent is chosen", at)
	case d.InputSchema == nil:
		return fmt.Errorf("%sinput_schema is missing; what takes anything has {type: object}", at)
	case d.OutputSchema == nil:
		return fmt.Errorf("%soutput_schema is missing; what gives anything has {type: object}", at)
	case slices.ContainsFunc(c.Skills, func(s a2a.AgentSkill) bool { return s.ID == d.Name }):
		return fmt.Errorf("%sname %.60q is there twice: each ability has its own", at, d.Name)
	}
	for name, schema := range map[string]any{fieldInput: d.InputSchema, fieldOutput: d.OutputSchema} {
		if _, ok := schema.(map[string]any); !ok {
			return fmt.Errorf("%s%s must be a group of fields, not %s", at, name, kindWord(schema))
		}
	}
	modes := []string{"application/json", "text/plain"}
	c.Skills = append(c.Skills, a2a.AgentSkill{
		ID: d.Name, Name: d.Name, Description: d.Description, Tags: []string{}, InputModes: modes, OutputModes: modes,
	})
	return r.addAbility(at, d.Name, &abilityDocument{InputSchema: d.InputSchema, OutputSchema: d.OutputSchema, ConfidenceHint: d.Confidence}, s)
}

// addAbility adds the ability fields of a skill to s.
func (r *reader) addAbility(at, id string, d *abilityDocument, s *Spec) error {
	a := s.Abilities[id]
	for _, f := range []struct {
		name  string
		value any
		to    *json.RawMessage
	}{{fieldInput, d.InputSchema, &a.InputSchema}, {fieldOutput, d.OutputSchema, &a.OutputSchema}} {
		if f.value == nil {
			continue
		}
		text, err := json.Marshal(f.value)
		if err != nil {
			return fmt.Errorf("%s%s: %w", at, f.name, err)
		}
		schema, err := Compile(text)
		if err != nil {
			return fmt.Errorf("%s%s: %w", at, f.name, err)
		}
		for _, ref := range schema.Unresolved() {
			r.warn("%s%s: %.100q is not in the schema: anything is allowed there", at, f.name, ref)
		}
		*f.to = text
	}
	if c := d.ConfidenceHint; c != nil {
		if *c < 0 || *c > 1 {
			return fmt.Errorf("%sconfidence_hint is %v, it must be from 0 to 1", at, *c)
		}
		a.Confidence = c
	}
	if d.DispatchKey != "" {
		if err := checkWord(at+fieldDispatch, d.DispatchKey); err != nil {
			return err
		}
		a.DispatchKey = d.DispatchKey
	}
	a.Confirm, a.Once = a.Confirm || d.Confirm, a.Once || d.Once
	if !a.empty() {
		put(&s.Abilities, id, a)
	}
	return nil
}

// readSpec reads the fields of an AgentSpec that a card may have besides its own. With keepUnknown it keeps unknown fields, which may be other
// programs'.
func (r *reader) readSpec(at string, m map[string]any, skills []a2a.AgentSkill, s *Spec, keepUnknown bool) error {
	if m == nil {
		return nil
	}
	if keepUnknown {
		known := maps.Clone(m)
		for k, v := range m {
			if !slices.Contains(specFields, k) {
				put(&s.Extra, k, v)
				delete(known, k)
			}
		}
		m = known
	}
	var d specDocument
	if err := into(at, m, &d); err != nil {
		return err
	}
	if err := d.apply(at, s); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(d.Abilities)) {
		if !slices.ContainsFunc(skills, func(s a2a.AgentSkill) bool { return SkillID(&s) == id }) {
			return fmt.Errorf("%sabilities.%s: there is no skill with this id", at, id)
		}
		a := d.Abilities[id]
		if err := r.addAbility(at+"abilities."+id+".", id, &a, s); err != nil {
			return err
		}
	}
	keep(s, m, keptFields)
	return nil
}

// keep copies non-null fields of m to s unchanged.
func keep(s *Spec, m map[string]any, fields []string) {
	for _, f := range fields {
		if m[f] != nil {
			put(&s.Extra, f, m[f])
		}
	}
}

// SpecDefaults returns the limits that hold for an AgentSpec where it says nothing.
func SpecDefaults() Limits {
	retries := 3
	return Limits{MaxConcurrentTasks: 10, TaskTimeout: time.Minute, LLMTimeout: 30 * time.Second, MaxRetries: &retries}
}

// setDefaults sets the defaults that AgentSpec defines.
func (d *specDocument) setDefaults() {
	limits := SpecDefaults()
	for _, f := range []struct {
		to *(*int)
		n  int
	}{
		{&d.MaxConcurrent, limits.MaxConcurrentTasks},
		{&d.TaskTimeout, int(limits.TaskTimeout / time.Millisecond)},
		{&d.LLMTimeout, int(limits.LLMTimeout / time.Millisecond)},
		{&d.MaxRetries, *limits.MaxRetries},
	} {
		if *f.to == nil {
			*f.to = &f.n
		}
	}
	if d.SupportedPatterns == nil {
		d.SupportedPatterns = []string{knownPatterns[0]}
	}
}

// apply validates d, and sets its fields in s.
func (d *specDocument) apply(at string, s *Spec) error {
	for _, f := range []struct {
		name  string
		value string
		to    *string
	}{{fieldOwner, d.OwnerTeam, &s.OwnerTeam}, {fieldTenant, d.TenantScope, &s.TenantScope}} {
		if err := checkWord(at+f.name, f.value); err != nil {
			return err
		}
		if f.value != "" {
			*f.to = f.value
		}
	}
	for i, p := range d.SupportedPatterns {
		if !slices.Contains(knownPatterns, p) {
			return fmt.Errorf("%ssupported_patterns[%d] is %.40q, it must be one of %s", at, i, p, strings.Join(knownPatterns, ", "))
		}
		if !slices.Contains(s.Patterns, p) {
			s.Patterns = append(s.Patterns, p)
		}
	}
	if err := d.applyLimits(at, &s.Limits); err != nil {
		return err
	}
	if r := d.Reflection; r != nil && r.MaxRounds != nil {
		if err := within(at+"reflection_config.max_rounds", *r.MaxRounds, 1, 5); err != nil {
			return err
		}
	}
	return d.applyTags(at, s)
}

func (d *specDocument) applyLimits(at string, l *Limits) error {
	const least, most = int(minTimeout / time.Millisecond), int(MaxTimeout / time.Millisecond)
	for _, f := range []struct {
		name        string
		value       *int
		least, most int
		set         func(int)
	}{
		{fieldConcurrency, d.MaxConcurrent, 1, MaxNumber, func(n int) { l.MaxConcurrentTasks = n }},
		{fieldTaskTimeout, d.TaskTimeout, least, most, func(n int) { l.TaskTimeout = time.Duration(n) * time.Millisecond }},
		{fieldLLMTimeout, d.LLMTimeout, least, most, func(n int) { l.LLMTimeout = time.Duration(n) * time.Millisecond }},
		{fieldRetries, d.MaxRetries, 0, MaxNumber, func(n int) { l.MaxRetries = &n }},
	} {
		if f.value == nil {
			continue
		}
		if err := within(at+f.name, *f.value, f.least, f.most); err != nil {
			return err
		}
		f.set(*f.value)
	}
	return nil
}

// applyTags applies tags, which are a list, or a map with the meaning of labels.
func (d *specDocument) applyTags(at string, s *Spec) error {
	labels := d.Labels
	switch tags := d.Tags.(type) {
	case nil:
	case []any:
		for i, e := range tags {
			t, ok := e.(string)
			if !ok {
				return fmt.Errorf("%stags[%d] must be a text, not %s", at, i, kindWord(e))
			}
			if err := checkWord(fmt.Sprintf("%stags[%d]", at, i), t); err != nil {
				return err
			}
		}
		if len(tags) > MaxTags {
			return fmt.Errorf("%stags: at most %d are allowed, not %d", at, MaxTags, len(tags))
		}
		s.Tags = words(tags, MaxTags)
	case map[string]any:
		labels = maps.Clone(labels)
		for k, v := range tags {
			text, err := fit(at+"tags."+k, v, stringType)
			if err != nil {
				return err
			}
			t, _ := text.(string)
			put(&labels, k, t)
		}
	default:
		return fmt.Errorf("%stags must be a list or a group of fields, not %s", at, kindWord(tags))
	}
	if len(labels) > MaxLabels {
		return fmt.Errorf("%slabels: at most %d are allowed, not %d", at, MaxLabels, len(labels))
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if err := cmp.Or(checkWord(at+"labels", k), checkWord(at+"labels."+k, labels[k])); err != nil {
			return err
		}
		put(&s.Labels, k, labels[k])
	}
	return nil
}

func within(at string, n, least, most int) error {
	if n < least {
		return fmt.Errorf("%s is %d, it must be at least %d", at, n, least)
	}
	if n > most {
		return fmt.Errorf("%s is %d, it must be at most %d", at, n, most)
	}
	return nil
}

// checkWord returns an error for a text that word would reject.
func checkWord(at, s string) error {
	switch {
	case len(s) > MaxWord:
		return fmt.Errorf("%s is %d bytes long, at most %d are allowed", at, len(s), MaxWord)
	case word(s) != s:
		return fmt.Errorf("%s must be one line of printable characters", at)
	}
	return nil
}
