package a2a

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxSent bounds the files of a message, in bytes together.
const maxSent = 16 << 20

// passedOn are the metadata of a task that its peer is told: what keeps two orchestrators from asking each other in circles.
var passedOn = []string{transport.MetaHops, transport.MetaAncestors}

// message returns what a task asks, for the peer.
func (a *Agent) message(ctx context.Context, t *agents.Task, id string) (*a2a.Message, error) {
	m := &a2a.Message{ID: id, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{}}
	for _, k := range passedOn {
		if v := t.Message.Metadata[k]; v != nil {
			m.SetMeta(k, v)
		}
	}
	if t.Skill != "" {
		m.SetMeta(transport.MetaForSkill, t.Skill)
	}
	json, room, files := a.takesJSON(t.Skill), int64(maxSent), t.Files()
	for _, p := range t.Message.Parts {
		if p == nil {
			continue
		}
		switch c := p.Content.(type) {
		case a2a.Text:
			m.Parts = append(m.Parts, &a2a.Part{Content: c, Filename: p.Filename, MediaType: p.MediaType})
		case a2a.Data:
			part := a2a.NewDataPart(c.Value)
			if !json {
				b, err := transport.EncodeValue(c.Value)
				if err != nil {
					return nil, err
				}
				part = a2a.NewTextPart(string(b))
			}
			m.Parts = append(m.Parts, part)
		default:
			if _, _, _, ok := transport.FileOf(p); !ok || len(files) == 0 {
				if u, ok := p.Content.(a2a.URL); ok && !transport.IsFileRef(p) {
					m.Parts = append(m.Parts, &a2a.Part{Content: u, Filename: p.Filename, MediaType: p.MediaType})
				}
				continue
			}
			f := files[0]
			files = files[1:]
			b, err := f.Bytes(ctx, room)
			if err != nil {
				return nil, fmt.Errorf("the file cannot be sent: %w", err)
			}
			room -= int64(len(b))
			m.Parts = append(m.Parts, &a2a.Part{Content: a2a.Raw(b), Filename: f.Name, MediaType: f.Type})
		}
	}
	if len(m.Parts) == 0 {
		m.Parts = append(m.Parts, a2a.NewTextPart(" ")) // a message has to have something
	}
	return m, nil
}

// takesJSON reports whether a skill takes structured input. An agent that names only other media types gets it as a text.
func (a *Agent) takesJSON(skill string) bool {
	a.mu.Lock()
	of := a.of
	a.mu.Unlock()
	modes := of.DefaultInputModes
	for i := range of.Skills {
		if s := &of.Skills[i]; s.ID == skill && len(s.InputModes) > 0 {
			modes = s.InputModes
		}
	}
	return len(modes) == 0 || slices.ContainsFunc(modes, func(m string) bool { return strings.Contains(m, "json") || m == "*/*" || m == "data" })
}
