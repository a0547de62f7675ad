package rtfs

import (
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/nesting"
	"github.com/cortex-orchestrator/cortex/transport"
)

// lease is the registration of an agent. It does not change: another one replaces it.
type lease struct {
	Card     *card         `json:"card"`
	Endpoint string        `json:"endpoint"`
	TTL      time.Duration `json:"ttl"`
	Expires  time.Time     `json:"expires"`
	From     string        `json:"from,omitempty"` // the machine that has registered it, see [kit.Other]

	id      string         // of the agent in Cortex
	known   *a2a.AgentCard // its card there
	weight  int            // what the card takes in memory, in bytes, as far as that can be estimated
	version conversation.Version
}

// refusedError says why an agent cannot register.
type refusedError struct{ error }

func refuse(format string, args ...any) error { return &refusedError{fmt.Errorf(format, args...)} }

// leaseOf returns the lease of an agent that registers now, from an address.
func (b *bridge) leaseOf(raw json.RawMessage, endpoint string, ttl time.Duration, from string) (*lease, error) {
	c, err := readCard(raw)
	if err != nil {
		return nil, &refusedError{err}
	}
	u, err := b.poster.parse(endpoint)
	if err != nil {
		return nil, refuse("endpoint_url: %w", err)
	}
	c.reachedAt(u)
	all := c.endpoints(endpoint)
	if len(all) > maxEndpoints {
		return nil, refuse("communication.endpoints: there are %d, at most %d are called", len(all), maxEndpoints)
	}
	for _, uri := range all {
		if _, err := b.poster.parse(uri); err != nil {
			return nil, refuse("communication.endpoints: %w", err)
		}
	}
	l := &lease{Card: c, Endpoint: endpoint, TTL: ttl, Expires: b.now().Add(ttl), From: kit.Other(from), weight: nesting.Weight(raw)}
	if err := l.resolve(b.prefix); err != nil {
		return nil, &refusedError{err}
	}
	return l, nil
}

// resolve determines what the agent is in Cortex.
func (l *lease) resolve(prefix string) (err error) {
	if l.known, err = cardOf(l.Card, prefix); err != nil {
		return err
	}
	if l.id, err = transport.AgentID(l.known.Name); err != nil {
		return err
	}
	if transport.IsReserved(l.id) || l.id == hostName {
		return fmt.Errorf("the name %s is Cortex's own: choose another", l.id)
	}
	return nil
}

// machine returns whose calls those to the agent are: of the machine that has registered it, as who registers can name any number of endpoints. Those of this machine
// are told apart by their endpoints.
func (l *lease) machine() string {
	if l.From != "" {
		return l.From
	}
	u, err := url.Parse(l.Endpoint)
	if err != nil {
		return ""
	}
	return machine(u.Host)
}

func (l *lease) registered() *registered {
	return &registered{"registered", l.Card.AgentID, l.Expires.UTC().Format(time.RFC3339)}
}

// key is the key of the lease's note.
func key(agentID string) string { return space.ID("lease", agentID) }

// readLease reads a lease from its note.
func readLease(value []byte, prefix string) (*lease, error) {
	l := &lease{}
	if err := json.Unmarshal(value, l); err != nil {
		return nil, err
	}
	if l.Card == nil {
		return nil, fmt.Errorf("it has no card")
	}
	l.Card.fill()
	l.weight = nesting.Weight(value)
	return l, l.resolve(prefix)
}
