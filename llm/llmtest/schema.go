package llmtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// outline describes a schema in one line per node, equally for each provider's dialect: its path, type, whether it may be null, its values, and what
// is required. Properties are in the order in which a model is to write them.
func outline(schema json.RawMessage) ([]string, error) {
	var lines []string
	if err := outlineAt("answer", schema, &lines); err != nil {
		return nil, err
	}
	return lines, nil
}

// node is a schema, as JSON Schema or as Google's variant of OpenAPI.
type node struct {
	Type       json.RawMessage   `json:"type"`
	Nullable   bool              `json:"nullable"`
	AnyOf      []json.RawMessage `json:"anyOf"`
	Enum       []string          `json:"enum"`
	Properties ordered           `json:"properties"`
	Order      []string          `json:"propertyOrdering"`
	Required   []string          `json:"required"`
	Items      json.RawMessage   `json:"items"`
}

func outlineAt(path string, schema json.RawMessage, lines *[]string) error {
	var n node
	if err := json.Unmarshal(schema, &n); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var types []string
	if len(n.Type) > 0 && n.Type[0] == '[' {
		if err := json.Unmarshal(n.Type, &types); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	} else if len(n.Type) > 0 {
		types = []string{""}
		if err := json.Unmarshal(n.Type, &types[0]); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, alternative := range n.AnyOf {
		var a struct{ Type string }
		if err := json.Unmarshal(alternative, &a); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		types = append(types, a.Type)
	}
	if n.Nullable {
		types = append(types, "null")
	}
	for i := range types {
		types[i] = strings.ToLower(types[i])
	}
	slices.Sort(types)
	slices.Sort(n.Required)
	*lines = append(*lines, fmt.Sprintf("%s: %s, values %q, required %q", path, strings.Join(slices.Compact(types), " or "), n.Enum, n.Required))
	names := n.Properties.names
	if len(n.Order) > 0 {
		names = n.Order
	}
	for _, name := range names {
		if err := outlineAt(path+"."+name, n.Properties.values[name], lines); err != nil {
			return err
		}
	}
	if len(n.Properties.values) != len(names) {
		return fmt.Errorf("%s: the order %q is not that of the %d properties", path, names, len(n.Properties.values))
	}
	if len(n.Items) > 0 {
		return outlineAt(path+"[]", n.Items, lines)
	}
	return nil
}

// ordered is a JSON object with ordered keys.
type ordered struct {
	names  []string
	values map[string]json.RawMessage
}

// UnmarshalJSON implements [json.Unmarshaler].
func (o *ordered) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &o.values); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		o.names = append(o.names, fmt.Sprint(name))
	}
	return nil
}
