package vertex

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	pb "cloud.google.com/go/aiplatform/apiv1beta1/aiplatformpb"
)

// maxDepth bounds the nesting of a schema.
const maxDepth = 32

// node is the part of JSON Schema that Google's dialect can express.
type node struct {
	Type                 oneOrMore       `json:"type"`
	Description          string          `json:"description"`
	Enum                 []*string       `json:"enum"`
	Properties           json.RawMessage `json:"properties"`
	Required             []string        `json:"required"`
	Items                json.RawMessage `json:"items"`
	AdditionalProperties *bool           `json:"additionalProperties"` // the dialect has no equivalent
}

// types are the dialect's types.
var types = map[string]pb.Type{
	"object": pb.Type_OBJECT, "array": pb.Type_ARRAY, "string": pb.Type_STRING,
	"integer": pb.Type_INTEGER, "number": pb.Type_NUMBER, "boolean": pb.Type_BOOLEAN,
}

// convert converts a JSON Schema to Google's dialect. It returns an error if the dialect cannot express it.
func convert(raw json.RawMessage, depth int) (*pb.Schema, error) {
	if depth > maxDepth {
		return nil, errors.New("nested too deep")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var n node
	if err := d.Decode(&n); err != nil {
		return nil, err
	}
	s := &pb.Schema{Description: n.Description, Required: n.Required}
	for _, name := range n.Type {
		switch t, ok := types[name]; {
		case name == "null":
			s.Nullable = true
		case !ok || s.Type != 0:
			return nil, fmt.Errorf("type %q", n.Type)
		default:
			s.Type = t
		}
	}
	if s.Type == 0 {
		return nil, errors.New("no type")
	}
	for _, value := range n.Enum {
		if value == nil || s.Type != pb.Type_STRING {
			return nil, errors.New("values other than strings")
		}
		s.Format = "enum"
		s.Enum = append(s.Enum, *value)
	}
	if len(n.Items) > 0 {
		items, err := convert(n.Items, depth+1)
		if err != nil {
			return nil, fmt.Errorf("items: %w", err)
		}
		s.Items = items
	}
	if len(n.Properties) > 0 {
		if err := convertProperties(s, n.Properties, depth+1); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// convertProperties reads an object's properties, in whose order the model writes them.
func convertProperties(s *pb.Schema, raw json.RawMessage, depth int) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("properties are no object")
	}
	s.Properties = make(map[string]*pb.Schema)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		property, err := convert(value, depth)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if s.Properties[name.(string)] != nil {
			return fmt.Errorf("%s twice", name)
		}
		s.Properties[name.(string)] = property
		s.PropertyOrdering = append(s.PropertyOrdering, name.(string))
	}
	return nil
}

// oneOrMore is a string, or a list of them.
type oneOrMore []string

// UnmarshalJSON implements [json.Unmarshaler].
func (o *oneOrMore) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte("[")) {
		return json.Unmarshal(b, (*[]string)(o))
	}
	*o = make(oneOrMore, 1)
	return json.Unmarshal(b, &(*o)[0])
}

// arguments returns the arguments of a function call as JSON. The protocol loses the order of their names: they are written in the schema's order,
// followed by unknown ones, sorted.
func (s schema) arguments(args map[string]any) string {
	if args == nil {
		args = map[string]any{}
	}
	return string(appendJSON(nil, args, s.vertex))
}

func appendJSON(b []byte, v any, s *pb.Schema) []byte {
	switch v := v.(type) {
	case map[string]any:
		names := slices.DeleteFunc(slices.Clone(s.GetPropertyOrdering()), func(name string) bool {
			_, ok := v[name]
			return !ok
		})
		others := slices.DeleteFunc(slices.Sorted(maps.Keys(v)), func(name string) bool { return s.GetProperties()[name] != nil })
		names = append(names, others...)
		b = append(b, '{')
		for i, name := range names {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendJSON(b, name, nil), ':')
			b = appendJSON(b, v[name], s.GetProperties()[name])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, item, s.GetItems())
		}
		return append(b, ']')
	}
	var one bytes.Buffer
	e := json.NewEncoder(&one)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return append(b, "null"...) // not a number
	}
	return append(b, bytes.TrimSuffix(one.Bytes(), []byte("\n"))...)
}
