package registry

import (
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	maxAgents    = 20_000    // of a registry, and as many hosts
	maxInstances = 1_000     // of an agent, and of a host
	maxBytes     = 128 << 20 // of memory for the cards of all agents; instances with equal cards share one
	maxBytesOf   = 4 << 20   // of them for the different cards of an agent, so that no few agents take all
	hostShare    = 3         // times the bytes that are free, which the cards of a host's agents may have, so that no host takes all

	// Cards are announced again within this time: when none was ignored for so long, there is room again.
	fullFor = 2 * time.Minute
)

// overfull records what a registry has ignored because it is full.
type overfull struct {
	cards int
	last  string // the agent of the latest one
	at    time.Time
}

// isFull reports whether accepting c with this content, which may be new, would exceed a limit. It logs that from time to time. r.mu is held.
func (r *Registry) isFull(c *transport.Card, is *content, isNew bool) bool {
	a := r.agents[c.AgentID]
	more := 0
	if isNew {
		more = is.size - r.given(c)
	}
	switch {
	case a == nil && len(r.agents) >= maxAgents:
	case a != nil && a.instances[c.Instance] == nil && len(a.instances) >= maxInstances:
	case more > 0 && (r.bytes+more > maxBytes || a != nil && a.bytes+more > maxBytesOf):
	case more > 0 && c.Host != "" && r.bytesOf[c.Host]+more > hostShare*(maxBytes-r.bytes):
	default:
		return false
	}
	r.ignore(c)
	return true
}

// count records how many bytes the cards of an agent have, and for which host they count. r.mu is held.
func (r *Registry) count(a *agent, bytes int) {
	r.bytes += bytes - a.bytes
	if a.within != "" {
		if r.bytesOf[a.within] -= a.bytes; r.bytesOf[a.within] == 0 {
			delete(r.bytesOf, a.within)
		}
	}
	a.bytes, a.within = bytes, ""
	for _, in := range a.instances {
		if in.host != nil {
			a.within = in.host.key.id
			break
		}
	}
	if a.within != "" {
		r.bytesOf[a.within] += bytes
	}
}

// former returns the card that the instance which announces c has had until now, or nil: it stays in force where there is no room for another one, so that
// the agent is not lost. r.mu is held.
func (r *Registry) former(c *transport.Card) *content {
	if a := r.agents[c.AgentID]; a != nil && a.instances[c.Instance] != nil {
		return a.instances[c.Instance].content
	}
	return nil
}

// given returns how many bytes are freed when the instance that announces c gets another card. r.mu is held.
func (r *Registry) given(c *transport.Card) int {
	former := r.former(c)
	if former == nil {
		return 0
	}
	for id, in := range r.agents[c.AgentID].instances {
		if id != c.Instance && in.content == former {
			return 0
		}
	}
	return former.size
}

// hostsFull reports whether the host that c announces would be one too many. r.mu is held.
func (r *Registry) hostsFull(c *transport.Card) bool {
	return r.hosts[hostKey{c.Host, c.Instance}] == nil && (len(r.hosts) >= maxAgents || r.hostsOf[c.Host] >= maxInstances)
}

// ignore counts a card for which there is no room. r.mu is held.
func (r *Registry) ignore(c *transport.Card) {
	if r.full.cards%1000 == 0 {
		r.cfg.Logger.Warn("card is ignored: there are too many", "agent", c.AgentID, "instance", c.Instance,
			"max_agents", maxAgents, "max_instances", maxInstances, "max_bytes", maxBytes, "max_bytes_of_one", maxBytesOf, "ignored", r.full.cards+1)
	}
	r.full = overfull{r.full.cards + 1, c.AgentID, r.now()}
}

// Trouble returns lines for operators about what the registry cannot do now; nil when all is well.
func (r *Registry) Trouble() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full.cards == 0 || r.now().Sub(r.full.at) > fullFor {
		return nil
	}
	return []string{fmt.Sprintf("too many agents: %d cards were ignored, the last one of %q; there may be %d agents, and %d instances of each, and their cards may have %d MB together, a bridge's three times what is free, and %d MB those of one agent",
		r.full.cards, prompt.Clean(r.full.last, 64), maxAgents, maxInstances, maxBytes>>20, maxBytesOf>>20)}
}
