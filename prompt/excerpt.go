package prompt

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
)

// Excerpt returns what a shortlist shows of a: the beginning of its description and the skills with these ids, the best first, at most 3, or its
// first skills when there are no ids. The excerpt has about limit bytes at most in a prompt. It has [Agent.Of] set, and encoding it as JSON and back
// does not change it.
func Excerpt(a Agent, skills []string, limit int) Agent {
	of := a.Of
	if of == "" {
		of = Digest(a.Card)
	}
	var e Agent
	for _, room := range rooms {
		e = room.excerpt(&a, skills)
		if v := viewAgent(&e); v.size() <= limit {
			break
		}
	}
	e.Of = of
	return e
}

// room is the space of an excerpt: the lengths of its texts, in characters, and how many it may have.
type room struct {
	description, skills, text, examples, example int
	input                                        int // bytes of a schema
}

// rooms are tried in this order until an excerpt fits.
var rooms = []room{{240, 3, 160, 2, 100, 300}, {240, 3, 100, 2, 60, 160}, {160, 3, 60, 1, 60, 0}, {100, 2, 40, 1, 40, 0}, {60, 1, 0, 0, 0, 0}, {}}

func (r room) excerpt(a *Agent, ids []string) Agent {
	e := Agent{ID: a.ID, Card: &a2a.AgentCard{}, Seen: a.Seen, More: a.More}
	if a.Card == nil {
		return e
	}
	e.Card.Name = Clean(a.Card.Name, maxName)
	if r.description > 0 {
		e.Card.Description = Clean(a.Card.Description, r.description)
	}
	input := inputsOf(a)
	for _, s := range pick(a.Card.Skills, ids, r.skills) {
		key := agentcard.SkillID(s)
		short := a2a.AgentSkill{ID: id(s.ID), Name: Clean(s.Name, maxName), Examples: cleanSome(s.Examples, r.examples, r.example)}
		if s.ID == "" {
			short.Name = id(s.Name)
		}
		if r.text > 0 {
			short.Description = Clean(s.Description, r.text)
		}
		e.Card.Skills = append(e.Card.Skills, short)
		if schema := viewSchema(json.RawMessage(input(key)), r.input); schema != "" {
			if e.Inputs == nil {
				e.Inputs = map[string]string{}
			}
			e.Inputs[agentcard.SkillID(&short)] = schema
		}
	}
	e.More += len(a.Card.Skills) - len(e.Card.Skills)
	return e
}

// pick returns the skills with these ids, or the first ones when there are no ids; at most most.
func pick(all []a2a.AgentSkill, ids []string, most int) []*a2a.AgentSkill {
	var picked []*a2a.AgentSkill
	for _, key := range ids {
		i := slices.IndexFunc(all, func(s a2a.AgentSkill) bool { return agentcard.SkillID(&s) == key })
		if i >= 0 && len(picked) < most && !slices.Contains(picked, &all[i]) {
			picked = append(picked, &all[i])
		}
	}
	for i := 0; len(ids) == 0 && i < min(len(all), most); i++ {
		picked = append(picked, &all[i])
	}
	return picked
}

// Digest returns a digest of what prompts can show of a card, for [Agent.Of].
func Digest(c *a2a.AgentCard) string {
	h := sha256.New()
	var n [8]byte
	write := func(texts ...string) {
		binary.LittleEndian.PutUint64(n[:], uint64(len(texts)))
		h.Write(n[:])
		for _, s := range texts {
			binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
			h.Write(n[:])
			h.Write([]byte(s))
		}
	}
	if c != nil {
		spec := agentcard.SpecOf(c)
		write(c.Name, c.Description)
		for i := range c.Skills {
			s := &c.Skills[i]
			write(s.ID, s.Name, s.Description, string(spec.Abilities[agentcard.SkillID(s)].InputSchema))
			write(s.Tags...)
			write(s.Examples...)
		}
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:9])
}

// Size returns the approximate size of a in a prompt, in bytes.
func Size(a *Agent) int {
	v := viewAgent(a)
	return v.size()
}
