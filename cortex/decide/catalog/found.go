package catalog

import (
	"hash/maphash"
	"weak"

	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// maxFound bounds the memory of the searches that are kept, in bytes.
const maxFound = 8 << 20

// found is what was searched for a decision of a turn, for its next one: the words are the same, and a search takes longer than all else in a decision
// without a model.
type found struct {
	asked
	hits []router.Hit
}

// asked is what a search depends on. It holds neither the words, which may be a megabyte, nor the agents.
type asked struct {
	words  uint64                     // hash of the message, the one before it, and the unavailable agents
	agents weak.Pointer[prompt.Agent] // the first one; a change of the agents makes another slice
	n      int                        // of agents
}

var foundSeed = maphash.MakeSeed()

func (c *Candidates) asked(user, before string) asked {
	sum := uint64(0)
	add := func(text string) { sum = sum*0x9e3779b97f4a7c15 + maphash.String(foundSeed, text) }
	add(user)
	add(before)
	for _, u := range c.unavailable {
		add(u.ID)
		add(u.Why)
	}
	a := asked{words: sum, n: len(c.agents)}
	if a.n > 0 {
		a.agents = weak.Make(&c.agents[0])
	}
	return a
}

// size estimates the memory of f, in bytes.
func (f *found) size() int {
	n := 512
	for _, h := range f.hits {
		n += 128 + len(h.ID)
		for _, skill := range h.Skills {
			n += 16 + len(skill)
		}
	}
	return n
}

// hitsFor returns the agents that fit t's message best. A message such as "and in Paris?" may fit no agent; then it also searches with the previous
// message, and merges the best of both, unless the message says which agent it is for. It searches once for a turn, as long as the agents are the same: what is learned in the meantime is for other
// turns.
func (c *Candidates) hitsFor(t *llm.Turn) []router.Hit {
	before := ""
	if n := len(t.History); n > 0 {
		before = prompt.CleanText(t.History[n-1].User, followedBytes)
	}
	key, f := [2]string{t.Tenant, t.ID}, &found{asked: c.asked(t.User, before)}
	if hits, ok := c.catalog.kept(key, f.asked); ok {
		return hits
	}
	f.hits = c.hits(t.User, c.limit)
	if before != "" && best(f.hits) < router.Fits && !c.index.Addressed(t.User) {
		if both := c.hits(t.User+"\n"+before, c.limit); best(both) > best(f.hits) {
			f.hits = braid(both, f.hits, c.limit)
		}
	}
	c.catalog.keep(key, f)
	return f.hits
}

// kept returns the hits of an equal search for a turn.
func (cat *Catalog) kept(turn [2]string, now asked) ([]router.Hit, bool) {
	cat.mu.Lock()
	defer cat.mu.Unlock()
	old, ok := cat.found.Get(turn)
	if !ok || old.asked != now {
		return nil, false
	}
	return old.hits, true
}

func (cat *Catalog) keep(turn [2]string, f *found) {
	cat.mu.Lock()
	defer cat.mu.Unlock()
	for cat.found.Put(turn, f, f.size()); cat.found.Size() > maxFound; cat.found.Drop() {
	}
}
