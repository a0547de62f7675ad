package agents

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// LoadCard reads an agent's card from a YAML or JSON file, as [ReadCard] does. The file may be a pipe, which LoadCard reads to its end
// unless ctx ends first.
func LoadCard(ctx context.Context, path string) (*a2a.AgentCard, []string, error) {
	return load(ctx, path, agentcard.Read)
}

// LoadSpec reads an AgentSpec document, and no other kind of card, from a YAML or JSON file.
func LoadSpec(ctx context.Context, path string) (*a2a.AgentCard, []string, error) {
	return load(ctx, path, agentcard.ReadSpec)
}

// ReadCard reads an agent's card in YAML or JSON, in any form that [agentcard.Read] knows: an A2A card of version
// 1.0 or before, an AgentSpec and others. Only the name is required; a card without skills gets one made of
// its name and description. The warnings, one line each, say what was ignored. An error is one line that begins with file, the
// name to show, and says what to do.
func ReadCard(file string, r io.Reader) (*a2a.AgentCard, []string, error) {
	return readCard(file, r, agentcard.Read)
}

type cardReader = func(file string, b []byte) (*a2a.AgentCard, []string, error)

func load(ctx context.Context, path string, read cardReader) (*a2a.AgentCard, []string, error) {
	f, err := document.Open(ctx, path, agentcard.MaxDocument+1)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	return readCard(filepath.Base(path), f, read)
}

func readCard(file string, r io.Reader, read cardReader) (*a2a.AgentCard, []string, error) {
	b, err := io.ReadAll(io.LimitReader(r, agentcard.MaxDocument+1))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(b) > agentcard.MaxDocument {
		return nil, nil, fmt.Errorf("%s: the file is over %d KiB, too large for a card, which has at most %d KiB", file, agentcard.MaxDocument>>10, transport.MaxCard>>10)
	}
	c, warnings, err := read(file, b)
	if err != nil {
		return nil, nil, err
	}
	c = complete(c)
	if err := transport.ValidateCard(c); err != nil {
		return nil, nil, fmt.Errorf("%s: %s", file, shorten.Line(err.Error(), 300))
	}
	return c, warnings, nil
}

// complete returns a copy of c with everything a card needs: a description, a version, at least one skill, each with id, name
// and description, and no nil for a required list. What the card's extension says about a skill follows the skill's new id.
func complete(c *a2a.AgentCard) *a2a.AgentCard {
	n := *c
	id, err := transport.AgentID(n.Name)
	if err != nil {
		return &n // invalid; ValidateCard says why
	}
	short := strings.TrimPrefix(id, "agent_")
	if len(n.Skills) > 0 {
		n.Description = cmp.Or(n.Description, n.Skills[0].Description)
	}
	n.Description, n.Version = cmp.Or(n.Description, "The agent "+n.Name), cmp.Or(n.Version, "0.1.0")
	n.Skills = slices.Clone(n.Skills)
	spec, renamed := agentcard.SpecOf(c), false
	if len(n.Skills) == 0 {
		n.Skills = []a2a.AgentSkill{{ID: short, Name: short, Description: shorten.To(n.Description, 1024)}}
	}
	for i := range n.Skills {
		s := &n.Skills[i]
		if s.ID == "" {
			s.ID = strings.ToLower(strings.Join(strings.Fields(s.Name), "_"))
			if a, ok := spec.Abilities[s.Name]; ok && s.ID != s.Name {
				delete(spec.Abilities, s.Name)
				spec.Abilities[s.ID], renamed = a, true
			}
		}
		s.Name = cmp.Or(s.Name, s.ID)
		s.Description = cmp.Or(s.Description, s.Name)
		if s.Tags == nil {
			s.Tags = []string{}
		}
	}
	if n.SupportedInterfaces == nil {
		n.SupportedInterfaces = []*a2a.AgentInterface{}
	}
	if len(n.DefaultInputModes) == 0 {
		n.DefaultInputModes = []string{"text/plain"}
	}
	if len(n.DefaultOutputModes) == 0 {
		n.DefaultOutputModes = []string{"text/plain"}
	}
	if renamed {
		return agentcard.Attach(&n, spec)
	}
	return &n
}
