package cortex

import "github.com/cortex-orchestrator/cortex/prompt"

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
