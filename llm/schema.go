package llm

import (
	"encoding/json"
	"strings"
)

// The schemas use only what every endpoint with strict structured output accepts: all properties are required, no others are allowed, and null is one
// of a list of types. The keys are in the order in which they are to be written, kind and say first, so that the answer can be streamed. Agents are
// plain strings, not an enumeration: that would change with every agent that joins or leaves, while providers' caches need equal bytes, and endpoints
// limit its length. [Check] validates the agents.
const (
	schemaDelegations = `"say":{"type":["string","null"]},` +
		`"delegations":{"type":"array","items":{"type":"object","properties":{` +
		`"id":{"type":"string"},` +
		`"agent":{"type":"string"},` +
		`"skill":{"type":["string","null"]},` +
		`"task":{"type":"string"},` +
		`"input":{"type":["string","null"]},` +
		`"files":{"type":["array","null"],"items":{"type":"string"}},` +
		`"depends_on":{"type":"array","items":{"type":"string"}}},` +
		`"required":["id","agent","skill","task","input","files","depends_on"],"additionalProperties":false}},`
	schemaDelegate = schemaDelegations +
		`"reason":{"type":"string"}},` +
		`"required":["kind","say","delegations","reason"],"additionalProperties":false}`
	schemaSearch = schemaDelegations +
		`"search":{"type":["string","null"]},` +
		`"reason":{"type":"string"}},` +
		`"required":["kind","say","delegations","search","reason"],"additionalProperties":false}`
	schemaLast = `"say":{"type":"string"},` +
		`"reason":{"type":"string"}},` +
		`"required":["kind","say","reason"],"additionalProperties":false}`
)

// DecisionSchema returns the JSON Schema of a decision in turn t. There are three: the normal one, one without delegate for the last step, and one
// with search for shortlists. The bytes of each never change.
func DecisionSchema(t *Turn) json.RawMessage {
	var offered []string
	for _, k := range kinds {
		if k.offered(t) {
			offered = append(offered, string(k.Kind))
		}
	}
	rest := schemaDelegate
	switch {
	case t.Last:
		rest = schemaLast
	case t.Choice:
		rest = schemaSearch
	}
	return json.RawMessage(`{"type":"object","properties":{"kind":{"type":"string","enum":["` + strings.Join(offered, `","`) + `"]},` + rest)
}
