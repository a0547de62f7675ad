package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// Card announces a running instance of an agent, or reports that it is gone.
type Card struct {
	// AgentID is the agent's address: the name on its card. [Cortex] is reserved for orchestrators, which announce with a card that they run.
	AgentID string `json:"agentId"`
	// Instance distinguishes several processes of one agent.
	Instance string `json:"instance"`
	// Card is the agent's A2A card. It may be nil when Gone is set.
	Card *a2a.AgentCard `json:"card,omitempty"`
	// TTL is how long the announcement is valid unless it is repeated, at least one second; 0 is unlimited.
	TTL time.Duration `json:"ttl,omitempty"`
	// Heartbeat is the interval at which the instance announces itself, in nanoseconds in JSON, as TTL; at most [MaxHeartbeat]. An instance that misses
	// three heartbeats is considered gone. 0 means that it sends none.
	Heartbeat time.Duration `json:"heartbeat,omitempty"`
	// Draining says that the instance finishes its tasks and takes no new ones.
	Draining bool `json:"draining,omitempty"`
	// Host is the host that the instance runs in beside many others, or empty. A host is announced by a card of its own, whose AgentID equals Host and
	// which needs no Card: it is no agent, but announces all agents that it hosts under its Instance. When it is gone, so are they, so they need no
	// heartbeats of their own.
	Host string `json:"host,omitempty"`
	// Gone is empty for an announcement. Publishing a card with [GoneLeft] removes it; subscribers receive GoneLeft or [GoneExpired].
	Gone GoneReason `json:"gone,omitempty"`
}

// GoneReason is the reason why a card is gone.
type GoneReason string

// The reasons why an instance is gone.
const (
	GoneLeft    GoneReason = "left"    // it said goodbye
	GoneExpired GoneReason = "expired" // its TTL passed
)

// MaxHeartbeat bounds Card.Heartbeat.
const MaxHeartbeat = 24 * time.Hour

// UnmarshalJSON decodes a card. It also accepts the form in which some hosts leave, an announcement with "isDeregistering" beside the card or within
// it, as [GoneLeft].
func (c *Card) UnmarshalJSON(b []byte) error {
	type plain Card
	if err := json.Unmarshal(b, (*plain)(c)); err != nil {
		return err
	}
	if c.Gone != "" || !bytes.Contains(b, []byte(`sDeregistering"`)) {
		return nil
	}
	type leaving struct {
		IsDeregistering bool `json:"isDeregistering"`
	}
	var says struct {
		leaving
		Card leaving `json:"card"`
	}
	if json.Unmarshal(b, &says) == nil && (says.IsDeregistering || says.Card.IsDeregistering) {
		c.Gone = GoneLeft
	}
	return nil
}

// Synced is delivered once to each subscriber of Cards, after the cards that were retained when it subscribed.
type Synced struct{}

func (c *Card) validate() error {
	if err := CheckID(c.AgentID); err != nil {
		return fmt.Errorf("card: name %w", err)
	}
	if err := CheckAgent(c.AgentID); err != nil && c.Gone == "" {
		return fmt.Errorf("card: name %w", err)
	}
	if err := CheckID(c.Instance); err != nil {
		return fmt.Errorf("card of %s: instance %w", c.AgentID, err)
	}
	switch c.Gone {
	case GoneLeft, GoneExpired:
		if c.Card != nil {
			return ValidateCard(c.Card)
		}
		return nil
	case "":
	default:
		return fmt.Errorf("card of %s: unknown reason %.40q for going", c.AgentID, c.Gone)
	}
	if c.Host != "" {
		if err := CheckID(c.Host); err != nil {
			return fmt.Errorf("card of %s: host %w", c.AgentID, err)
		}
	}
	if c.Card == nil && !c.IsHost() {
		return fmt.Errorf("card of %s is missing", c.AgentID)
	}
	if c.TTL < 0 || (c.TTL > 0 && c.TTL < time.Second) {
		return fmt.Errorf("card of %s: ttl %v is under one second", c.AgentID, c.TTL)
	}
	if c.Heartbeat < 0 || c.Heartbeat > MaxHeartbeat {
		return fmt.Errorf("card of %s: heartbeat %v is not between 0 and %v", c.AgentID, c.Heartbeat, MaxHeartbeat)
	}
	if c.Card == nil {
		return nil
	}
	return ValidateCard(c.Card)
}

// IsHost reports whether the card announces a host, which is no agent.
func (c *Card) IsHost() bool { return c.Host != "" && c.Host == c.AgentID }

// AgentID returns the address of an agent with this name on its card: the name itself if it is a valid id, or the name without control characters and
// with each run of spaces replaced by "_". It returns an error when the result is empty or too long.
func AgentID(name string) (string, error) {
	if CheckID(name) == nil {
		return name, CheckAgent(name)
	}
	clean := strings.Map(func(r rune) rune {
		if r != utf8.RuneError && (unicode.IsSpace(r) || unicode.IsGraphic(r)) {
			return r
		}
		return -1
	}, name)
	id := strings.Join(strings.Fields(clean), "_")
	if err := CheckID(id); err != nil {
		return "", fmt.Errorf("name %w", err)
	}
	return id, CheckAgent(id)
}

// CheckAgent returns an error for an id that no agent may have, as it is one of a person, or begins as ids of others do: agent:agent:x and agent:x would be
// two agents, and rtfs:x is who calls by way of RTFS, in whose conversations the agent could speak. It does not check what [CheckID] does.
func CheckAgent(id string) error {
	switch first, _, more := strings.Cut(id, ":"); {
	case id == "user" || more && first == "user":
		return fmt.Errorf("%q is kept for people", id)
	case more && isPrefix(first):
		return fmt.Errorf("%q: an agent's own name does not begin with %q, by which ids are told apart", id, first+":")
	}
	return nil
}

// PeerPrefix is what the names of people begin with who are peers of AgentHub. They have no keys.
const PeerPrefix = "agenthub/"

// CheckPerson returns an error for the name of a person with keys that somebody without them has.
func CheckPerson(name string) error {
	if n := len(PeerPrefix); len(name) >= n && strings.EqualFold(name[:n], PeerPrefix) {
		return fmt.Errorf("%q is kept for peers of AgentHub, who have no keys", name)
	}
	return nil
}

func isPrefix(word string) bool {
	return slices.ContainsFunc(SenderPrefixes(), func(p string) bool { return strings.EqualFold(p, word) })
}

// SenderPrefixes returns what ids begin with where they are told apart, as in agent:ID: those of Cortex, of people, of agents, and of who speaks by way of
// a system whose callers have no keys.
func SenderPrefixes() []string { return []string{Cortex, "user", "agent", "rtfs", "rockbot"} }

// PersonName returns the name of a person as people read and type it: without the prefix "user:", unless the rest reads like another sender. Other ids
// stay as they are.
func PersonName(from string) string {
	name := strings.TrimPrefix(from, "user:")
	if first, _, _ := strings.Cut(name, ":"); slices.Contains(SenderPrefixes(), first) || name == "" {
		return from
	}
	return name
}

// ValidateCard returns what is wrong with an agent's card, or nil: it needs a name with a valid [AgentID], at most [MaxSkills] skills, each with an
// id or a name, and at most [MaxCard] bytes of JSON. It does not check the texts, which are not trusted wherever they are shown.
func ValidateCard(c *a2a.AgentCard) error {
	if strings.TrimSpace(c.Name) == "" {
		return errors.New("card has no name")
	}
	if _, err := AgentID(c.Name); err != nil {
		return fmt.Errorf("card: %w", err)
	}
	if len(c.Skills) > MaxSkills {
		return fmt.Errorf("card of %s: %w: %d skills, at most %d are allowed", c.Name, ErrTooLarge, len(c.Skills), MaxSkills)
	}
	for i, s := range c.Skills {
		if s.ID == "" && s.Name == "" {
			return fmt.Errorf("card of %s: skill %d has neither id nor name", c.Name, i+1)
		}
	}
	b, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("card of %s: %w", c.Name, err)
	}
	if len(b) > MaxCard {
		return fmt.Errorf("card of %s: %w: %d bytes, at most %d are allowed", c.Name, ErrTooLarge, len(b), MaxCard)
	}
	return nil
}
