package agentcard

import (
	"encoding/json"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// effort bounds one check, in steps of about a microsecond. A schema of a few lines can ask for more steps than there is time:
// where it refers to itself twice, the work doubles with every level of the value. explainEffort bounds one that keeps what
// it finds.
const (
	effort        = 200_000
	explainEffort = 50_000
)

// maxPattern bounds the program of a regular expression, in instructions.
const maxPattern = 4096

// meter counts the steps of a check, and ends it by a panic when they are too many: the library knows no other way to stop.
type meter struct{ left int }

type tooLong struct{}

// run calls f, and returns false when f took more steps, or panicked otherwise: the library is not made for hostile values.
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

// watch makes the meter count at every schema that can be reached from s. The library calls the check of a format before it
// goes deeper, and formats are not checked here; so the meter takes their place. Enumerations move there too, since a long
// one would be compared item by item, without a count.
func (m *meter) watch(s *jsonschema.Schema, seen map[*jsonschema.Schema]bool) {
	if s == nil || seen[s] {
		return
	}
	seen[s] = true
	cost := 1 + len(s.Required) + len(s.Dependencies) + len(s.DependentRequired) + len(s.PatternProperties) + len(s.AllOf) + len(s.AnyOf) + len(s.OneOf)
	enum := newEnum(s)
	s.Enum = nil
	s.Format = &jsonschema.Format{Validate: func(v any) error {
		m.charge(cost + width(v))
		return enum.check(v, m)
	}}
	for _, sub := range subschemas(s) {
		m.watch(sub, seen)
	}
}

// width is how many values v holds directly.
func width(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return len(v)
	case []any:
		return len(v)
	}
	return 0
}

// subschemas returns the schemas that s names.
func subschemas(s *jsonschema.Schema) []*jsonschema.Schema {
	subs := []*jsonschema.Schema{
		s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020,
		s.UnevaluatedItems, s.ContentSchema,
	}
	if s.DynamicRef != nil {
		subs = append(subs, s.DynamicRef.Ref)
	}
	for _, list := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems} {
		subs = append(subs, list...)
	}
	for _, sub := range s.Properties {
		subs = append(subs, sub)
	}
	for _, sub := range s.PatternProperties {
		subs = append(subs, sub)
	}
	for _, sub := range s.DependentSchemas {
		subs = append(subs, sub)
	}
	loose := []any{s.AdditionalProperties, s.Items, s.AdditionalItems}
	for _, dep := range s.Dependencies {
		loose = append(loose, dep)
	}
	for _, l := range loose {
		switch l := l.(type) {
		case *jsonschema.Schema:
			subs = append(subs, l)
		case []*jsonschema.Schema:
			subs = append(subs, l...)
		}
	}
	return subs
}

// enum is what a value must be one of.
type enum struct {
	texts map[string]bool
	want  []any
}

func newEnum(s *jsonschema.Schema) *enum {
	if s.Enum == nil {
		return nil
	}
	e := &enum{texts: map[string]bool{}, want: s.Enum.Values}
	for _, v := range e.want {
		b, err := json.Marshal(v)
		if err == nil {
			e.texts[string(b)] = true
		}
	}
	return e
}

func (e *enum) check(v any, m *meter) error {
	if e == nil {
		return nil
	}
	b, err := json.Marshal(v)
	m.charge(len(b) / 64)
	if err != nil || !e.texts[string(b)] {
		return &enumError{got: v, want: e.want}
	}
	return nil
}

// enumError says that a value is none of those that are allowed.
type enumError struct {
	got  any
	want []any
}

func (e *enumError) Error() string { return "is not one of the values that are allowed" }

// pattern is a regular expression whose use is counted.
type pattern struct {
	*regexp.Regexp
	size  int
	meter *meter
}

func (p *pattern) MatchString(s string) bool {
	p.meter.charge(1 + len(s)*p.size/256)
	return p.Regexp.MatchString(s)
}

// regexp compiles a regular expression. Patterns have no flag, but a repetition can make a short one large.
func (m *meter) regexp(s string) (jsonschema.Regexp, error) {
	re, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil, err
	}
	if len(prog.Inst) > maxPattern {
		return nil, fmt.Errorf("the pattern is too large")
	}
	compiled, err := regexp.Compile(s)
	if err != nil {
		return nil, err
	}
	return &pattern{compiled, len(prog.Inst), m}, nil
}
