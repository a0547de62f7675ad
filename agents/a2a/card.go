package a2a

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of cards.
const (
	maxCard     = 64 << 10 // bytes, of a peer's
	cardTimeout = 15 * time.Second

	maxDescription = 4 << 10 // bytes, of the agent
	maxSkillText   = 1 << 10 // bytes, of a skill
	maxWords       = 20      // tags, examples and modes of a skill
	maxWord        = 256     // bytes of one of them
)

// DefaultRefresh is the time between two readings of a card whose server says none.
const DefaultRefresh = 5 * time.Minute

// Bounds of what a server says.
const (
	minRefresh = 10 * time.Second
	maxRefresh = 24 * time.Hour
)

// kept is the last good card, as it is in the agent's folder.
type kept struct {
	Card json.RawMessage `json:"card"` // as the server gave it
	ETag string          `json:"etag,omitempty"`
}

// fetched is a card that was read from its server.
type fetched struct {
	kept
	same bool          // it has not changed
	age  time.Duration // until it is to be read again; 0: the server does not say
}

// errNoCard is wrapped by the errors for answers that are no card.
var errNoCard = errors.New("there is no card")

// fetch reads the peer's card, unless it is that of the ETag.
func (a *Agent) fetch(ctx context.Context, etag string) (*fetched, error) {
	ctx, cancel := context.WithTimeout(ctx, cardTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.home.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set(a2a.SvcParamVersion, string(a2a.Version))
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	resp, err := a.http.Do(r)
	if err != nil {
		return nil, plainURL(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	f := &fetched{age: maxAge(resp.Header)}
	switch {
	case resp.StatusCode == http.StatusNotModified && etag != "":
		f.same = true
		return f, nil
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %w: %s", shownURL(a.home.String()), errNoCard, resp.Status)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxCard+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxCard {
		return nil, fmt.Errorf("%w: its card has more than %d KiB", errNoCard, maxCard>>10)
	}
	f.Card = b
	if tag := resp.Header.Get("ETag"); len(tag) <= 256 {
		f.ETag = tag
	}
	return f, nil
}

// maxAge returns for how long an answer is fresh; 0 if it does not say.
func maxAge(h http.Header) time.Duration {
	for _, d := range strings.Split(strings.Join(h.Values("Cache-Control"), ","), ",") {
		if text, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(d)), "max-age="); ok {
			if n, err := strconv.Atoi(strings.Trim(text, `"`)); err == nil && n > 0 {
				return min(max(time.Duration(n)*time.Second, minRefresh), maxRefresh)
			}
		}
	}
	return 0
}

// The fields of a card that are used. Others, also those of versions to come, make no card unreadable.
var (
	cardFields = []string{
		"name", "description", "version", "provider", "documentationUrl", "supportedInterfaces", "capabilities", "defaultInputModes", "defaultOutputModes", "skills",
		"url", "preferredTransport", "additionalInterfaces", "protocolVersion", // of 0.3
	}
	interfaceFields  = []string{"url", "protocolBinding", "protocolVersion", "tenant", "transport"}
	capabilityFields = []string{"streaming", "extensions"}
	extensionFields  = []string{"uri", "description", "required", "params"}
	skillFields      = []string{"id", "name", "description", "tags", "examples", "inputModes", "outputModes"}
	providerFields   = []string{"organization", "url"}
)

// readCard reads a peer's card of any version.
func readCard(b []byte) (*a2a.AgentCard, error) {
	var raw map[string]any
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, errors.New("its card is no JSON object")
	}
	raw = only(raw, cardFields)
	for _, list := range []struct {
		name   string
		fields []string
	}{{"supportedInterfaces", interfaceFields}, {"additionalInterfaces", interfaceFields}, {"skills", skillFields}} {
		all, _ := raw[list.name].([]any)
		for i, one := range all {
			if m, ok := one.(map[string]any); ok {
				all[i] = only(m, list.fields)
			}
		}
	}
	if m, ok := raw["provider"].(map[string]any); ok {
		raw["provider"] = only(m, providerFields)
	}
	if m, ok := raw["capabilities"].(map[string]any); ok {
		m = only(m, capabilityFields)
		var known []any
		all, _ := m["extensions"].([]any)
		for _, one := range all {
			if x, ok := one.(map[string]any); ok && x["uri"] == agentcard.ExtensionURI {
				known = append(known, only(x, extensionFields))
			}
		}
		if m["extensions"] = known; known == nil {
			delete(m, "extensions")
		}
		raw["capabilities"] = m
	}
	b, err := json.Marshal(raw)
	if err != nil {
		return nil, err
	}
	card, _, err := agentcard.Read("its card", b)
	return card, err
}

// only returns the fields of m with the names, which may be written as in protobuf, too.
func only(m map[string]any, names []string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		words := strings.Split(k, "_")
		for i, w := range words[1:] {
			if w != "" {
				words[i+1] = strings.ToUpper(w[:1]) + w[1:]
			}
		}
		if k = strings.Join(words, ""); v != nil && slices.Contains(names, k) {
			out[k] = v
		}
	}
	return out
}

// PeerLabel is the label of a card that says where the agent's own card is.
const PeerLabel = "peer"

// announced returns the card under which Cortex knows the agent: without addresses, and bounded. If it exceeds the limits of cards, it leaves out what a
// model needs least. The changed skills need a yes.
func announced(id, from string, of *a2a.AgentCard, changed []string) *a2a.AgentCard {
	var card *a2a.AgentCard
	for _, fit := range []struct{ skills, text, words, schema int }{
		{transport.MaxSkills, maxSkillText, maxWords, agentcard.MaxSchema},
		{transport.MaxSkills, maxSkillText, 5, 0},
		{transport.MaxSkills, 200, 1, 0},
		{transport.MaxSkills, 100, 0, 0},
		{transport.MaxSkills / 4, 100, 0, 0},
	} {
		card = shown(id, from, of, changed, fit.skills, fit.text, fit.words, fit.schema)
		if transport.ValidateCard(card) == nil {
			break
		}
	}
	return card
}

func shown(id, from string, of *a2a.AgentCard, changed []string, skills, text, words, schema int) *a2a.AgentCard {
	card := &a2a.AgentCard{
		Name: id, Description: said(cmp.Or(of.Description, "The agent "+of.Name), maxDescription), Version: cmp.Or(said(of.Version, 64), "1.0.0"),
		SupportedInterfaces: []*a2a.AgentInterface{}, Skills: []a2a.AgentSkill{},
		DefaultInputModes: cmpWords(of.DefaultInputModes, "text/plain"), DefaultOutputModes: cmpWords(of.DefaultOutputModes, "text/plain"),
		Capabilities: a2a.AgentCapabilities{Streaming: of.Capabilities.Streaming},
	}
	theirs := agentcard.SpecOf(of)
	spec := &agentcard.Spec{Tags: []string{"a2a"}, Labels: map[string]string{PeerLabel: from}, Abilities: map[string]agentcard.Ability{}}
	for i := range of.Skills {
		s := &of.Skills[i]
		if len(card.Skills) == skills {
			break
		}
		k := a2a.AgentSkill{
			ID: announcedID(s), Name: said(cmp.Or(s.Name, s.ID), maxWord), Description: said(cmp.Or(s.Description, s.Name, s.ID), text),
			Tags: few(s.Tags, words), Examples: few(s.Examples, words), InputModes: few(s.InputModes, maxWords), OutputModes: few(s.OutputModes, maxWords),
		}
		if k.ID == "" {
			continue
		}
		ability := agentcard.Ability{Once: true} // what a stranger has begun may have had an effect
		if is := theirs.Abilities[agentcard.SkillID(s)]; len(is.InputSchema) <= schema {
			ability.InputSchema, ability.Confirm = is.InputSchema, is.Confirm
		}
		ability.Confirm = ability.Confirm || slices.Contains(changed, k.ID)
		card.Skills = append(card.Skills, k)
		spec.Abilities[k.ID] = ability
	}
	return agentcard.Attach(card, spec)
}

// announcedID returns the id under which Cortex knows a skill.
func announcedID(s *a2a.AgentSkill) string { return said(agentcard.SkillID(s), maxWord) }

func cmpWords(all []string, instead string) []string {
	if all = few(all, maxWords); len(all) == 0 {
		return []string{instead}
	}
	return all
}

// few returns the first n words, each bounded.
func few(all []string, n int) []string {
	out := []string{}
	for _, w := range all[:min(len(all), n)] {
		if w = said(w, maxWord); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// said returns a stranger's text in at most n bytes.
func said(text string, n int) string {
	short := shorten.Marked(strings.TrimSpace(strings.ToValidUTF8(text, "")), n, "…")
	if len(text) > n {
		short = strings.Clone(short) // without the space around it, which may be long
	}
	return short
}
