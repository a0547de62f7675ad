package agentcard

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cortex-orchestrator/cortex/internal/weighed"
)

// effort bounds one validation, in steps of about a microsecond. A schema of a few lines can need an unlimited number of steps: if it refers to
// itself twice, the work doubles with every level of the value. explainEffort bounds a validation that stores the violations.
const (
	effort        = 200_000
	explainEffort = 50_000
)

// Bounds of the patterns of a schema: a few bytes can be megabytes when they are compiled.
const (
	maxInstructions = 4096      // of one pattern
	maxPattern      = 512 << 10 // weight of one pattern
	maxPatterns     = 2 << 20   // weight of all patterns of a schema
)

// meter counts the steps of a validation, and ends it with a panic when there are too many: the library has no other way to stop.
type meter struct {
	left     int
	patterns map[string]*pattern
	weight   int // of the patterns
}

type tooLong struct{}

// run calls f, and returns false when f took more steps, or panicked otherwise: the library is not designed for hostile values.
func (m *meter) run(steps int, f func()) (done bool) {
	defer func() {
		if recover() != nil {
			done = false
		}
	}()
	m.left = steps
	f()
	return true
}

func (m *meter) charge(n int) {
	if m.left -= n; m.left < 0 {
		panic(tooLong{})
	}
}

// watch installs the meter at every schema that is reachable from s. The library calls the check of a format before it descends, and formats are not
// checked here, so the meter is installed as a format. Enumerations, constants and the uniqueness of items are moved there, too, since the library would
// compare long ones item by item, without counting.
func (m *meter) watch(s *jsonschema.Schema, seen map[*jsonschema.Schema]bool) {
	if s == nil || seen[s] {
		return
	}
	seen[s] = true
	cost := 1 + len(s.Required) + len(s.Dependencies) + len(s.DependentRequired) + len(s.PatternProperties) + len(s.AllOf) + len(s.AnyOf) + len(s.OneOf)
	var enums []*enum
	if s.Const != nil {
		enums = append(enums, newEnum([]any{*s.Const}))
	}
	if s.Enum != nil {
		enums = append(enums, newEnum(s.Enum.Values))
	}
	unique, counted := s.UniqueItems, s.MinLength != nil || s.MaxLength != nil
	s.Const, s.Enum, s.UniqueItems = nil, nil, false
	s.Format = &jsonschema.Format{Validate: func(v any) error {
		m.charge(cost + width(v))
		if text, ok := v.(string); ok && counted {
			m.charge(len(text) / 128)
		}
		for _, e := range enums {
			if err := e.check(v, m); err != nil {
				return err
			}
		}
		if list, ok := v.([]any); ok && unique {
			return checkUnique(list, m)
		}
		return nil
	}}
	for _, sub := range subschemas(s) {
		m.watch(sub, seen)
	}
}

// width returns how many values v contains directly.
func width(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return len(v)
	case []any:
		return len(v)
	}
	return 0
}

// subschemas returns the schemas to which s refers.
func subschemas(s *jsonschema.Schema) []*jsonschema.Schema {
	subs := []*jsonschema.Schema{
		s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020,
		s.UnevaluatedItems, s.ContentSchema,
	}
	if s.DynamicRef != nil {
		subs = append(subs, s.DynamicRef.Ref)
	}
	subs = slices.Concat(subs, s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems)
	subs = slices.AppendSeq(subs, maps.Values(s.Properties))
	subs = slices.AppendSeq(subs, maps.Values(s.PatternProperties))
	subs = slices.AppendSeq(subs, maps.Values(s.DependentSchemas))
	for _, l := range slices.AppendSeq([]any{s.AdditionalProperties, s.Items, s.AdditionalItems}, maps.Values(s.Dependencies)) {
		switch l := l.(type) {
		case *jsonschema.Schema:
			subs = append(subs, l)
		case []*jsonschema.Schema:
			subs = append(subs, l...)
		}
	}
	return subs
}

// enum is an enumeration of the allowed values.
type enum struct {
	texts map[string]bool
	kinds map[string]bool // what is of another kind does not have to be written as JSON
	want  []any
}

func newEnum(want []any) *enum {
	e := &enum{texts: map[string]bool{}, kinds: map[string]bool{}, want: want}
	for _, v := range e.want {
		e.kinds[kindOf(v)] = true
		b, err := json.Marshal(v)
		if err == nil {
			e.texts[string(b)] = true
		}
	}
	return e
}

func (e *enum) check(v any, m *meter) error {
	if e.kinds[kindOf(v)] {
		if b, err := m.text(v); err == nil && e.texts[b] {
			return nil
		}
	}
	return &enumError{got: v, want: e.want}
}

// enumError is the error for a value that is not in an enumeration.
type enumError struct {
	got  any
	want []any
}

func (e *enumError) Error() string { return "is not one of the values that are allowed" }

// text returns v as JSON, which is the same for equal values.
func (m *meter) text(v any) (string, error) {
	b, err := json.Marshal(v)
	m.charge(len(b) / 64)
	return string(b), err
}

// checkUnique returns an error when two items of a list are equal.
func checkUnique(list []any, m *meter) error {
	seen := make(map[string]int, len(list))
	for i, v := range list {
		text, err := m.text(v)
		if err != nil {
			return err
		}
		if first, twice := seen[text]; twice {
			return &twiceError{first, i}
		}
		seen[text] = i
	}
	return nil
}

// twiceError is the error for a list with equal items.
type twiceError struct{ first, second int }

func (e *twiceError) Error() string {
	return fmt.Sprintf("has equal items, at %d and %d", e.first, e.second)
}

// pattern is a regular expression that counts its use.
type pattern struct {
	*weighed.Regexp
	meter *meter
}

func (p *pattern) MatchString(s string) bool {
	p.meter.charge(1 + len(s)*p.Instructions/256)
	return p.Regexp.MatchString(s)
}

// regexp compiles a pattern of the schema. The library asks twice for each, and a schema may say the same one again and again.
func (m *meter) regexp(s string) (jsonschema.Regexp, error) {
	if p := m.patterns[s]; p != nil {
		return p, nil
	}
	room := min(maxPattern, maxPatterns-m.weight)
	re, err := weighed.Compile(s, maxInstructions, room)
	if w := weighed.Reading(s); err != nil && w <= room {
		m.weight += w // it was read, which took its time
	}
	if errors.Is(err, weighed.ErrLarge) && room < maxPattern {
		return nil, fmt.Errorf("with the other patterns of the schema, %w", err)
	}
	if err != nil {
		return nil, err
	}
	if m.patterns == nil {
		m.patterns = map[string]*pattern{}
	}
	m.weight += re.Weight
	m.patterns[s] = &pattern{re, m}
	return m.patterns[s], nil
}
