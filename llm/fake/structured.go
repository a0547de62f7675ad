package fake

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// maxSkills is the number of skills named in an answer.
const maxSkills = 8

// asking are names of properties that take what somebody asks for, in any words. Other texts, such as a path, are values.
var asking = set(`q query question search prompt request instruction instructions task`)

// handOver makes the structured input of a skill for a piece, if the skill takes any. A sentence becomes no value of a property: only what was
// named as one does, in a message that names the skill, behind a colon or in quotes. hint says how the piece can be said otherwise; it is
// empty when the piece can be handed on.
func (m *matcher) handOver(agent *prompt.Agent, p *piece, skill string) (input json.RawMessage, hint string) {
	abilities := agentcard.SpecOf(agent.Card).Abilities
	if skill == "" {
		for id := range abilities {
			if len(abilities[id].InputSchema) > 0 {
				return nil, fmt.Sprintf("Name a skill of %s, as in @%s/SKILL {…}; it has %s.", agent.ID, agent.ID, skillsOf(agent))
			}
		}
		return nil, ""
	}
	ability := abilities[skill]
	schema := ability.InputSchema
	if len(schema) == 0 {
		return nil, ""
	}
	hint = fmt.Sprintf("%s needs more than words for this. Without a model I can only hand on JSON that fits: @%s/%s %s", agent.ID, agent.ID, skill, sketch(schema))
	isObject := strings.HasPrefix(p.task, "{")
	value := p.task
	switch {
	case p.called && (isObject || p.named || onlySkill(agent) != ""): // it was said so
	case isObject:
		return nil, hint
	case asking[onlyRequired(schema)] && !ability.Once:
	case onlyRequired(schema) != "":
		if value = p.value(); value == "" || !m.means(agent, skill, p.about) {
			return nil, hint
		}
	case ability.Once && !m.means(agent, skill, p.about):
		return nil, hint
	}
	input, ok := llm.InputFor(schema, value)
	if !ok {
		return nil, hint
	}
	return input, ""
}

// value returns what a piece names as a value: what stands behind its colon, or the only quotation, at its end.
func (p *piece) value() string {
	content := strings.TrimSpace(p.content)
	if content == "" {
		all := quotations(p.task)
		if len(all) != 1 || strings.Trim(p.task[all[0][1]:], "?!. ") != "" {
			return ""
		}
		content = p.task[all[0][0]:all[0][1]]
	}
	if quotedAt(content) == len(content) {
		return strings.Trim(content, "\"“”'‘’")
	}
	return content
}

// means reports whether a text plainly asks for what a skill does, and for nothing more: it begins with a word of the skill's name, and says nothing of
// a place or an aim. Of a text that begins with a word that says nothing, all others have to be there.
func (m *matcher) means(agent *prompt.Agent, skill, text string) bool {
	text = skipWords(unquoted(text), polite)
	if prepositions.some(strings.Fields(strings.ToLower(text))) {
		return false
	}
	own := m.ownTerms(agent, skill)
	if verb := m.first(text); verb != "" {
		return own[verb]
	}
	n, known := 0, true
	m.scan.scan(text, func(term []byte, _ bool) { n, known = n+1, known && own[string(term)] })
	return known && n > 0
}

// ownTerms are the terms of a skill's id and name, and the one that its description begins with.
func (m *matcher) ownTerms(agent *prompt.Agent, skill string) map[string]bool {
	own := map[string]bool{}
	for i := range agent.Card.Skills {
		s := &agent.Card.Skills[i]
		if skillID(s) != skill {
			continue
		}
		for _, text := range []string{s.ID, s.Name} {
			m.scan.scan(text, func(term []byte, _ bool) { own[string(term)] = true })
		}
		if verb := m.first(s.Description); verb != "" {
			own[verb] = true
		}
	}
	return own
}

// nearestSkill returns the skill of an agent whose name has most in common with a text, if the one that was found takes structured input: tools are named
// after what they do. When several have as much, it is the one that was found.
func (m *matcher) nearestSkill(agent *prompt.Agent, found, text string) string {
	abilities := agentcard.SpecOf(agent.Card).Abilities
	if len(abilities[found].InputSchema) == 0 {
		return found
	}
	text = skipWords(unquoted(head(text)), polite)
	common := func(skill string) (n int) {
		own, verb := m.ownTerms(agent, skill), m.first(text)
		m.scan.scan(text, func(term []byte, _ bool) {
			if own[string(term)] {
				n++
			}
		})
		if own[verb] {
			n += 2
		}
		return n
	}
	most := common(found)
	for i := range agent.Card.Skills {
		id := skillID(&agent.Card.Skills[i])
		if n := common(id); n > most && len(abilities[id].InputSchema) > 0 {
			found, most = id, n
		}
	}
	return found
}

// needsMore reports whether a skill takes structured input that words alone cannot be.
func needsMore(agent *prompt.Agent, skill string) bool {
	ability := agentcard.SpecOf(agent.Card).Abilities[skill]
	return needsInput(ability.InputSchema) && (ability.Once || !asking[onlyRequired(ability.InputSchema)])
}

// needsInput reports whether a schema asks for something.
func needsInput(schema json.RawMessage) bool {
	_, empty := llm.InputFor(schema, "{}")
	return len(schema) > 0 && !empty
}

// onlyRequired returns the name of the only property that a schema requires, if it is a text; else "".
func onlyRequired(schema json.RawMessage) string {
	var s struct {
		Required   []string
		Properties map[string]struct{ Type json.RawMessage }
	}
	if json.Unmarshal(schema, &s) != nil || len(s.Required) != 1 {
		return ""
	}
	if t := string(s.Properties[s.Required[0]].Type); t != "" && t != `"string"` {
		return ""
	}
	return s.Required[0]
}

// sketch shows what an input for a schema looks like.
func sketch(schema json.RawMessage) string {
	var s struct {
		Required   []string
		Properties map[string]struct{ Type any }
	}
	if json.Unmarshal(schema, &s) != nil || len(s.Required) == 0 || len(s.Required) > maxSkills {
		return "{…}"
	}
	fields := make([]string, len(s.Required))
	for i, name := range s.Required {
		value := "…"
		switch s.Properties[name].Type {
		case "string":
			value = `"…"`
		case "array":
			value = "[…]"
		case "object":
			value = "{…}"
		}
		fields[i] = fmt.Sprintf("%q:%s", prompt.Clean(name, 64), value)
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// skillsOf names the skills of an agent.
func skillsOf(agent *prompt.Agent) string {
	var names []string
	for i := range agent.Card.Skills {
		names = append(names, prompt.Clean(skillID(&agent.Card.Skills[i]), 64))
	}
	if more := len(names) - maxSkills; more > 0 {
		names = append(names[:maxSkills], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// hasSkill reports whether a card has a skill of this id. A card without skills leaves it to the agent.
func hasSkill(a *prompt.Agent, skill string) bool {
	return a.Card == nil || len(a.Card.Skills) == 0 || slices.ContainsFunc(a.Card.Skills, func(s a2a.AgentSkill) bool { return skillID(&s) == skill })
}

// meantFor reports whether an object can be meant as the input for a schema: it fits, the schema asks for something, and knows all its properties.
func meantFor(schema json.RawMessage, object string) bool {
	var s struct{ Properties, given map[string]json.RawMessage }
	if _, fits := llm.InputFor(schema, object); !fits || !needsInput(schema) || json.Unmarshal(schema, &s) != nil || json.Unmarshal([]byte(object), &s.given) != nil {
		return false
	}
	for name := range s.given {
		if _, known := s.Properties[name]; !known {
			return false
		}
	}
	return true
}
