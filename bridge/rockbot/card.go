package rockbot

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of the texts of a card, in bytes.
const (
	maxAbout = 4 << 10
	maxWord  = agentcard.MaxWord
	maxWords = 32
)

// defaultSkill is the skill of an agent whose card has none: what its description says.
const defaultSkill = "default"

// cardOf returns the card by which an agent of RockBot is known in Cortex, of one that was cut.
func cardOf(c *card, prefix string) (*a2a.AgentCard, error) {
	is := &a2a.AgentCard{
		Name: prefix + c.AgentName, Description: deref(c.Description), Version: deref(c.Version),
		Skills: []a2a.AgentSkill{}, DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
	}
	for _, s := range c.Skills {
		if len(s.ID) > maxWord {
			return nil, fmt.Errorf("a skill's id has more than %d bytes", maxWord)
		}
		is.Skills = append(is.Skills, a2a.AgentSkill{
			ID: s.ID, Name: shorten.To(cmp.Or(s.Name, s.ID), maxWord), Description: deref(s.Description), Tags: s.Tags, Examples: s.Examples,
		})
		if len(is.Skills) > transport.MaxSkills {
			return nil, fmt.Errorf("it has more than %d skills", transport.MaxSkills)
		}
	}
	if len(is.Skills) == 0 {
		is.Skills = append(is.Skills, a2a.AgentSkill{
			ID: defaultSkill, Name: shorten.To(c.AgentName, maxWord), Description: cmp.Or(is.Description, c.AgentName), Tags: []string{},
		})
	}
	return is, transport.ValidateCard(is)
}

// few returns words within their bounds.
func few(words []string) []string { return shorten.Words(words, maxWords, maxWord) }

// skillOf returns the skill that a task is for, as the agent has it: the only one when the task names none.
func skillOf(c *a2a.AgentCard, given string) (string, error) {
	switch {
	case given != "":
		return given, nil // if the card has changed since, the agent itself says what it thinks of it
	case len(c.Skills) == 1:
		return c.Skills[0].ID, nil
	}
	return "", fmt.Errorf("the agent has %d skills, and wants to be told which", len(c.Skills))
}

// shownCard returns the card of one of Cortex's agents for RockBot.
func shownCard(c *a2a.AgentCard, name string) *card {
	is := &card{AgentName: name, Description: new(kit.Valid(c.Description)), Version: new(kit.Valid(cmp.Or(c.Version, "1.0"))), Skills: []*skill{}}
	for i := range c.Skills {
		s := &c.Skills[i]
		is.Skills = append(is.Skills, &skill{
			ID: kit.Valid(agentcard.SkillID(s)), Name: kit.Valid(cmp.Or(s.Name, s.ID)), Description: new(kit.Valid(s.Description)), Tags: kit.ValidAll(s.Tags), Examples: kit.ValidAll(s.Examples),
		})
	}
	return is
}

// askSkill is the skill by which Cortex itself is asked.
const askSkill = "ask"

// ownCard returns the card of Cortex itself.
func ownCard(name string) *card {
	return &card{
		AgentName: name, Description: new("Answers questions, and has the agents work that it knows"), Version: new("1.0"), Skills: []*skill{{
			ID: askSkill, Name: "Ask", Description: new("Says in words what is wanted; Cortex decides who does it"), Tags: []string{}, Examples: []string{},
		}},
	}
}

// skillCalled returns the id of the skill of an agent of Cortex that a caller names.
func skillCalled(c *a2a.AgentCard, name string) (string, error) {
	spec := agentcard.SpecOf(c)
	var ids []string
	for i := range c.Skills {
		s := &c.Skills[i]
		id := agentcard.SkillID(s)
		if name == id || name == s.Name || name == spec.Abilities[id].DispatchKey {
			return id, nil
		}
		ids = append(ids, id)
	}
	if name == "" || len(ids) == 0 {
		return "", nil // the agent's choice
	}
	return "", fmt.Errorf("skill %.100q is not supported; there is %s", name, shorten.Line(strings.Join(ids, ", "), 500))
}
