package llm

import (
	"encoding/json"
	"strings"
)

// The schemas use only what every endpoint with strict structured output accepts: all properties are required, no others are allowed, and null is one
// of a list of types. The keys are in the order in which they are to be written, kind and say first, so that the answer can be streamed. Agents are
// plain strings, not an enumeration: that would change with every agent that joins or leaves, while providers' caches need equal bytes, and endpoints
// limit its length. [Check] validates the agents. The descriptions repeat in short what the instructions say, for models that heed a schema more.
const (
	schemaSay         = `"say":{"type":["string","null"],"description":"what the user reads, in the user's language"},`
	schemaDelegations = `"delegations":{"type":"array","description":"empty unless kind is delegate","items":{"type":"object","properties":{` +
		`"id":{"type":"string","description":"a short name, or that of the waiting task to continue"},` +
		`"agent":{"type":"string","description":"the id of a listed agent"},` +
		`"skill":{"type":["string","null"],"description":"the id of one of its skills"},` +
		`"task":{"type":"string","description":"all that the agent has to know: it sees nothing else"},` +
		`"input":{"type":["string","null"],"description":"a JSON text, for a skill with an input schema"},` +
		`"files":{"type":["array","null"],"items":{"type":"string"},"description":"keys of files; null for those of the message"},` +
		`"depends_on":{"type":"array","items":{"type":"string"},"description":"ids of delegations whose results it needs"}},` +
		`"required":["id","agent","skill","task","input","files","depends_on"],"additionalProperties":false}},`
	schemaSearch = `"search":{"type":["string","null"],"description":"what an agent should be able to do; only with kind search"},`
	schemaRead   = `"read":{"type":["object","null"],"description":"only with kind read","properties":{` +
		`"key":{"type":"string","description":"the key of a result, or a file"},` +
		`"from":{"type":["integer","null"],"description":"the line to begin with, -1 for the last one"},` +
		`"find":{"type":["string","null"],"description":"instead of from: text that the lines have"}},` +
		`"required":["key","from","find"],"additionalProperties":false},`
	schemaReason = `"reason":{"type":"string","description":"why, in one sentence"},`
	schemaLast   = `"say":{"type":"string","description":"what the user reads, in the user's language"},`
)

// DecisionSchema returns the JSON Schema of a decision in turn t. There are three: the normal one, one without delegate for the last step, and one
// with search for shortlists; each with the reason first, too; and all of them with read. The bytes of each never change.
func DecisionSchema(t *Turn) json.RawMessage {
	var offered []string
	for _, k := range kinds {
		if k.offered(t) {
			offered = append(offered, string(k.Kind))
		}
	}
	properties := `"kind":{"type":"string","enum":["` + strings.Join(offered, `","`) + `"]},`
	required := `"kind","say","delegations"`
	reads := t.Readable()
	switch {
	case t.Last && reads:
		properties += schemaSay
		required = `"kind","say"`
	case t.Last:
		properties += schemaLast
		required = `"kind","say"`
	case t.Choice:
		properties += schemaSay + schemaDelegations + schemaSearch
		required += `,"search"`
	default:
		properties += schemaSay + schemaDelegations
	}
	if reads {
		properties += schemaRead
		required += `,"read"`
	}
	if t.ReasonFirst {
		properties, required = schemaReason+properties, `"reason",`+required
	} else {
		properties, required = properties+schemaReason, required+`,"reason"`
	}
	return json.RawMessage(`{"type":"object","properties":{` + strings.TrimSuffix(properties, ",") + `},"required":[` + required + `],"additionalProperties":false}`)
}
