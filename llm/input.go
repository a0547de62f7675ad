package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Limits of how a schema is described, in characters.
const (
	maxFieldName   = 64
	maxFieldType   = 100
	maxFields      = 400 // of all fields together; the number of omitted ones is stated
	maxInputReason = 300
)

// ErrNoSkill is why a delegation without a skill is refused by an agent whose skills differ in what they take.
var ErrNoSkill = errors.New("no skill is named")

// SkillOf returns the id of the skill of c that d is for: the one that d names, or the only one of c, or "".
func (d *Delegation) SkillOf(c *a2a.AgentCard) string {
	if d.Skill != "" || c == nil || len(c.Skills) != 1 {
		return d.Skill
	}
	return agentcard.SkillID(&c.Skills[0])
}

// checkInput returns what is wrong with the structured input of a delegation, according to the schema of the skill on a's card. It does not check a
// reply to a waiting task, which is free text, nor input for an invalid schema, which requires nothing.
func checkInput(t *Turn, a *prompt.Agent, d *Delegation) error {
	if a.Card == nil || slices.ContainsFunc(t.Waiting, func(w prompt.Task) bool { return string(w.ID) == d.ID }) {
		return nil
	}
	skill := d.SkillOf(a.Card)
	if skill == "" { // naming no skill would evade the schemas
		abilities := agentcard.SpecOf(a.Card).Abilities
		for id := range abilities {
			if len(abilities[id].InputSchema) > 0 {
				return fmt.Errorf("%w, and some of those that agent %s has take structured input; %s", ErrNoSkill, excerpt(d.Agent), skillsOf(a.Card))
			}
		}
	}
	raw := agentcard.AbilityOf(a.Card, skill).InputSchema
	schema := compiled(raw)
	switch {
	case schema == nil:
		return nil
	case !isGiven(d.Input) && asksForNothing(schema):
		return nil
	case !isGiven(d.Input):
		return quoted("skill %s needs input that fits its schema: %s", excerpt(skill), SchemaFields(raw))
	}
	if err := schema.Validate(d.Input); err != nil {
		return quoted("the input does not fit the schema of skill %s: %s", excerpt(skill), prompt.Clean(err.Error(), maxInputReason))
	}
	return nil
}

// InputFor converts a task in words to structured input for the schema of a skill: the task itself if it is a JSON object that is valid, or an object
// with the task as its only required property. It returns nil when schema requires no input, such as an empty or an invalid schema, and false when it
// cannot make an input.
func InputFor(schema json.RawMessage, task string) (json.RawMessage, bool) {
	s := compiled(schema)
	if s == nil {
		return nil, true
	}
	fits := func(input json.RawMessage, err error) bool {
		return err == nil && len(input) > 0 && input[0] == '{' && s.Validate(input) == nil
	}
	input, err := readInput(json.RawMessage(task))
	switch {
	case fits(input, err):
		return input, true
	case err == nil && len(input) > 0 && input[0] == '{': // not words, but invalid input
		return nil, false
	}
	var object struct{ Required []string }
	if err := json.Unmarshal(schema, &object); err == nil && len(object.Required) == 1 {
		if input, err := json.Marshal(map[string]string{object.Required[0]: task}); fits(input, err) {
			return input, true
		}
	}
	return nil, asksForNothing(s)
}

// WantsWords reports whether a skill of an agent wants to be told something: it takes words, or input that cannot be empty.
func WantsWords(c *a2a.AgentCard, skill string) bool {
	schema := agentcard.AbilityOf(c, skill).InputSchema
	if len(schema) == 0 {
		return true
	}
	_, empty := InputFor(schema, "{}")
	return !empty
}

// AskWhat decides to ask what an agent is to do that was only called.
func AskWhat(agent string) *Decision {
	return &Decision{
		Kind: KindClarify, Say: fmt.Sprintf("What is %[1]s to do? Say it behind the name, as in @%[1]s …", prompt.Clean(agent, 64)),
		Reason: agent + " was called with nothing to do",
	}
}

// compiled returns the compiled schema, or nil when it requires nothing.
func compiled(raw json.RawMessage) *agentcard.Schema {
	if len(raw) == 0 {
		return nil
	}
	s, err := agentcard.Compile(raw)
	if err != nil {
		return nil
	}
	return s
}

func isGiven(input json.RawMessage) bool { return len(input) > 0 && string(input) != "null" }

// asksForNothing reports whether s deliberately accepts a task without input: it accepts an empty object, or null. A schema without a type accepts
// null as it accepts everything but objects, which does not count.
func asksForNothing(s *agentcard.Schema) bool {
	fits := func(value string) bool { return s.Validate(json.RawMessage(value)) == nil }
	return fits("{}") || (fits("null") && !fits("false"))
}

// quoted returns an error whose text cannot begin a block in the prompt for the model: schemas are external.
func quoted(format string, args ...any) error {
	return errors.New(strings.ReplaceAll(fmt.Sprintf(format, args...), "<", `\u003c`))
}

// SchemaFields describes in one line what a schema requires: the properties of the object, the required ones first, or the schema itself when it has
// no properties. It returns "" for an object of which the schema says nothing.
func SchemaFields(schema json.RawMessage) string {
	var object struct {
		Properties map[string]json.RawMessage
		Required   []string
	}
	if err := json.Unmarshal(schema, &object); err != nil || len(object.Properties)+len(object.Required) == 0 {
		if isPlainObject(schema) {
			return ""
		}
		return excerpt(string(schema))
	}
	names := slices.Clone(object.Required)
	for _, name := range slices.Sorted(maps.Keys(object.Properties)) {
		if !slices.Contains(object.Required, name) {
			names = append(names, name)
		}
	}
	var b strings.Builder
	for i, name := range names {
		field := fieldName(name)
		about := typeOf(object.Properties[name])
		if i < len(object.Required) {
			about = append(about, "required")
		}
		if len(about) > 0 {
			field += " (" + strings.Join(about, ", ") + ")"
		}
		if i > 0 && b.Len()+len(field) > maxFields {
			fmt.Fprintf(&b, " and %d more", len(names)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(field)
	}
	return b.String()
}

// isPlainObject reports whether a schema says of a value at most that it is an object, beside what is no condition.
func isPlainObject(schema json.RawMessage) bool {
	var s map[string]any
	if json.Unmarshal(schema, &s) != nil || s["type"] != "object" {
		return false
	}
	for key, v := range s {
		switch key {
		case "type", "$schema", "$id", "$comment", "title", "description", "properties", "required":
		case "additionalProperties":
			if _, ok := v.(bool); !ok {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// fieldName returns a name, quoted if it contains unusual characters.
func fieldName(name string) string {
	strange := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.')
	}
	if name == "" || len(name) > maxFieldName || strings.ContainsFunc(name, strange) {
		return fmt.Sprintf("%q", prompt.Clean(name, maxFieldName))
	}
	return name
}

// typeOf returns the types of a property, as far as the property states them directly.
func typeOf(property json.RawMessage) []string {
	var p struct {
		Type  any
		Enum  []json.RawMessage
		Items struct{ Type any }
	}
	if json.Unmarshal(property, &p) != nil { // true, or a list of items
		return nil
	}
	switch kind, of := typeNames(p.Type), typeNames(p.Items.Type); {
	case len(p.Enum) > 0:
		b, _ := json.Marshal(p.Enum)
		return []string{"one of " + prompt.Clean(string(b), maxFieldType)}
	case kind == "array" && of != "":
		return []string{"array of " + of}
	case kind != "":
		return []string{kind}
	}
	return nil
}

// typeNames returns the types that a schema names: "string", "string or null".
func typeNames(v any) string {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var names []string
	for _, v := range list[:min(len(list), 8)] {
		if s, ok := v.(string); ok {
			names = append(names, fieldName(s))
		}
	}
	return strings.Join(names, " or ")
}
