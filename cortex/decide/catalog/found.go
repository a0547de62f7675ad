package catalog

import (
	"slices"
	"weak"

	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// maxFound bounds how many searches are kept.
const maxFound = 4096

// found is what was searched for a decision of a turn, for its next one: the words are the same, and a search takes longer than all else in a decision
// without a model.
type found struct {
	user, before string
	agents       weak.Pointer[prompt.Agent] // the first one; a change of the agents makes another slice
	n            int                        // of agents
	unavailable  []prompt.Unavailable
	hits         []router.Hit
}

// hitsFor returns the agents that fit t's message best. A message such as "and in Paris?" may fit no agent; then it also searches with the previous
// message, and merges the best of both, unless the message says which agent it is for. It searches once for a turn, as long as the agents are the same: what is learned in the meantime is for other
// turns.
func (c *Candidates) hitsFor(t *llm.Turn) []router.Hit {
	f := &found{user: t.User, n: len(c.agents), unavailable: c.unavailable}
	if n := len(t.History); n > 0 {
		f.before = prompt.CleanText(t.History[n-1].User, followedBytes)
	}
	if f.n > 0 {
		f.agents = weak.Make(&c.agents[0])
	}
	key := [2]string{t.Tenant, t.ID}
	if hits, ok := c.catalog.kept(key, f); ok {
		return hits
	}
	f.hits = c.hits(f.user, c.limit)
	if f.before != "" && best(f.hits) < router.Fits && !c.index.Addressed(f.user) {
		if both := c.hits(f.user+"\n"+f.before, c.limit); best(both) > best(f.hits) {
			f.hits = braid(both, f.hits, c.limit)
		}
	}
	c.catalog.keep(key, f)
	return f.hits
}

// kept returns the hits of an equal search for a turn.
func (cat *Catalog) kept(turn [2]string, f *found) ([]router.Hit, bool) {
	cat.mu.Lock()
	defer cat.mu.Unlock()
	old, ok := cat.found.Get(turn)
	if !ok || old.user != f.user || old.before != f.before || old.agents != f.agents || old.n != f.n || !slices.Equal(old.unavailable, f.unavailable) {
		return nil, false
	}
	return old.hits, true
}

func (cat *Catalog) keep(turn [2]string, f *found) {
	cat.mu.Lock()
	defer cat.mu.Unlock()
	cat.found.Put(turn, f, 1)
	for cat.found.Len() > maxFound {
		cat.found.Drop()
	}
}
