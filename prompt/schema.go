package prompt

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/agentcard"
)

// Bounds of the JSON Schemas of structured input, in bytes.
const (
	maxSchema     = 700      // in a prompt
	maxSchemaRead = 64 << 10 // longer ones are not shown
	maxProperty   = 64       // of a property's name
)

// inputsOf returns a function that returns the schema of a skill's structured input as shown in a prompt, or "".
func inputsOf(a *Agent) func(skill string) string {
	if a.Inputs != nil {
		return func(skill string) string { return viewSchema(json.RawMessage(a.Inputs[skill]), maxSchema) }
	}
	spec := agentcard.SpecOf(a.Card)
	return func(skill string) string { return viewSchema(spec.Abilities[skill].InputSchema, maxSchema) }
}

// viewSchema returns a JSON Schema on one line, as data: in full if it has at most limit bytes, otherwise its properties with their types, as far as
// they fit; "" when it cannot be parsed.
func viewSchema(raw json.RawMessage, limit int) string {
	if len(raw) == 0 || len(raw) > maxSchemaRead || !json.Valid(raw) {
		return ""
	}
	if s := encode(json.RawMessage(strings.ToValidUTF8(string(raw), "\uFFFD"))); len(s) <= limit {
		return s
	}
	return outline(raw, limit)
}

// outline reduces the schema of an object to the types of its properties and which are required. Required properties come first; the number of
// omitted ones is stated.
func outline(raw json.RawMessage, limit int) string {
	var of struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(raw, &of) != nil || len(of.Properties) == 0 {
		return ""
	}
	required := map[string]bool{}
	for _, name := range of.Required {
		required[name] = true
	}
	names := slices.SortedFunc(maps.Keys(of.Properties), func(a, b string) int {
		switch {
		case required[a] == required[b]:
			return strings.Compare(a, b)
		case required[a]:
			return -1
		}
		return 1
	})
	const frame = len(`{"$comment":"shortened, without 1000000 properties","type":"object","properties":{},"required":[]}`)
	var properties, needed []string
	size := frame
	for _, name := range names {
		key := encode(name)
		property := key + ":" + outlineType(of.Properties[name])
		n := len(property) + 1
		if required[name] {
			n += len(key) + 1
		}
		if len(name) > maxProperty || size+n > limit {
			continue
		}
		size += n
		properties = append(properties, property)
		if required[name] {
			needed = append(needed, key)
		}
	}
	if len(properties) == 0 {
		return ""
	}
	comment := "shortened"
	if left := len(names) - len(properties); left > 0 {
		comment += fmt.Sprintf(", without %d properties", left)
	}
	return fmt.Sprintf(`{"$comment":%q,"type":"object","properties":{%s},"required":[%s]}`, comment, strings.Join(properties, ","), strings.Join(needed, ","))
}

// outlineType reduces the schema of a property to its type.
func outlineType(raw json.RawMessage) string {
	var of struct {
		Type any `json:"type"`
	}
	if json.Unmarshal(raw, &of) != nil || of.Type == nil {
		return "{}"
	}
	s := encode(of)
	if len(s) > maxProperty {
		return "{}"
	}
	return s
}
