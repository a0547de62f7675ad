package a2a

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	cardTime  = "public, max-age=60"
	mostCards = 1024
	maxAbout  = 2000    // characters of a description
	maxShown  = 3 << 20 // bytes of the skills of all agents: clients of gRPC take 4 MiB
)

// seenCard is a card as it was given out last.
type seenCard struct {
	tag   string
	since time.Time
}

type (
	baseKey      struct{}
	authorityKey struct{}
)

// WithAuthority returns ctx for calls by gRPC, with the host and port that the client has used.
func (s *Server) WithAuthority(ctx context.Context, authority string) context.Context {
	return context.WithValue(ctx, authorityKey{}, authority)
}

// baseOf returns the address at which the client has reached the server.
func baseOf(ctx context.Context) string {
	base, _ := ctx.Value(baseKey{}).(string)
	return base
}

// card returns the card of an agent, or of Cortex itself, whose extended one has the skills of all agents. The error is a2a.ErrTaskNotFound's kin for
// an agent that cannot be given work.
func (s *Server) card(ctx context.Context, agent, base string, whole bool) (*a2a.AgentCard, error) {
	c := &a2a.AgentCard{
		Name: "Cortex", Version: s.cfg.Version, Skills: []a2a.AgentSkill{},
		Description:       "Gives work to the agents that joined it, and answers from their results.",
		DefaultInputModes: inputModes, DefaultOutputModes: outputModes,
		Capabilities: a2a.AgentCapabilities{
			Streaming: true, ExtendedAgentCard: true, PushNotifications: s.pushes(), Extensions: []a2a.AgentExtension{hitlExtension},
		},
	}
	all, err := s.cfg.Agents(ctx)
	if err != nil {
		return nil, s.away(err)
	}
	if agent == "" {
		c.Skills = append(c.Skills, a2a.AgentSkill{
			ID: "ask", Name: "Ask", Description: "Takes what is wanted in words, chooses the agents for it, and answers.", Tags: []string{"orchestration"},
		})
		size := 0
		for _, of := range all {
			id, err := transport.AgentID(of.Name)
			if err != nil || !whole {
				continue
			}
			skills := skillsOf(of, id+"/")
			if size += sizeOf(skills); size > maxShown {
				c.Description += " This card has no room for the skills of all agents: some are left out."
				break
			}
			c.Skills = append(c.Skills, skills...)
		}
	} else {
		base += "/agents/" + url.PathEscape(agent)
		c.Name = ""
		for _, of := range all {
			if id, err := transport.AgentID(of.Name); err == nil && id == agent {
				c.Name, c.Description, c.Version = of.Name, prompt.Clean(of.Description, maxAbout), prompt.Clean(of.Version, 64)
				c.Skills = skillsOf(of, "")
				if spec := agentcard.SpecOf(of); whole {
					c.Capabilities.Extensions = agentcard.Attach(c, spec).Capabilities.Extensions
				}
			}
		}
		if c.Name == "" {
			return nil, a2a.NewError(a2a.ErrExtendedCardNotConfigured, "there is no agent "+quoted(agent)+" now")
		}
	}
	c.SupportedInterfaces = s.interfaces(ctx, agent, base)
	return c, nil
}

// interfaces returns where an agent is, for a card: base is its address by HTTP. A client that came by gRPC, where that is not known, learns of gRPC only.
func (s *Server) interfaces(ctx context.Context, agent, base string) []*a2a.AgentInterface {
	rpc := &a2a.AgentInterface{ProtocolBinding: a2a.TransportProtocolGRPC, ProtocolVersion: a2a.Version, Tenant: agent}
	if authority, ok := ctx.Value(authorityKey{}).(string); ok {
		rpc.URL = authority
		return []*a2a.AgentInterface{rpc}
	}
	var all []*a2a.AgentInterface
	for _, binding := range []a2a.TransportProtocol{a2a.TransportProtocolJSONRPC, a2a.TransportProtocolHTTPJSON} {
		all = append(all, &a2a.AgentInterface{URL: base, ProtocolBinding: binding, ProtocolVersion: a2a.Version})
	}
	if at, err := url.Parse(base); err == nil && s.cfg.GRPC != "" {
		rpc.URL = net.JoinHostPort(at.Hostname(), s.cfg.GRPC)
		all = append(all, rpc)
	}
	return all
}

// skillsOf returns the skills of an agent, with a prefix before their ids.
func skillsOf(of *a2a.AgentCard, prefix string) []a2a.AgentSkill {
	skills := []a2a.AgentSkill{}
	for i := range of.Skills {
		s := of.Skills[i]
		s.ID, s.Description = prefix+agentcard.SkillID(&s), prompt.Clean(s.Description, maxAbout)
		s.SecurityRequirements = nil // those of this server hold
		if s.Tags == nil {
			s.Tags = []string{}
		}
		skills = append(skills, s)
	}
	return skills
}

// sizeOf returns about how many bytes skills have as JSON.
func sizeOf(skills []a2a.AgentSkill) int {
	const names = 100 // of the fields, with their quotes
	n := 0
	for i := range skills {
		s := &skills[i]
		n += names + len(s.ID) + len(s.Name) + len(s.Description)
		for _, words := range [][]string{s.Tags, s.Examples, s.InputModes, s.OutputModes} {
			for _, word := range words {
				n += len(word) + len(`"",`)
			}
		}
	}
	return n
}

// bearer says in a card that a token is needed. The SDK writes the list of scopes in a form that is not that of the protocol.
var bearer = []byte(`,"securitySchemes":{"bearer":{"httpAuthSecurityScheme":{"scheme":"Bearer"}}},"securityRequirements":[{"schemes":{"bearer":{"list":[]}}}]}`)

// serveCard answers with the public card of an agent. Clients and caches may keep it for a while, and ask whether it has changed.
func (s *Server) serveCard(w http.ResponseWriter, r *http.Request, agent string, locked bool) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	card, err := s.card(r.Context(), agent, baseOf(r.Context()), false)
	if err != nil {
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	b, schemes := []byte(nil), bearer
	if s.cfg.Old {
		b, err = oldCard(r.Context(), card)
		schemes = oldBearer
	} else {
		b, err = json.Marshal(card)
	}
	if err != nil {
		http.Error(w, "the card cannot be written", http.StatusInternalServerError)
		return
	}
	if locked {
		b = append(b[:len(b)-1], schemes...)
	}
	sum := sha256.Sum256(b)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", cardTime)
	h.Set("ETag", tag)
	http.ServeContent(w, r, "", s.since(agent+" "+baseOf(r.Context()), tag), bytes.NewReader(b))
}

// since returns when a card became what it is, as far as this process knows.
func (s *Server) since(key, tag string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, ok := s.cards.Get(key)
	if !ok || seen.tag != tag {
		seen = seenCard{tag, s.cfg.Client.Clock()}
		s.cards.Put(key, seen, 1)
		if s.cards.Len() > mostCards {
			s.cards.Drop()
		}
	}
	return seen.since
}

// cardPath is where a card is, below the address of its agent.
const cardPath = a2asrv.WellKnownAgentCardPath
