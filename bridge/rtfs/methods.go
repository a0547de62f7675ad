package rtfs

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// prefixOf is what the names of all methods begin with.
const prefixOf = "rtfs.registry."

// Bounds of the time for which an agent registers.
const (
	usualTTL = time.Hour
	maxTTL   = 24 * time.Hour
)

// registered is the result of register and heartbeat.
type registered struct {
	Status  string `json:"status"`
	AgentID string `json:"agent_id"`
	Expires string `json:"expires_at"`
}

// found is the result of discover.
type found struct {
	Agents []json.RawMessage `json:"agents"`
	Total  int               `json:"total_count"`
	Took   int64             `json:"query_time_ms"`
}

// maxFound bounds the cards of a result, in bytes, as a limit of 1000 is none on what they have.
const maxFound = 4 << 20

// Bounds of what results take in memory at the same time, in bytes.
const (
	mostFinding = 128 << 20
	ownFinding  = 64 << 20     // of a machine
	finding     = 2 * maxFound // of one
)

// call calls a method of the registry for a client at an address. base is the URL by which it reaches the registry.
func (b *bridge) call(ctx context.Context, method string, params json.RawMessage, from, base string) (any, error) {
	switch strings.TrimPrefix(method, prefixOf) {
	case method: // of something else
	case "register":
		return b.register(ctx, params, from)
	case "heartbeat":
		return b.heartbeat(ctx, params)
	case "discover":
		return b.discover(ctx, params, from, base)
	case "deregister", "unregister":
		return b.deregister(ctx, params)
	case "health", "health_check":
		return map[string]any{"status": "ok", "agents": len(b.leases.shown())}, nil
	}
	return nil, newError(codeMethod, "there is no method %q", method)
}

func (b *bridge) register(ctx context.Context, params json.RawMessage, from string) (any, error) {
	var p struct {
		Card     json.RawMessage `json:"agent_card"`
		Endpoint string          `json:"endpoint_url"`
		TTL      *int64          `json:"ttl_seconds"`
	}
	if err := b.inTurn(ctx, from, params, func() error { return decode(params, &p) }); err != nil {
		return nil, err
	}
	switch {
	case len(p.Card) == 0 || p.Card[0] != '{':
		return nil, badParams(errors.New("agent_card, an object, is needed"))
	case p.Endpoint == "":
		return nil, badParams(errors.New("endpoint_url is needed"))
	}
	ttl, err := ttlOf(p.TTL, usualTTL)
	if err != nil {
		return nil, err
	}
	var l *lease
	err = b.inTurn(ctx, from, p.Card, func() (err error) {
		l, err = b.leaseOf(p.Card, p.Endpoint, ttl, from)
		return err
	})
	if err == nil {
		err = b.leases.put(ctx, l)
	}
	if _, ok := errors.AsType[*refusedError](err); ok {
		return nil, newError(codeRefused, "Registration failed: %v", err)
	}
	if err != nil {
		return nil, err
	}
	return l.registered(), nil
}

// ttlOf returns the time that is asked for.
func ttlOf(seconds *int64, otherwise time.Duration) (time.Duration, error) {
	switch {
	case seconds == nil:
		return otherwise, nil
	case *seconds < 1:
		return 0, badParams(errors.New("ttl_seconds must be at least 1"))
	}
	return time.Duration(min(*seconds, int64(maxTTL/time.Second))) * time.Second, nil
}

func (b *bridge) heartbeat(ctx context.Context, params json.RawMessage) (any, error) {
	var p struct {
		AgentID string `json:"agent_id"`
		TTL     *int64 `json:"ttl_seconds"`
	}
	if err := decode(params, &p); err != nil {
		return nil, err
	}
	if p.AgentID == "" {
		return nil, badParams(errors.New("agent_id is needed"))
	}
	if _, err := ttlOf(p.TTL, 0); err != nil {
		return nil, err
	}
	l, err := b.leases.extend(ctx, p.AgentID, func(now time.Duration) time.Duration {
		ttl, _ := ttlOf(p.TTL, now) // checked above
		return ttl
	})
	switch {
	case err != nil:
		return nil, err
	case l == nil:
		return nil, unknownAgent(p.AgentID)
	}
	return l.registered(), nil
}

func unknownAgent(id string) error {
	return newError(codeUnknown, "agent %.300s is not registered", id)
}

func (b *bridge) deregister(ctx context.Context, params json.RawMessage) (any, error) {
	var p struct {
		AgentID string `json:"agent_id"`
	}
	if err := decode(params, &p); err != nil {
		return nil, err
	}
	if p.AgentID == "" {
		return nil, badParams(errors.New("agent_id is needed"))
	}
	switch was, err := b.leases.drop(ctx, p.AgentID); {
	case err != nil:
		return nil, err
	case !was:
		return nil, unknownAgent(p.AgentID)
	}
	return map[string]any{"status": "deregistered", "agent_id": p.AgentID}, nil
}

// discover finds agents that have registered, and Cortex's other agents. Of two with the same id the first has registered.
func (b *bridge) discover(ctx context.Context, params json.RawMessage, from, base string) (any, error) {
	begun := time.Now()
	var q *query
	err := b.inTurn(ctx, from, params, func() (err error) {
		q, err = readQuery(params)
		return err
	})
	if err != nil {
		return nil, err
	}
	var all []*card
	for _, c := range b.cards(base) {
		if q.fits(c) {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *card) int { return strings.Compare(a.AgentID, b.AgentID) })
	f := &found{Agents: []json.RawMessage{}, Total: len(all)}
	size := 0
	for _, c := range all[:min(q.limit, len(all))] {
		text, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		if size += len(text); size > maxFound {
			break
		}
		f.Agents = append(f.Agents, text)
	}
	f.Took = time.Since(begun).Milliseconds()
	return f, nil
}

// cards returns the cards of all agents that can be found.
func (b *bridge) cards(base string) []*card {
	var all []*card
	here, ours := map[string]bool{}, map[string]bool{}
	for _, l := range b.leases.shown() {
		all = append(all, l.Card)
		here[l.Card.AgentID], ours[l.id] = true, true
	}
	for _, a := range b.at.Agents() {
		id, err := transport.AgentID(a.Name)
		if err != nil || ours[id] || here[id] {
			continue
		}
		if c, err := shownCard(a, base); err == nil {
			all = append(all, c)
		}
	}
	return all
}
