package repl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/lookalike"
	"github.com/cortex-orchestrator/cortex/internal/table"
	"github.com/cortex-orchestrator/cortex/transport"
)

// presence holds the present agents, according to their cards. It is safe for concurrent use.
type presence struct {
	mu     sync.Mutex
	agents map[string]map[string]announced // by agent and instance
	alike  lookalike.Set                   // their ids, and reserved names
	synced chan struct{}                   // closed when the retained cards were read
	once   sync.Once
}

type announced struct {
	content     []byte // the card, to detect changes
	description string
}

// maxAgents and maxInstances bound what presence holds; the orchestrator's registry has its own limits.
const (
	maxAgents    = 20_000
	maxInstances = 64
)

func newPresence() *presence {
	p := &presence{agents: make(map[string]map[string]announced), synced: make(chan struct{})}
	p.alike.Add(transport.Cortex, "user")
	return p
}

// change is a change to tell the user.
type change struct {
	kind  changeKind
	agent string
	text  string // description of a card
	mark  string // a warning that the agent may be mistaken for another one
}

type changeKind string

const (
	joined     changeKind = "joined"
	left       changeKind = "left"
	expired    changeKind = "expired"
	changed    changeKind = "changed"
	conflicted changeKind = "conflicted"
)

// apply handles an event of the cards topic. It returns nil when there is nothing to tell: before the retained cards were read, for a refreshed card,
// and for another instance of a known agent.
func (p *presence) apply(e *transport.Event) *change {
	if _, ok := e.Payload.(*transport.Synced); ok {
		p.once.Do(func() { close(p.synced) })
		return nil
	}
	c, ok := e.Payload.(*transport.Card)
	if !ok || c.AgentID == transport.Cortex { // the orchestrator is no agent
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ch := p.applyLocked(c)
	select {
	case <-p.synced:
		return ch
	default:
		return nil
	}
}

func (p *presence) applyLocked(c *transport.Card) *change {
	ch := &change{agent: oneLine(c.AgentID)}
	instances := p.agents[c.AgentID]
	if c.Gone != "" {
		if _, ok := instances[c.Instance]; !ok {
			return nil
		}
		if delete(instances, c.Instance); len(instances) > 0 {
			return nil
		}
		delete(p.agents, c.AgentID)
		p.alike.Remove(c.AgentID)
		ch.kind = left
		if c.Gone == transport.GoneExpired {
			ch.kind = expired
		}
		return ch
	}
	content, err := json.Marshal(c.Card)
	if err != nil || c.Card == nil {
		return nil
	}
	now := announced{content, describe(c.Card)}
	ch.text = now.description
	if instances == nil {
		if len(p.agents) >= maxAgents {
			return nil
		}
		p.agents[c.AgentID] = map[string]announced{c.Instance: now}
		p.alike.Add(c.AgentID)
		ch.kind, ch.mark = joined, oneLine(p.alike.Mark(c.AgentID))
		return ch
	}
	before, known := instances[c.Instance]
	if (known && bytes.Equal(before.content, content)) || (!known && len(instances) >= maxInstances) {
		return nil
	}
	instances[c.Instance] = now
	for _, other := range instances {
		if !bytes.Equal(other.content, content) {
			ch.kind = conflicted
			return ch
		}
	}
	if !known {
		return nil
	}
	ch.kind = changed
	return ch
}

// ids returns the present agents, sorted.
func (p *presence) ids() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := make([]string, 0, len(p.agents))
	for id := range p.agents {
		ids = append(ids, oneLine(id))
	}
	slices.Sort(ids)
	return ids
}

// has reports whether an agent is present, as far as that is known.
func (p *presence) has(agent string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.agents[agent] != nil || len(p.agents) >= maxAgents
}

// named formats an agent's id, with a mark when it may be mistaken for another one.
func (p *presence) named(agent string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.alike.Named(agent)
}

// list lists the agents, for a chat without a registry.
func (p *presence) list(context.Context) ([]AgentInfo, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []AgentInfo
	for id, instances := range p.agents {
		info := AgentInfo{ID: id, State: "active"}
		for _, a := range instances {
			info.Description = a.description
		}
		info.Mark = p.alike.Mark(id)
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b AgentInfo) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// describe returns the first sentence of a card's description.
func describe(c *a2a.AgentCard) string {
	text := oneLine(c.Description)
	if i := strings.Index(text, ". "); i > 0 {
		text = text[:i]
	}
	return strings.TrimSuffix(text, ".")
}

// changePrinter prints changes as lines: individually when they are few, as counts when they are many.
type changePrinter struct {
	tell func(text, look string)

	batch []change
	more  map[changeKind]int // numbers of changes that are only counted
	begun bool
	told  int
}

// The herald collects changes for heraldPause, and only counts them after more than heraldFew within heraldWindow.
const (
	heraldPause  = 100 * time.Millisecond
	heraldWindow = time.Second
	heraldFew    = 5
)

// run prints changes until ctx ends.
func (h *changePrinter) run(ctx context.Context, changes <-chan change) {
	pause, window := time.NewTimer(0), time.NewTimer(0)
	pause.Stop()
	window.Stop()
	defer pause.Stop()
	defer window.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-changes:
			if !h.begun {
				h.begun = true
				window.Reset(heraldWindow)
			}
			if at := slices.IndexFunc(h.batch, func(b change) bool { return b.kind == expired && b.agent == c.agent }); at >= 0 && c.kind == joined {
				h.batch = slices.Delete(h.batch, at, at+1) // an agent that is back after Cortex was away: it was there all the time
				continue
			}
			if h.more == nil && h.told+len(h.batch) < heraldFew {
				h.batch = append(h.batch, c)
				pause.Reset(heraldPause)
				continue
			}
			// Too many: count also those that wait.
			pause.Stop()
			if h.more == nil {
				h.more = make(map[changeKind]int)
			}
			for _, c := range append(h.batch, c) {
				h.more[c.kind]++
			}
			h.batch = nil
		case <-pause.C:
			h.flush()
		case <-window.C:
			h.flush()
			h.count()
			h.begun, h.told, h.more = false, 0, nil
		}
	}
}

func (h *changePrinter) flush() {
	for _, c := range h.batch {
		h.tell(changeText(c))
		h.told++
	}
	h.batch = nil
}

func (h *changePrinter) count() {
	var parts []string
	for _, kind := range []changeKind{joined, left, expired, changed, conflicted} {
		if n := h.more[kind]; n > 0 {
			what := string(kind)
			switch kind {
			case conflicted:
				what = "have conflicting cards"
			case expired:
				what = "gone"
			}
			noun := "agent"
			if h.told > 0 && len(parts) == 0 {
				noun = "more agent"
			}
			parts = append(parts, count(n, noun)+" "+what)
		}
	}
	if len(parts) > 0 {
		h.tell(strings.Join(parts, ", "), lookDim)
	}
}

// maxDescribed bounds the description of an agent that joins, in columns.
const maxDescribed = 120

// changeText describes a change, and returns the look of the text.
func changeText(c change) (text, look string) {
	switch c.kind {
	case conflicted:
		return fmt.Sprintf("warning: two different cards under one id %s; give each agent its own name", c.agent), lookYellow
	case expired:
		return c.agent + " is gone: nothing was heard of it", lookDim
	case joined, changed:
		if c.mark != "" {
			return fmt.Sprintf("%s %s: it %s", c.agent, c.kind, c.mark), lookYellow
		}
		if c.text != "" {
			return fmt.Sprintf("%s %s (%s)", c.agent, c.kind, table.Fit(c.text, maxDescribed)), lookDim
		}
	}
	return c.agent + " " + string(c.kind), lookDim
}
