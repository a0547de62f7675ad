package mcp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of list_agents.
const (
	defaultAgents = 20
	mostAgents    = 100
	mostSkills    = 20  // of each agent, unless it is the only one
	maxAbout      = 300 // characters of a description
)

type listInput struct {
	Query  string `json:"query,omitempty" jsonschema:"words that an agent or a skill says of itself, or the id of an agent"`
	Tag    string `json:"tag,omitempty" jsonschema:"a tag of the agent's skills"`
	Limit  int    `json:"limit,omitempty" jsonschema:"20 when left out, at most 100"`
	Cursor string `json:"cursor,omitempty" jsonschema:"next_cursor of the call before"`
}

type listOutput struct {
	Agents     []agent `json:"agents"`
	NextCursor string  `json:"next_cursor,omitempty" jsonschema:"there are more agents"`
}

type agent struct {
	ID          string  `json:"id"`
	Description string  `json:"description,omitempty"`
	Version     string  `json:"version,omitempty"`
	Skills      []skill `json:"skills"`
	MoreSkills  int     `json:"more_skills,omitempty" jsonschema:"skills that are left out; name the agent in query to see them"`
}

type skill struct {
	ID          string `json:"id"`
	Description string `json:"description,omitempty"`
	InputSchema any    `json:"input_schema,omitempty"`
}

func (s *Server) listAgents(ctx context.Context, _ *sdk.CallToolRequest, in listInput) (*sdk.CallToolResult, listOutput, error) {
	cards, err := s.cfg.Agents(ctx)
	if err != nil {
		return nil, listOutput{}, err
	}
	limit := in.Limit
	limit = min(cmp.Or(max(limit, 0), defaultAgents), mostAgents)
	var found []*a2a.AgentCard
	for _, c := range cards {
		if idOf(c) == in.Query {
			found = []*a2a.AgentCard{c}
			break
		}
		if fits(c, in.Query, in.Tag) {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *a2a.AgentCard) int { return strings.Compare(idOf(a), idOf(b)) })
	out := listOutput{Agents: []agent{}}
	var text strings.Builder
	for _, c := range found {
		id := idOf(c)
		if in.Cursor != "" && id <= in.Cursor {
			continue
		}
		if len(out.Agents) == limit {
			out.NextCursor = out.Agents[limit-1].ID
			fmt.Fprintf(&text, "There are more: call list_agents with cursor %s, or with a query.\n", out.NextCursor)
			break
		}
		of := describe(c, len(found) == 1)
		out.Agents = append(out.Agents, of)
		fmt.Fprintf(&text, "%s: %s\n", of.ID, of.Description)
		for _, skill := range of.Skills {
			fmt.Fprintf(&text, "  skill %s: %s\n", skill.ID, skill.Description)
			if skill.InputSchema != nil {
				fmt.Fprintf(&text, "    input_schema: %s\n", skill.InputSchema)
			}
		}
	}
	if len(out.Agents) == 0 {
		text.WriteString("No agent fits.")
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text.String()}}}, out, nil
}

// idOf returns the id of an agent that can be given work.
func idOf(c *a2a.AgentCard) string {
	id, _ := transport.AgentID(c.Name) // it has one
	return id
}

// fits reports whether a card has all words of a query, and a tag.
func fits(c *a2a.AgentCard, query, tag string) bool {
	said := strings.Builder{}
	said.WriteString(c.Name + " " + c.Description)
	tagged := tag == ""
	for _, s := range c.Skills {
		said.WriteString(" " + s.ID + " " + s.Name + " " + s.Description)
		tagged = tagged || slices.ContainsFunc(s.Tags, func(t string) bool { return strings.EqualFold(t, tag) })
	}
	all := strings.ToLower(said.String())
	for _, word := range strings.Fields(strings.ToLower(query)) {
		if !strings.Contains(all, word) {
			return false
		}
	}
	return tagged
}

// describe describes an agent; with all its skills and their schemas if whole.
func describe(c *a2a.AgentCard, whole bool) agent {
	of := agent{ID: idOf(c), Description: prompt.Clean(c.Description, maxAbout), Version: prompt.Clean(c.Version, 64), Skills: []skill{}}
	spec := agentcard.SpecOf(c)
	for i := range c.Skills {
		if !whole && i == mostSkills {
			of.MoreSkills = len(c.Skills) - i
			break
		}
		s := &c.Skills[i]
		id := agentcard.SkillID(s)
		is := skill{ID: id, Description: prompt.Clean(s.Description, maxAbout)}
		if schema := spec.Abilities[id].InputSchema; whole && schema != nil {
			is.InputSchema = schema
		}
		of.Skills = append(of.Skills, is)
	}
	return of
}
