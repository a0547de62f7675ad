package prompt

import (
	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
)

// maxCounted bounds how many skills of a card Trim counts.
const maxCounted = 100

// Trim reduces the card of a to what a prompt can show, so that the rest need not be stored, and agents that look the same in a prompt are equal. The
// result renders as a does, except that at most 100 skills count as left out; and encoding it as JSON and back does not change it.
func Trim(a Agent) Agent {
	t := Agent{ID: a.ID, Card: &a2a.AgentCard{}, Seen: a.Seen, Of: a.Of, More: a.More}
	if a.Card == nil {
		return t
	}
	t.Card.Name, t.Card.Description = Clean(a.Card.Name, maxName), Clean(a.Card.Description, maxDescription)
	input := inputsOf(&a)
	shown := len(viewAgent(&a).Skills)
	for i := range a.Card.Skills[:min(len(a.Card.Skills), maxCounted)] {
		skill := a2a.AgentSkill{} // only counted
		if i <= shown {           // the first that is not shown affects the room, too
			skill = trimSkill(&a.Card.Skills[i])
			if schema := input(agentcard.SkillID(&a.Card.Skills[i])); schema != "" {
				if t.Inputs == nil {
					t.Inputs = map[string]string{}
				}
				t.Inputs[agentcard.SkillID(&skill)] = schema
			}
		}
		t.Card.Skills = append(t.Card.Skills, skill)
	}
	return t
}

func trimSkill(s *a2a.AgentSkill) a2a.AgentSkill {
	t := a2a.AgentSkill{ID: id(s.ID), Name: Clean(s.Name, maxName), Description: Clean(s.Description, maxSkillText)}
	if s.ID == "" {
		t.Name = id(s.Name) // which replaces the id
	}
	t.Tags, t.Examples = cleanSome(s.Tags, maxTags, maxTag), cleanSome(s.Examples, maxExamples, maxExample)
	return t
}

// cleanSome returns the first texts that are not empty after cleaning, at most most.
func cleanSome(all []string, most, limit int) []string {
	var out []string
	for _, s := range all {
		if len(out) == most {
			break
		}
		if s = Clean(s, limit); s != "" {
			out = append(out, s)
		}
	}
	return out
}
