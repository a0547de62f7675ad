package agenthub

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
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

// cardOf returns the card by which a peer's agent is known in Cortex. A skill is known by its name, since the programs number their skills anew at each
// start, and the name is what they want to be told.
func cardOf(c *hubpb.AgentCard, prefix string) (*a2a.AgentCard, error) {
	card := &a2a.AgentCard{
		Name: prefix + c.Name, Description: shorten.To(c.Description, maxAbout), Version: shorten.To(c.Version, maxWord), Skills: []a2a.AgentSkill{},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
	}
	if p := c.Provider; p != nil {
		card.Provider = &a2a.AgentProvider{Org: shorten.To(p.Organization, maxWord), URL: shorten.To(p.Url, maxWord)}
	}
	abilities := map[string]agentcard.Ability{}
	skills := slices.SortedFunc(slices.Values(c.Skills), func(a, b *hubpb.AgentSkill) int { return strings.Compare(a.Name, b.Name) }) // they come in any order
	for _, s := range skills {
		name := cmp.Or(s.Name, s.Id)
		if name == "" {
			continue
		}
		if len(name) > maxWord {
			return nil, fmt.Errorf("card of %s: a skill's name has more than %d bytes", c.Name, maxWord)
		}
		id := slug(name)
		for n := 2; abilities[id].DispatchKey != ""; n++ {
			id = fmt.Sprintf("%s-%d", slug(name), n)
		}
		abilities[id] = agentcard.Ability{DispatchKey: name}
		card.Skills = append(card.Skills, a2a.AgentSkill{
			ID: id, Name: name, Description: shorten.To(s.Description, maxAbout), Tags: few(s.Tags), Examples: few(s.Examples),
			InputModes: few(s.InputModes), OutputModes: few(s.OutputModes),
		})
		if len(card.Skills) > transport.MaxSkills {
			return nil, fmt.Errorf("card of %s: it has more than %d skills", c.Name, transport.MaxSkills)
		}
	}
	card = agentcard.Attach(card, &agentcard.Spec{Abilities: abilities})
	return card, transport.ValidateCard(card)
}

// slug returns a text in lower-case letters and digits, with - between its words.
func slug(text string) string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return cmp.Or(strings.Join(words, "-"), "skill")
}

// few returns words within their bounds.
func few(words []string) []string { return shorten.Words(words, maxWords, maxWord) }

// taskType returns the name of the skill that a task is for, as the agent has it: the only one when the task names none.
func taskType(card *a2a.AgentCard, given string) (string, error) {
	abilities := agentcard.SpecOf(card).Abilities
	names := []string{}
	for _, ability := range abilities {
		names = append(names, ability.DispatchKey)
	}
	switch {
	case slices.Contains(names, given):
		return given, nil
	case abilities[given].DispatchKey != "":
		return abilities[given].DispatchKey, nil
	case given != "":
		return given, nil // the card has changed since, and the agent itself says what it thinks of it
	case len(names) == 1:
		return names[0], nil
	}
	return "", fmt.Errorf("the agent has %d skills, and wants to be told which", len(names))
}

// skillCalled returns the id of the skill of an agent of Cortex that a task type names; "" if it names none.
func skillCalled(card *a2a.AgentCard, kind string) string {
	spec := agentcard.SpecOf(card)
	for i := range card.Skills {
		s := &card.Skills[i]
		if id := agentcard.SkillID(s); kind != "" && (kind == id || kind == s.Name || kind == spec.Abilities[id].DispatchKey) {
			return id
		}
	}
	return ""
}

// shownCard returns the card of an agent of Cortex for peers.
func shownCard(c *a2a.AgentCard) *hubpb.AgentCard {
	card := &hubpb.AgentCard{
		ProtocolVersion: wireVersion, Name: kit.Valid(c.Name), Description: kit.Valid(c.Description), Version: kit.Valid(c.Version), PreferredTransport: "GRPC",
		Capabilities: &hubpb.AgentCapabilities{},
	}
	for _, s := range c.Skills {
		card.Skills = append(card.Skills, &hubpb.AgentSkill{
			Id: kit.Valid(s.ID), Name: kit.Valid(s.Name), Description: kit.Valid(s.Description), Tags: kit.ValidAll(s.Tags), Examples: kit.ValidAll(s.Examples),
			InputModes: kit.ValidAll(s.InputModes), OutputModes: kit.ValidAll(s.OutputModes),
		})
	}
	return card
}

// wireVersion is the protocol version that cards of AgentHub have.
const wireVersion = "0.2.9"

// hubCard returns the card of the hub itself.
func hubCard() *hubpb.AgentCard {
	skill := func(id, name, about string) *hubpb.AgentSkill {
		return &hubpb.AgentSkill{Id: id, Name: name, Description: about, Tags: []string{id}, InputModes: []string{"text/plain"}, OutputModes: []string{"text/plain"}}
	}
	return &hubpb.AgentCard{
		ProtocolVersion: wireVersion, Name: transport.Cortex, Description: "Answers, has agents work, and passes on what they tell each other", Version: "1.0.0",
		PreferredTransport: "GRPC", Capabilities: &hubpb.AgentCapabilities{Streaming: true}, Skills: []*hubpb.AgentSkill{
			skill("message-routing", "Message routing", "Passes messages on"), skill("task-coordination", "Task coordination", "Keeps tasks and what becomes of them"),
		},
	}
}
