package cli

import (
	"encoding/json"
	"testing"
)

// A schema without fields is no input.
func TestSchemaText(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object"}`: "none",
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{},"additionalProperties":false}`: "none",
		`{"type":"object","additionalProperties":{"type":"string"}}`:                                                              `"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}"`,
		`{"type":"object","properties":{"x":{"type":"string"}}}`:                                                                  "x (string)",
	} {
		if got := schemaText(json.RawMessage(schema), "none"); got != want {
			t.Errorf("schemaText(%s) = %q, want %q", schema, got, want)
		}
	}
	if got := schemaText(nil, "none"); got != "" {
		t.Errorf("schemaText(nil) = %q", got)
	}
}
