package agentcard

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/document"
)

// MaxDocument bounds a document, in bytes; comments and spaces make it larger than a card.
const MaxDocument = 256 << 10

// Bounds of errors and warnings.
const (
	maxReadError = 300 // bytes of an error or a warning
	maxWarnings  = 20
)

// Read reads the description of an agent in any of these forms, recognised by their fields, in YAML or JSON:
//
//   - an A2A card of version 1.0, or of one before it, with names as in JSON (inputModes) or as in protobuf (input_modes); it may
//     have a field "spec" with the fields of an AgentSpec that are not on a card, and in its skills input_schema,
//     output_schema, confidence_hint and dispatch_key
//   - an AgentSpec document (agent_type, capabilities with schemas)
//   - the agent_card of an RTFS discovery registry (agent_id, capabilities with capability_id)
//   - an entry of a list of well-known agents (agentName)
//
// It returns a card of version 1.0, whose extension has what such a card has no field for, and warnings, one line each, about what was left out or
// cannot be resolved. An unknown field is an error. Errors are one line, begin with file, a name for the document, and say what to do. The card has a
// name, and each of its skills an id or a name, but other required fields are not filled in.
func Read(file string, b []byte) (*a2a.AgentCard, []string, error) {
	return read(file, b, false)
}

// ReadSpec is [Read] for AgentSpec documents only.
func ReadSpec(file string, b []byte) (*a2a.AgentCard, []string, error) {
	return read(file, b, true)
}

func read(file string, b []byte, onlySpec bool) (*a2a.AgentCard, []string, error) {
	r := &reader{}
	card, line, err := r.read(b, onlySpec)
	if err != nil {
		text := oneLine(err.Error(), maxReadError-len(" (line 123456)"))
		if line > 0 {
			text += fmt.Sprintf(" (line %d)", line)
		}
		return nil, nil, fmt.Errorf("%s: %s", file, text)
	}
	if n := len(r.warnings) - maxWarnings; n > 0 {
		r.warnings = append(r.warnings[:maxWarnings], fmt.Sprintf("and %d more warnings", n))
	}
	for i, w := range r.warnings {
		r.warnings[i] = file + ": " + oneLine(w, maxReadError)
	}
	return card, r.warnings, nil
}

// reader collects the warnings of one document.
type reader struct{ warnings []string }

func (r *reader) warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

// The forms of a document.
const (
	formCard      = "an A2A card"
	formSpec      = "an AgentSpec"
	formRegistry  = "an agent_card of a registry"
	formWellKnown = "an entry of a list of well-known agents"
)

// read also returns the line of the error, unless the error's text has it.
func (r *reader) read(b []byte, onlySpec bool) (*a2a.AgentCard, int, error) {
	if len(b) > MaxDocument {
		return nil, 0, fmt.Errorf("is %d bytes long, at most %d are allowed", len(b), MaxDocument)
	}
	d, err := document.Parse(b)
	if err != nil {
		return nil, 0, fmt.Errorf("is not the YAML or JSON of a card: %w", err)
	}
	card, err := r.readFields(d.JSON, onlySpec)
	if err != nil {
		return nil, d.Line(err.Error()), err
	}
	return card, 0, nil
}

func (r *reader) readFields(plain []byte, onlySpec bool) (*a2a.AgentCard, error) {
	var v any
	if err := json.Unmarshal(plain, &v); err != nil {
		return nil, fmt.Errorf("is not the YAML or JSON of a card: %s", plainJSONError(err))
	}
	m, ok := v.(map[string]any)
	if !ok && v != nil {
		return nil, fmt.Errorf("is not the YAML or JSON of a card: it is %s, not fields such as \"name: ...\"", kindWord(v))
	}
	if !shallow(m, maxDepth) {
		return nil, fmt.Errorf("is nested too deep: at most %d levels are allowed", maxDepth)
	}
	form := formOf(m)
	if onlySpec && form != formSpec {
		return nil, fmt.Errorf("is %s, not an AgentSpec with agent_type and capabilities: read it with --card", form)
	}
	switch form {
	case formSpec:
		return r.readAgentSpec(m)
	case formRegistry:
		return r.readRegistryCard(m)
	case formWellKnown:
		return r.readWellKnown(m)
	}
	return r.readCard(m)
}

// formOf recognises a document by the fields that only one form has.
func formOf(m map[string]any) string {
	has := func(keys ...string) bool {
		return slices.ContainsFunc(keys, func(k string) bool { _, ok := m[k]; return ok })
	}
	list, isList := m["capabilities"].([]any)
	byID := false
	for _, e := range list {
		c, _ := e.(map[string]any)
		byID = byID || c["capability_id"] != nil
	}
	switch {
	case has("agent_type"):
		return formSpec
	case has("agentName"):
		return formWellKnown
	case has("agent_id", "discovery_tags", "agent_profile_uri") || byID:
		return formRegistry
	case isList && !has("skills", "name"), has("nats_subject", "consumer_group"):
		return formSpec
	}
	return formCard
}

var errNoName = errors.New(`name is missing; add a line such as "name: agent_weather"`)

// plainJSONError removes the library's prefix from an error.
func plainJSONError(err error) string {
	return strings.ReplaceAll(oneLine(err.Error(), maxReadError), "json: ", "")
}

// defaultSkillID derives the id of a skill from its name.
func defaultSkillID(name string) string {
	return strings.ToLower(strings.Join(strings.Fields(name), "_"))
}
