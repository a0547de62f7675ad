package agentcard

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/weighed"
)

// listed returns n parts of JSON.
func listed(open string, n int, part string, end string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.ReplaceAll(part, "%", fmt.Sprint(i))
	}
	return open + strings.Join(parts, ",") + end
}

// TestSchemaWeight compares what schemas weigh with the heap that they take.
func TestSchemaWeight(t *testing.T) {
	const most = MaxSchema*(textWeight+schemaWeight/3) + maxPatterns
	for name, schema := range map[string]string{
		"small":              `{"type":"object","properties":{"a":{"type":"string","description":"the a"},"b":{"type":"integer"}},"required":["a"]}`,
		"schemas":            listed(`{"allOf":[`, 5000, `{}`, `]}`),
		"true":               listed(`{"prefixItems":[`, 3000, `true`, `]}`),
		"properties":         listed(`{"properties":{`, 1000, `"%":{}`, `}}`),
		"numbers":            listed(`{"allOf":[`, 700, `{"minimum":1e300}`, `]}`),
		"enumeration":        listed(`{"enum":[`, 3000, `%`, `]}`),
		"enumerations":       listed(`{"allOf":[`, 900, `{"enum":[%]}`, `]}`),
		"examples":           listed(`{"examples":[`, 5000, `{}`, `]}`),
		"constant":           listed(`{"const":[`, 5000, `[]`, `]}`),
		"dependencies":       listed(`{"dependentRequired":{`, 1200, `"%":[]`, `}}`),
		"one pass":           listed(`{"allOf":[`, 20, `{"pattern":"^\\pL{990}%$"}`, `]}`),
		"no class":           listed(`{"allOf":[`, 20, `{"pattern":"^[^a]{900}%$"}`, `]}`),
		"without case":       listed(`{"allOf":[`, 20, `{"pattern":"(?i)^\\pL{900}%$"}`, `]}`),
		"alternations":       listed(`{"allOf":[`, 20, `{"pattern":"^(\\pL|\\pN){300}%$"}`, `]}`),
		"small patterns":     listed(`{"allOf":[`, 600, `{"pattern":"^%$"}`, `]}`),
		"pattern properties": listed(`{"patternProperties":{`, 20, `"^\\pL{990}%$":{}`, `}}`),
		"property names":     listed(`{"allOf":[`, 20, `{"propertyNames":{"pattern":"^\\pL{990}%$"}}`, `]}`),
		"references":         listed(`{"$defs":{"a":{"pattern":"^\\pL{990}1$"}},"allOf":[`, 700, `{"$ref":"#/$defs/a"}`, `]}`),
		"the same pattern":   listed(`{"allOf":[`, 500, `{"pattern":"^\\pL{990}1$"}`, `]}`),
	} {
		var before, after runtime.MemStats
		kept := make([]*checker, 2)
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range kept {
			var err error
			if kept[i], _, err = newChecker([]byte(schema)); err != nil || len(schema) > MaxSchema {
				t.Fatalf("%s: %d bytes, %v", name, len(schema), err)
			}
		}
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&after)
		heap := (int(after.HeapAlloc) - int(before.HeapAlloc)) / len(kept)
		if w := kept[0].weight; w < heap || w > most {
			t.Errorf("%s: %d bytes take %d, computed are %d", name, len(schema), heap, w)
		}
		runtime.KeepAlive(kept)
	}
}

// TestPatternsTogether checks that what the patterns of one schema weigh has a bound.
func TestPatternsTogether(t *testing.T) {
	for _, schema := range []string{
		listed(`{"allOf":[`, 300, `{"pattern":"^\\pL{990}%$"}`, `]}`),
		listed(`{"patternProperties":{`, 300, `"^\\pL{990}%$":{}`, `}}`),
		listed(`{"allOf":[`, 100, `{"propertyNames":{"pattern":"^[^a]{900}%$"}}`, `]}`),
		listed(`{"$schema":"http://json-schema.org/draft-07/schema#","allOf":[`, 300, `{"pattern":"^\\pL{990}%$"}`, `]}`),
		listed(`{"allOf":[`, 200, `{"pattern":"(?i)[B-\\x{1E942}]%"}`, `]}`),
	} {
		_, err := Compile(json.RawMessage(schema))
		if err == nil || !strings.Contains(err.Error(), "with the other patterns of the schema, the pattern is too large: ") {
			t.Errorf("Compile(%.60s) = %v", schema, err)
		}
	}
}

// TestPatternsThatFail checks that those that are not kept count, too: reading them takes time.
func TestPatternsThatFail(t *testing.T) {
	for _, pattern := range []string{"(?i)[B-\U0001E942](", "(?i)[B-\U0001E942]{1000}[a-z]{1000}[a-z]{1000}[a-z]{1000}[a-z]{1000}"} {
		m := &meter{}
		for range 40 {
			_, _ = m.regexp(pattern)
		}
		_, err := m.regexp(pattern)
		if !errors.Is(err, weighed.ErrLarge) || m.weight > maxPatterns || m.weight < maxPatterns-maxPattern {
			t.Errorf("%q: %v, %d is their weight", pattern, err, m.weight)
		}
	}
}

// TestKeptSchemas checks that many schemas, which somebody keeps, do not keep what was compiled of them, and still validate.
func TestKeptSchemas(t *testing.T) {
	all := make([]*Schema, 100)
	for i := range all {
		var err error
		if all[i], err = Compile(json.RawMessage(listed(fmt.Sprintf(`{"title":"%d","type":"object","allOf":[`, i), 1000, `{}`, `]}`))); err != nil {
			t.Fatal(err)
		}
	}
	kept := func() (n int) {
		for _, s := range all {
			if s.kept.Load() != nil {
				n++
			}
		}
		return n
	}
	if n := kept(); n == 0 || n*1000*schemaWeight > compiled.room {
		t.Errorf("%d schemas are kept", n)
	}
	for range 2 {
		if s := all[0]; s.Validate(json.RawMessage(`{}`)) != nil || s.Validate(json.RawMessage(`[]`)) == nil || s.kept.Load() == nil {
			t.Error("the first schema does not validate, or is compiled each time")
		}
	}
	if n := kept(); n*1000*schemaWeight > compiled.room {
		t.Errorf("%d schemas are kept after a validation", n)
	}
	// The cache knows one schema for a text.
	compiled.put(contentHash{1}, result{schema: all[0]}, 1)
	compiled.put(contentHash{1}, result{schema: &Schema{}}, 1)
	if all[0].kept.Load() != nil {
		t.Error("what left the cache is kept")
	}
}
