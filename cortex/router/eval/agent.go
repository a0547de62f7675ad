package eval

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// agent is a card with its id in the index.
type agent struct {
	id   string
	card a2a.AgentCard
}

// directory has the agents of a measurement, in the order of the files.
type directory struct {
	agents []*agent
	ids    map[string]place
	skills map[string][]string // ids of the agents that have a skill, by the skill's id
}

// readAgents reads the agents of all files.
func readAgents(ctx context.Context, files []string) (*directory, error) {
	d := &directory{ids: map[string]place{}, skills: map[string][]string{}}
	for _, file := range files {
		err := readLines(ctx, file, func(at place, a *struct {
			ID string `json:"id"`
			a2a.AgentCard
		},
		) error {
			if a.ID == "" {
				return at.errorf(`an agent has no "id"`)
			}
			if first, ok := d.ids[a.ID]; ok {
				return at.errorf("agent %s was in %s:%d already", short(a.ID), first.file, first.line)
			}
			d.add(&agent{a.ID, a.AgentCard}, at)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *directory) add(a *agent, at place) {
	d.agents = append(d.agents, a)
	d.ids[a.id] = at
	listed := map[string]bool{}
	for _, s := range a.card.Skills {
		if s.ID != "" && !listed[s.ID] {
			listed[s.ID] = true
			d.skills[s.ID] = append(d.skills[s.ID], a.id)
		}
	}
}

// resolve returns the agents that an id in a query stands for, and the skill if the id is that of a skill.
func (d *directory) resolve(at place, id string) (agents []string, skill string, err error) {
	if _, ok := d.ids[id]; ok {
		return []string{id}, "", nil
	}
	if agents := d.skills[id]; len(agents) > 0 {
		return agents, id, nil
	}
	return nil, "", at.errorf("no agent and no skill is called %s: name the file it is in with --agents", short(id))
}

// grow adds agents, beyond those that are needed, until there are n, and returns how many of them repeat others. First it makes an agent of each
// distinct skill of agents with several skills; if that is not enough, it repeats agents with changed names.
func (d *directory) grow(n int, needed map[string]bool) (repeated int, err error) {
	if n <= len(d.agents) {
		return 0, nil
	}
	var spare []*agent
	said := map[string]bool{}
	for _, a := range d.agents {
		said[says(&a.card)] = true
		if !needed[a.id] {
			spare = append(spare, a)
		}
	}
	if len(spare) == 0 {
		return 0, errors.New("--grow: all agents are needed by queries: add some that are not with --agents")
	}
	for _, a := range spare {
		for i := 0; i < len(a.card.Skills) && len(a.card.Skills) > 1 && len(d.agents) < n; i++ {
			s := a.card.Skills[i]
			c := &agent{fmt.Sprintf("%s--%s", a.id, s.ID), a2a.AgentCard{Name: s.Name, Description: s.Description, Skills: []a2a.AgentSkill{s}}}
			if at, taken := d.ids[c.id]; !taken && !said[says(&c.card)] {
				said[says(&c.card)] = true
				d.add(c, at)
			}
		}
	}
	repeated = max(0, n-len(d.agents))
	for copies := 2; ; copies++ {
		for _, a := range spare {
			if len(d.agents) >= n {
				return repeated, nil
			}
			c := &agent{fmt.Sprintf("%s-%d", a.id, copies), a.card}
			if at, taken := d.ids[c.id]; !taken {
				c.card.Name = fmt.Sprintf("%s %d", a.card.Name, copies)
				d.add(c, at)
			}
		}
	}
}

// says returns the text by which cards are distinguished.
func says(c *a2a.AgentCard) string { return strings.ToLower(c.Name + "\x00" + c.Description) }
