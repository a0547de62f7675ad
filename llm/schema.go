package llm

import (
	"encoding/json"
	"strings"
)

// The schemas keep to what every endpoint with strict structured output takes: all properties required, none but these,
// null by a list of types. The keys are in the order in which they are to be written, kind and say first, so that the
// answer can be shown while it comes. Agents are plain strings and not an enumeration: it would have to follow every
// join and leave, the bytes must stay equal for providers' caches, and endpoints limit how long one may be. [Check]
// knows the agents.
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

// DecisionSchema returns the JSON Schema of what a model writes in turn t. There are three, one of them without delegate
// for the last step, one with search where agents are a choice out of more; the bytes of each never change.
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
