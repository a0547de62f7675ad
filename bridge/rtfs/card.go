package rtfs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/cortex-orchestrator/cortex/transport"
)

// maxCard bounds an agent_card, in bytes: with its lease it is kept in a note.
const maxCard = 128 << 10

// card is an agent_card. All fields are written, as the client library of RTFS wants them.
type card struct {
	AgentID       string                     `json:"agent_id"`
	ProfileURI    *string                    `json:"agent_profile_uri"`
	Name          string                     `json:"name"`
	Version       string                     `json:"version"`
	Description   string                     `json:"description"`
	Capabilities  []capability               `json:"capabilities"`
	Communication communication              `json:"communication"`
	Tags          []string                   `json:"discovery_tags"`
	Metadata      map[string]json.RawMessage `json:"metadata"`
}

// capability is something that an agent can do.
type capability struct {
	ID           string                     `json:"capability_id"`
	Description  string                     `json:"description"`
	InputSchema  *schema                    `json:"input_schema_ref"`
	OutputSchema *schema                    `json:"output_schema_ref"`
	Version      *string                    `json:"version"`
	Metadata     map[string]json.RawMessage `json:"metadata"`
}

// communication says where an agent is called.
type communication struct {
	Protocols []string   `json:"protocols"`
	Endpoints []endpoint `json:"endpoints"`
}

type endpoint struct {
	Protocol string                     `json:"protocol"`
	URI      string                     `json:"uri"`
	Details  map[string]json.RawMessage `json:"details"`
}

// schema is a reference to a schema, or the schema itself as JSON. The specification has inline schemas as objects too, the client library reads only texts.
type schema string

// UnmarshalJSON takes an object as its text.
func (s *schema) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var out bytes.Buffer
		if err := json.Compact(&out, b); err != nil {
			return err
		}
		*s = schema(out.String())
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return errors.New("a schema is a text or an object")
	}
	*s = schema(text)
	return nil
}

// inline returns the schema itself; nil for a mere reference.
func (s *schema) inline() json.RawMessage {
	var object map[string]json.RawMessage
	if s == nil || json.Unmarshal([]byte(*s), &object) != nil || object == nil {
		return nil
	}
	return json.RawMessage(*s)
}

// readCard reads a card, which may lack what can be left out.
func readCard(raw json.RawMessage) (*card, error) {
	if len(raw) > maxCard {
		return nil, fmt.Errorf("the card has %d bytes, at most %d are allowed", len(raw), maxCard)
	}
	c := &card{}
	if err := json.Unmarshal(raw, c); err != nil {
		return nil, fmt.Errorf("agent_card: %s", jsonError(err))
	}
	if err := transport.CheckID(c.AgentID); err != nil {
		return nil, fmt.Errorf("agent_id %w", err)
	}
	switch {
	case c.Name == "":
		return nil, errors.New("name is missing")
	case len(c.Capabilities) == 0 && c.Description == "":
		return nil, errors.New("capabilities and description are missing: one of them is needed, so that the agent can be chosen")
	case len(c.Capabilities) > transport.MaxSkills:
		return nil, fmt.Errorf("it has %d capabilities, at most %d are allowed", len(c.Capabilities), transport.MaxSkills)
	}
	c.fill()
	return c, nil
}

// fill replaces lists and objects that are null and must not be.
func (c *card) fill() {
	if c.Capabilities == nil {
		c.Capabilities = []capability{}
	}
	if c.Communication.Protocols == nil {
		c.Communication.Protocols = []string{}
	}
	if c.Communication.Endpoints == nil {
		c.Communication.Endpoints = []endpoint{}
	}
	if c.Tags == nil {
		c.Tags = []string{}
	}
	if c.Metadata == nil {
		c.Metadata = map[string]json.RawMessage{}
	}
}

// capability returns the capability of that id, or with that dispatch key, or nil.
func (c *card) capability(id string) *capability {
	i := slices.IndexFunc(c.Capabilities, func(one capability) bool {
		return one.ID == id || asText(one.Metadata[dispatchKey]) == id
	})
	if i < 0 {
		return nil
	}
	return &c.Capabilities[i]
}

// dispatchKey is the member of a capability's metadata with the task type that one of Cortex's own agents expects.
const dispatchKey = "dispatch_key"

// isIdempotent reports whether the agent says that calls may be repeated.
func (c *card) isIdempotent() bool { return string(c.Metadata["idempotent"]) == "true" }

// endpoints returns where an agent is called: its endpoints that are HTTP, and then the one with which it registered.
func (c *card) endpoints(registered string) []string {
	var all []string
	for _, e := range c.Communication.Endpoints {
		if e.Protocol == "http" || e.Protocol == "https" {
			all = append(all, e.URI)
		}
	}
	if !slices.Contains(all, registered) {
		all = append(all, registered)
	}
	return all
}

// reachedAt adds the endpoint with which an agent registers to a card that has none, so that those who find the agent can call it.
func (c *card) reachedAt(u *url.URL) {
	if len(c.Communication.Endpoints) == 0 {
		c.Communication.Endpoints = []endpoint{{Protocol: u.Scheme, URI: u.String()}}
		if !slices.Contains(c.Communication.Protocols, u.Scheme) {
			c.Communication.Protocols = append(c.Communication.Protocols, u.Scheme)
		}
	}
}

// asText returns a value of metadata as text.
func asText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
