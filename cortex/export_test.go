package cortex

import (
	"time"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// Fold returns the fold of a conversation that o has in its cache, as a snapshot; nil when it has none.
func (o *Orchestrator) Fold(contextID string) ([]byte, error) {
	conv := o.cache.take(conversationKey{o.cfg.Tenant, contextID})
	if conv == nil {
		return nil, nil
	}
	defer o.cache.put(conv)
	return conv.marshal()
}

// Snapshot returns c as a snapshot.
func (c *Conversation) Snapshot() ([]byte, error) { return c.marshal() }

// Weight is what c is taken to need in the cache.
func (c *Conversation) Weight() int { return c.weight() }

// Offers is what an Orchestrator keeps of the agents that were there last.
type Offers = offers

// Trim is what a decision does with the agents that are there.
func (o *Offers) Trim(agents []prompt.Agent) []prompt.Agent { return o.trim(agents) }

// Unstored is what an Orchestrator keeps of entries that could not be stored.
type Unstored = unstored

// NewUnstored returns an empty Unstored.
func NewUnstored() *Unstored { return newUnstored() }

// Put keeps an entry.
func (u *Unstored) Put(contextID string, after Version, e *Entry, now time.Time) {
	u.put(NewConversation("", contextID), after, e, now)
}

// Full reports whether there is no room.
func (u *Unstored) Full(now time.Time) bool { return u.full(now) }

// Len is how many entries are kept.
func (u *Unstored) Len() int { return u.order.Len() }
