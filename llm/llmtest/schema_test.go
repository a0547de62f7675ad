package llmtest

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOutline(t *testing.T) {
	const plain = `{"type":"object","properties":{
		"kind":{"type":"string","enum":["a","b"]},
		"about":{"type":["string","null"]},
		"list":{"type":"array","items":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"],"additionalProperties":false}}},
		"required":["kind","about","list"],"additionalProperties":false}`
	want := []string{
		`answer: object, values [], required ["about" "kind" "list"]`,
		`answer.kind: string, values ["a" "b"], required []`,
		`answer.about: null or string, values [], required []`,
		`answer.list: array, values [], required []`,
		`answer.list[]: object, values [], required ["x"]`,
		`answer.list[].x: integer, values [], required []`,
	}
	for name, schema := range map[string]string{
		"JSON Schema": plain,
		"OpenAPI": `{"type":"OBJECT","propertyOrdering":["kind","about","list"],"required":["kind","about","list"],"properties":{
			"about":{"type":"STRING","nullable":true},
			"kind":{"type":"STRING","format":"enum","enum":["a","b"]},
			"list":{"type":"ARRAY","items":{"type":"OBJECT","required":["x"],"properties":{"x":{"type":"INTEGER"}}}}}}`,
		"alternatives": `{"type":"object","required":["list","about","kind"],"properties":{
			"kind":{"type":"string","enum":["a","b"]},
			"about":{"anyOf":[{"type":"string"},{"type":"null"}]},
			"list":{"type":"array","items":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}}}}`,
	} {
		got, err := outline(json.RawMessage(schema))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: outline: %v (-want +got):\n%s", name, err, diff)
		}
	}
	for _, schema := range []string{
		``, `[]`, `{"type":7}`, `{"type":"object","properties":[]}`, `{"type":"object","properties":{"a":7}}`,
		`{"type":"object","properties":{"a":{"type":"string"}},"propertyOrdering":["a","b"]}`,
		`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"propertyOrdering":["a"]}`,
	} {
		if got, err := outline(json.RawMessage(schema)); err == nil {
			t.Errorf("outline(%s) = %q, want an error", schema, got)
		}
	}
}
