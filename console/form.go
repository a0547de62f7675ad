package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// maxFields bounds the fields of a form, and maxOptions those of a choice.
const (
	maxFields  = 40
	maxOptions = 100
)

// field is a field of a form that was made from a JSON Schema.
type field struct {
	Name     string // of the property
	Key      string // of the form
	Kind     string // string, integer, number, boolean, enum or json
	Required bool
	Hint     string
	Default  string
	Options  []string // of an enum, as JSON
	Labels   []string // of the Options, for people
	Min, Max string
}

// schema is what a form reads of a JSON Schema.
type schema struct {
	Type        json.RawMessage            `json:"type"`
	Properties  map[string]json.RawMessage `json:"properties"`
	Required    []string                   `json:"required"`
	Enum        []json.RawMessage          `json:"enum"`
	Title       string                     `json:"title"`
	Description string                     `json:"description"`
	Default     json.RawMessage            `json:"default"`
	Minimum     *float64                   `json:"minimum"`
	Maximum     *float64                   `json:"maximum"`
}

// fieldsOf returns the fields of a form for a schema: nil without one, a single field for JSON if its properties cannot be fields.
func fieldsOf(raw []byte) []field {
	if len(raw) == 0 {
		return nil
	}
	var s schema
	if json.Unmarshal(raw, &s) != nil || len(s.Properties) == 0 || len(s.Properties) > maxFields {
		return []field{{Name: "input", Key: "json", Kind: "json", Required: true}}
	}
	// The required ones come first, since their order in the schema is lost.
	names := slices.SortedFunc(maps.Keys(s.Properties), func(a, b string) int {
		if ra, rb := slices.Contains(s.Required, a), slices.Contains(s.Required, b); ra != rb {
			if ra {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	var all []field
	for _, name := range names {
		var p schema
		f := field{Name: name, Key: "in." + name, Kind: "json", Required: slices.Contains(s.Required, name)}
		if json.Unmarshal(s.Properties[name], &p) == nil {
			f.describe(&p)
		}
		all = append(all, f)
	}
	return all
}

func (f *field) describe(p *schema) {
	f.Hint = prompt.Clean(strings.TrimPrefix(p.Title+": "+p.Description, ": "), maxLine)
	f.Hint = strings.TrimSuffix(f.Hint, ":")
	var kind string
	switch {
	case len(p.Enum) > 0 && len(p.Enum) <= maxOptions:
		f.Kind = "enum"
		for _, o := range p.Enum {
			label := string(o)
			_ = json.Unmarshal(o, &label) // of a string, without its quotes
			f.Options, f.Labels = append(f.Options, string(o)), append(f.Labels, prompt.Clean(label, maxWord))
		}
	case json.Unmarshal(p.Type, &kind) == nil && slices.Contains([]string{"string", "integer", "number", "boolean"}, kind):
		f.Kind = kind
	}
	if len(p.Default) > 0 {
		f.Default = string(p.Default)
		if f.Kind == "string" {
			_ = json.Unmarshal(p.Default, &f.Default)
		}
	}
	number := func(n *float64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatFloat(*n, 'f', -1, 64)
	}
	f.Min, f.Max = number(p.Minimum), number(p.Maximum)
}

// inputOf makes the input of a skill from what was entered in its form. Cortex checks it against the schema.
func inputOf(fields []field, form url.Values) (json.RawMessage, error) {
	if len(fields) == 1 && fields[0].Key == "json" {
		text := strings.TrimSpace(form.Get("json"))
		if !json.Valid([]byte(text)) {
			return nil, errors.New("the input is no JSON")
		}
		return json.RawMessage(text), nil
	}
	object := make(map[string]json.RawMessage)
	for _, f := range fields {
		text := form.Get(f.Key)
		value, err := f.value(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", prompt.Clean(f.Name, maxWord), err)
		}
		switch {
		case value != nil:
			object[f.Name] = value
		case f.Required:
			return nil, fmt.Errorf("%s is missing", prompt.Clean(f.Name, maxWord))
		}
	}
	return json.Marshal(object)
}

// value returns what was entered as JSON; nil for nothing.
func (f *field) value(text string) (json.RawMessage, error) {
	trimmed := strings.TrimSpace(text)
	switch {
	case f.Kind == "boolean":
		if trimmed == "" && !f.Required {
			return nil, nil
		}
		return json.RawMessage(strconv.FormatBool(trimmed != "")), nil
	case trimmed == "" && !(f.Kind == "string" && f.Required):
		return nil, nil
	case f.Kind == "string":
		return json.Marshal(text)
	case f.Kind == "integer":
		if _, err := strconv.ParseInt(trimmed, 10, 64); err != nil {
			return nil, errors.New("want a whole number")
		}
	case f.Kind == "number":
		if _, err := strconv.ParseFloat(trimmed, 64); err != nil || !json.Valid([]byte(trimmed)) {
			return nil, errors.New("want a number")
		}
	case f.Kind == "enum" && !slices.Contains(f.Options, trimmed):
		return nil, errors.New("want one of its values")
	case !json.Valid([]byte(trimmed)):
		return nil, errors.New("want JSON")
	}
	return json.RawMessage(trimmed), nil
}
