package agentcard

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// maxDepth bounds the nesting of a schema, and of values that are kept unread.
const maxDepth = 64

// The fields of the extension, named as in AgentSpec.
const (
	fieldAbilities   = "abilities"
	fieldTags        = "tags"
	fieldLabels      = "labels"
	fieldOwner       = "owner_team"
	fieldTenant      = "tenant_scope"
	fieldPatterns    = "supported_patterns"
	fieldConcurrency = "max_concurrent_tasks"
	fieldTaskTimeout = "task_timeout_ms"
	fieldLLMTimeout  = "llm_timeout_ms"
	fieldRetries     = "max_retries"

	fieldInput      = "input_schema"
	fieldOutput     = "output_schema"
	fieldConfidence = "confidence_hint"
	fieldDispatch   = "dispatch_key"
	fieldConfirm    = "confirm"
	fieldOnce       = "once"
)

var specFields = []string{
	fieldOwner, fieldTenant, fieldPatterns, fieldConcurrency, fieldTaskTimeout, fieldLLMTimeout, fieldRetries,
	fieldTags, fieldLabels, fieldAbilities,
}

// readParams decodes the parameters of the extension, which may be of any form.
func readParams(params map[string]any, skills []a2a.AgentSkill) *Spec {
	s := &Spec{
		OwnerTeam:   word(params[fieldOwner]),
		TenantScope: scope(params[fieldTenant]),
		Patterns:    words(params[fieldPatterns], MaxPatterns),
		Tags:        words(params[fieldTags], MaxTags),
		Labels:      pairs(params[fieldLabels]),
		Limits: Limits{
			MaxConcurrentTasks: positive(params[fieldConcurrency]),
			TaskTimeout:        milliseconds(params[fieldTaskTimeout]),
			LLMTimeout:         milliseconds(params[fieldLLMTimeout]),
			MaxRetries:         count(params[fieldRetries]),
		},
	}
	if s.Labels == nil {
		s.Labels = pairs(params[fieldTags]) // tags of an AgentSpec may have values
	}
	abilities, _ := params[fieldAbilities].(map[string]any)
	for i := range skills {
		id := SkillID(&skills[i])
		m, ok := abilities[id].(map[string]any)
		if !ok {
			continue
		}
		if a := readAbility(m); !a.empty() {
			put(&s.Abilities, id, a)
		}
	}
	for k, v := range params {
		if !slices.Contains(specFields, k) && !deep(v) {
			put(&s.Extra, k, v)
		}
	}
	return s
}

func readAbility(m map[string]any) Ability {
	a := Ability{InputSchema: schemaText(m[fieldInput]), OutputSchema: schemaText(m[fieldOutput]), DispatchKey: word(m[fieldDispatch])}
	a.Confirm, a.Once = m[fieldConfirm] == true, m[fieldOnce] == true
	a.Confidence = confidence(m)
	return a
}

func confidence(m map[string]any) *float64 {
	f, ok := m[fieldConfidence].(float64)
	if !ok || !(f >= 0 && f <= 1) { // NaN is neither
		return nil
	}
	stated := f // allocated only for a card that states one
	return &stated
}

func (a Ability) empty() bool {
	return a.InputSchema == nil && a.OutputSchema == nil && a.Confidence == nil && a.DispatchKey == "" && !a.Confirm && !a.Once
}

// writeParams encodes s as parameters of the extension: in the form that they have after being sent, and without what readParams ignores.
func writeParams(s *Spec, skills []a2a.AgentSkill) map[string]any {
	return params(readParams(params(s), skills))
}

func params(s *Spec) map[string]any {
	m := map[string]any{}
	for k, v := range s.Extra {
		if !slices.Contains(specFields, k) {
			set(m, k, v, true)
		}
	}
	set(m, fieldOwner, s.OwnerTeam, s.OwnerTeam != "")
	set(m, fieldTenant, s.TenantScope, s.TenantScope != "")
	set(m, fieldPatterns, s.Patterns, len(s.Patterns) > 0)
	set(m, fieldTags, s.Tags, len(s.Tags) > 0)
	set(m, fieldLabels, s.Labels, len(s.Labels) > 0)
	set(m, fieldConcurrency, s.Limits.MaxConcurrentTasks, s.Limits.MaxConcurrentTasks != 0)
	set(m, fieldTaskTimeout, s.Limits.TaskTimeout.Milliseconds(), s.Limits.TaskTimeout != 0)
	set(m, fieldLLMTimeout, s.Limits.LLMTimeout.Milliseconds(), s.Limits.LLMTimeout != 0)
	set(m, fieldRetries, s.Limits.MaxRetries, s.Limits.MaxRetries != nil)
	abilities := map[string]any{}
	for id, a := range s.Abilities {
		f := map[string]any{}
		set(f, fieldInput, a.InputSchema, a.InputSchema != nil)
		set(f, fieldOutput, a.OutputSchema, a.OutputSchema != nil)
		set(f, fieldConfidence, a.Confidence, a.Confidence != nil)
		set(f, fieldDispatch, a.DispatchKey, a.DispatchKey != "")
		set(f, fieldConfirm, true, a.Confirm)
		set(f, fieldOnce, true, a.Once)
		if len(f) > 0 {
			abilities[id] = f
		}
	}
	if len(abilities) > 0 {
		m[fieldAbilities] = abilities
	}
	return m
}

// set sets m[k] to v in the form that it has after encoding and decoding; it omits a value that JSON cannot express.
func set(m map[string]any, k string, v any, isSaid bool) {
	if !isSaid {
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		return
	}
	var native any
	if json.Unmarshal(b, &native) == nil {
		m[k] = native
	}
}

func put[V any](m *map[string]V, k string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[k] = v
}

// schemaText returns the canonical text of a schema, with sorted keys and without spaces, or nil when v is no schema or too large.
func schemaText(v any) json.RawMessage {
	switch v := v.(type) {
	case map[string]any, bool:
	case json.RawMessage: // see Pack
		if len(v) == 0 || len(v) > MaxSchema || v[0] != '{' || deep(v) {
			return nil
		}
		return v
	default:
		return nil
	}
	if deep(v) {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil || len(b) > MaxSchema {
		return nil
	}
	return b
}

// shallow reports whether v has at most depth levels of lists and maps.
func shallow(v any, depth int) bool {
	switch v := v.(type) {
	case map[string]any:
		if depth == 0 {
			return false
		}
		for _, e := range v {
			if !shallow(e, depth-1) {
				return false
			}
		}
	case []any:
		if depth == 0 {
			return false
		}
		for _, e := range v {
			if !shallow(e, depth-1) {
				return false
			}
		}
	}
	return true
}

// word returns v if it is a printable text on one line, within the bound; otherwise "".
func word(v any) string {
	s, ok := v.(string)
	if !ok || len(s) > MaxWord || !utf8.ValidString(s) {
		return ""
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return ""
		}
	}
	return s
}

// scope returns the tenant that v names. An invalid scope must not be ignored: the agent would be available to all tenants.
func scope(v any) string {
	s := word(v)
	if s == "" && v != nil && v != "" {
		return NoTenant
	}
	return s
}

// words returns the valid words of a list without duplicates, at most limit.
func words(v any, limit int) []string {
	list, _ := unpacked(v).([]any)
	var out []string
	for _, e := range list {
		if w := word(e); w != "" && len(out) < limit && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// pairs returns the valid entries of a map, at most MaxLabels, the first ones by name.
func pairs(v any) map[string]string {
	m, _ := unpacked(v).(map[string]any)
	var out map[string]string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if s, ok := m[k].(string); ok && word(k) != "" && word(s) == s && len(out) < MaxLabels {
			put(&out, k, s)
		}
	}
	return out
}

// positive returns a whole number from 1 to MaxNumber; otherwise 0.
func positive(v any) int {
	if n := count(v); n != nil {
		return *n
	}
	return 0
}

// count returns a whole number from 0 to MaxNumber; otherwise nil.
func count(v any) *int {
	f, ok := v.(float64)
	if !ok || f < 0 || f > MaxNumber || f != math.Trunc(f) {
		return nil
	}
	n := int(f)
	return &n
}

// milliseconds returns a duration from 1 ms to MaxTimeout; otherwise 0.
func milliseconds(v any) time.Duration {
	f, ok := v.(float64)
	if !ok || f < 1 || f > float64(MaxTimeout.Milliseconds()) {
		return 0
	}
	return time.Duration(f) * time.Millisecond
}
