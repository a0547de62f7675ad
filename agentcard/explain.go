package agentcard

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// Bounds of the explanation of what is wrong with a value.
const (
	maxError    = 300 // bytes
	maxFindings = 3
	maxCounted  = 1000
	maxShown    = 40 // bytes of a value or a name in it
)

// finding is one violation.
type finding struct {
	at   string // JSON pointer into the value
	what string
}

func (f finding) String() string {
	if f.at == "" {
		return "the value " + f.what
	}
	return f.at + " " + f.what
}

// explain rewords a validation error, on one line.
func explain(err error) error {
	ve, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return errors.New(oneLine(err.Error(), maxError))
	}
	found := findings(ve, nil)
	slices.SortFunc(found, func(a, b finding) int {
		if c := strings.Compare(a.at, b.at); c != 0 {
			return c
		}
		return strings.Compare(a.what, b.what)
	})
	found = slices.Compact(found)
	more := ""
	if n := len(found) - maxFindings; n > 0 {
		found = found[:maxFindings]
		more = fmt.Sprintf("; and %d more", n)
	}
	texts := make([]string, len(found))
	for i, f := range found {
		texts[i] = f.String()
	}
	return errors.New(oneLine(strings.Join(texts, "; "), maxError-len(more)) + more)
}

// explainSchema explains why a schema cannot be used.
func explainSchema(err error) error {
	var invalid *jsonschema.SchemaValidationError
	var regex *jsonschema.InvalidRegexError
	switch {
	case errors.As(err, &invalid):
		return errors.New(oneLine("the schema is not valid: "+strings.ReplaceAll(explain(invalid.Err).Error(), "the value", "it"), maxError))
	case errors.As(err, &regex):
		return errors.New(oneLine(fmt.Sprintf("the pattern %q cannot be used: %v", clip(regex.Regex), regex.Err), maxError))
	}
	return errors.New(oneLine("the schema cannot be used: "+strings.ReplaceAll(err.Error(), schemaURL, ""), maxError))
}

// findings appends the violations in e to found, up to maxCounted.
func findings(e *jsonschema.ValidationError, found []finding) []finding {
	if len(found) >= maxCounted {
		return found
	}
	at := pointer(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, c := range e.Causes {
			found = findings(c, found)
		}
		return found
	case *kind.AnyOf:
		return append(found, alternatives(at, e.Causes))
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			return append(found, alternatives(at, e.Causes))
		}
		return append(found, finding{at, "fits several of its forms, but must fit only one"})
	case *kind.Required:
		return append(found, missing(e.InstanceLocation, k.Missing, "")...)
	case *kind.DependentRequired:
		return append(found, missing(e.InstanceLocation, k.Missing, k.Prop)...)
	case *kind.Dependency:
		return append(found, missing(e.InstanceLocation, k.Missing, k.Prop)...)
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			found = append(found, finding{pointer(append(slices.Clone(e.InstanceLocation), name)), "is not allowed there"})
		}
		return found
	case *kind.PropertyNames: // its location is unreliable: the library overwrites it
		what := fmt.Sprintf("has a field whose name is not allowed: %q", clip(k.Property))
		if len(e.Causes) == 1 {
			if f, ok := e.Causes[0].ErrorKind.(*kind.Format); ok && f.Want == "regex" {
				what += " " + rule(f)
			}
		}
		return append(found, finding{what: what})
	}
	return append(found, finding{at, rule(e.ErrorKind)})
}

func missing(at, names []string, beside string) []finding {
	var found []finding
	for _, name := range names {
		what := "is missing"
		if beside != "" {
			what = fmt.Sprintf("is missing; it is needed beside %q", clip(beside))
		}
		found = append(found, finding{pointer(append(slices.Clone(at), name)), what})
	}
	return found
}

// alternatives explains that a value has none of its allowed forms. If the forms differ by type, it names the types; otherwise it explains the
// violation of the closest form, the one whose violation is deepest.
func alternatives(at string, causes []*jsonschema.ValidationError) finding {
	var types []string
	got, onlyTypes := "", len(causes) > 0
	var closest finding
	depth := -1
	for _, c := range causes {
		t, ok := c.ErrorKind.(*kind.Type)
		if ok && pointer(c.InstanceLocation) == at {
			types, got = append(types, t.Want...), t.Got
			continue
		}
		onlyTypes = false
		for _, f := range findings(c, nil) {
			if d := strings.Count(f.at, "/"); d > depth {
				closest, depth = f, d
			}
		}
	}
	switch {
	case onlyTypes:
		return finding{at, mustBe(types, got)}
	case depth < 0:
		return finding{at, "has none of the forms that it may have"}
	case closest.at == at:
		return finding{at, "has none of the forms that it may have: for one of them it " + closest.what}
	}
	return finding{at, "has none of the forms that it may have: for one of them " + closest.String()}
}

// rule describes which rule a value violates.
func rule(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return mustBe(k.Want, k.Got)
	case *kind.Format:
		if e, ok := errors.AsType[*enumError](k.Err); ok {
			return "must be " + oneOf(e.want) + ", not " + show(e.got)
		}
		if e, ok := errors.AsType[*twiceError](k.Err); ok {
			return e.Error()
		}
		return fmt.Sprintf("is not a valid %s: %v", k.Want, k.Err)
	case *kind.Enum: // of the meta-schema
		return "must be " + oneOf(k.Want) + ", not " + show(k.Got)
	case *kind.Const:
		return "must be " + show(k.Want) + ", not " + show(k.Got)
	case *kind.Minimum:
		return "must be at least " + number(k.Want) + ", not " + number(k.Got)
	case *kind.Maximum:
		return "must be at most " + number(k.Want) + ", not " + number(k.Got)
	case *kind.ExclusiveMinimum:
		return "must be over " + number(k.Want) + ", not " + number(k.Got)
	case *kind.ExclusiveMaximum:
		return "must be under " + number(k.Want) + ", not " + number(k.Got)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want) + ", not " + number(k.Got)
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters, not %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, not %d", k.Want, k.Got)
	case *kind.Pattern:
		return fmt.Sprintf("must match the pattern %q", clip(k.Want))
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items, not %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items, not %d", k.Want, k.Got)
	case *kind.AdditionalItems:
		return fmt.Sprintf("has %d items too many", k.Count)
	case *kind.UniqueItems:
		return fmt.Sprintf("has equal items, at %d and %d", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains, *kind.MinContains:
		return "has too few items of a form that it must contain"
	case *kind.MaxContains:
		return "has too many items of a form that it may contain"
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d fields, not %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d fields, not %d", k.Want, k.Got)
	case *kind.FalseSchema:
		return "is not allowed there"
	case *kind.Not:
		return "has a form that it must not have"
	case *kind.RefCycle:
		return "cannot be checked: its schema refers to itself without end"
	}
	return "breaks the rule " + strings.Join(k.KeywordPath(), "/")
}

func mustBe(types []string, got string) string {
	var names []string
	for _, t := range types {
		if a := article(t); !slices.Contains(names, a) {
			names = append(names, a)
		}
	}
	return "must be " + strings.Join(names, " or ") + ", not " + article(got)
}

// article returns the name of a JSON type with its article.
func article(t string) string {
	switch t {
	case "null":
		return t
	case "boolean":
		return "true or false"
	case "array", "integer", "object":
		return "an " + t
	}
	return "a " + t
}

// kindOf returns the JSON type of a decoded value.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case float64, int, int64, json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

func oneOf(values []any) string {
	if len(values) == 1 {
		return show(values[0])
	}
	var b strings.Builder
	b.WriteString("one of ")
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		if b.Len() > 3*maxShown {
			b.WriteString("…")
			break
		}
		b.WriteString(show(v))
	}
	return b.String()
}

func show(v any) string {
	switch v := v.(type) {
	case map[string]any, []any:
		return "such " + article(kindOf(v))
	case string:
		return strconv.Quote(clip(v))
	}
	b, _ := json.Marshal(v)
	return clip(string(b))
}

func number(r *big.Rat) string {
	if r.IsInt() && r.Num().BitLen() < 64 {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

func pointer(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString("/" + clip(pointerEscape.Replace(t)))
	}
	return b.String()
}

// clip truncates s to maxShown bytes.
func clip(s string) string { return shorten.Marked(s, maxShown, "…") }

// oneLine returns s on one line, without unprintable characters, in at most n bytes.
func oneLine(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= n {
		return s
	}
	return shorten.To(s, n-len("…")) + "…"
}
