package catalog

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Bounds of shortlists. For any number and size of cards, a prompt's instructions, list of agents and changes to it are less than 24 KiB together,
// including the results of searches.
const (
	defaultShortlist = 20
	maxShortlist     = 40
	maxInUse         = 10
	maxNamed         = 10
	excerptBytes     = 600      // of an agent in a prompt
	choiceBytes      = 10 << 10 // of all agents of one choice
	listingBytes     = 14 << 10 // of the list and its changes; with more, the list starts over
	followedBytes    = 2 << 10  // of the previous message, where it helps to understand this one
)

// Reasons why an agent is on a shortlist.
const (
	reasonFits  = "fits"
	reasonClose = "close"
	reasonNamed = "named"
	reasonInUse = "in use"
)

// Candidates are the agents that a turn may give work to, and from which a shortlist can be chosen. The functions that deciders call are safe for
// concurrent use.
type Candidates struct {
	index   *router.Index
	agents  []prompt.Agent                // sorted by id
	busy    map[string]prompt.Unavailable // not among agents
	limit   int                           // of agents shown because they fit
	catalog *Catalog

	unavailable []prompt.Unavailable
	chosen      *shortlist // for the turn that the candidates are made for; used only by choose
}

// Candidates returns candidates from agents, which are sorted by id and can be given work, and from unavailable ones. limit bounds the agents that a
// prompt shows because they fit; 0 stands for 20.
func (cat *Catalog) Candidates(index *router.Index, agents []prompt.Agent, unavailable []prompt.Unavailable, limit int) *Candidates {
	c := &Candidates{index: index, agents: agents, limit: min(cmp.Or(max(limit, 0), defaultShortlist), maxShortlist), catalog: cat, unavailable: unavailable}
	if len(unavailable) > 0 {
		c.busy = make(map[string]prompt.Unavailable, len(unavailable))
		for _, u := range unavailable {
			c.busy[u.ID] = u
		}
	}
	return c
}

// Are reports whether the candidates are these agents.
func (c *Candidates) Are(agents []prompt.Agent, unavailable []prompt.Unavailable) bool {
	return slices.Equal(c.unavailable, unavailable) && Same(c.agents, agents)
}

// find returns a candidate that can be given work.
func (c *Candidates) find(id string) (prompt.Agent, bool) { return Find(c.agents, id) }

// hits returns the agents that fit text best, including unavailable ones.
func (c *Candidates) hits(text string, limit int) []router.Hit {
	return c.index.Search(text, &router.SearchOptions{Limit: limit, Keep: func(id string) bool {
		if _, busy := c.busy[id]; busy {
			return true
		}
		_, ok := c.find(id)
		return ok
	}})
}

// shortlist is a shortlist in preparation.
type shortlist struct {
	*Candidates
	list   []conversation.Shortlisted // in order of priority when there is no room for all
	skills map[string][]string
	busy   []prompt.Unavailable // unavailable agents that would be on the list
}

// choose returns the shortlist for t: the agents that the user named, those in use, and those that fit best.
func (c *Candidates) choose(t *llm.Turn) *shortlist {
	if c.chosen != nil {
		return c.chosen
	}
	s := &shortlist{Candidates: c, skills: map[string][]string{}}
	c.chosen = s
	hits := c.hitsFor(t)
	scores := map[string]router.Hit{}
	for _, h := range hits {
		scores[h.ID] = h
	}
	for _, id := range first(maxNamed, c.index.Named(t.User)) {
		s.add(scores, id, reasonNamed)
	}
	for _, id := range inUse(t) {
		s.add(scores, id, reasonInUse)
	}
	for _, h := range hits {
		if h.Score >= router.Fits {
			s.add(scores, h.ID, reasonFits)
		} else {
			s.add(scores, h.ID, reasonClose)
		}
	}
	return s
}

func (s *shortlist) add(hits map[string]router.Hit, id, reason string) {
	if u, busy := s.Candidates.busy[id]; busy {
		if !slices.Contains(s.busy, u) {
			s.busy = append(s.busy, u)
		}
		return
	}
	if _, ok := s.find(id); !ok || slices.ContainsFunc(s.list, func(c conversation.Shortlisted) bool { return c.ID == id }) {
		return
	}
	h := hits[id]
	c := conversation.Shortlisted{ID: id, Score: score(h.Score), Reason: reason}
	if len(h.Skills) > 0 {
		c.Skill = prompt.Clean(h.Skills[0], conversation.MaxTitle)
		s.skills[id] = h.Skills
	}
	s.list = append(s.list, c)
}

// logged returns the shortlist for the log, the best first.
func (s *shortlist) logged() []conversation.Shortlisted {
	list := slices.Clone(s.list)
	slices.SortStableFunc(list, func(a, b conversation.Shortlisted) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.ID, b.ID))
	})
	return list
}

// excerpts returns the listing of the shortlist, sorted by id, without agents for which there is no room.
func (s *shortlist) excerpts() []prompt.Agent {
	list := []prompt.Agent{}
	room := choiceBytes
	for _, c := range s.list {
		a, _ := s.find(c.ID)
		e := s.excerpt(a)
		if room -= prompt.Size(&e); room >= 0 {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b prompt.Agent) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// excerpt returns what a prompt shows of a.
func (s *shortlist) excerpt(a prompt.Agent) prompt.Agent {
	a.Of = s.catalog.digest(&a)
	return prompt.Excerpt(a, s.skills[a.ID], min(excerptBytes, choiceBytes/max(1, len(s.list))))
}

// search finds agents for a decider: those that words name, and those that fit.
func (c *Candidates) search(words string) []llm.Found {
	var found []llm.Found
	add := func(h router.Hit) {
		if a, ok := c.find(h.ID); ok && !slices.ContainsFunc(found, func(f llm.Found) bool { return f.ID == h.ID }) {
			a.Of = c.catalog.digest(&a)
			found = append(found, llm.Found{Agent: a, Score: score(h.Score), Fits: h.Score >= router.Fits, Skills: h.Skills})
		}
	}
	for _, id := range first(maxNamed, c.index.Named(words)) {
		add(router.Hit{ID: id, Score: 1})
	}
	for _, h := range c.hits(words, defaultShortlist) {
		add(h)
	}
	return first(defaultShortlist, found)
}

// inUse returns the agents that t's conversation involves, the most important first, at most maxInUse.
func inUse(t *llm.Turn) []string {
	var ids []string
	add := func(tasks []prompt.Task) {
		for i := range tasks {
			if id := tasks[i].Agent; len(ids) < maxInUse && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	steps := func(all []prompt.Step) {
		for i := range all {
			add(all[len(all)-1-i].Tasks)
		}
	}
	add(t.Waiting[max(0, len(t.Waiting)-maxInUse):])
	steps(t.Steps)
	for i := len(t.History) - 1; i >= 0 && len(ids) < maxInUse; i-- {
		steps(t.History[i].Steps)
	}
	return ids
}

// best returns the score of the first hit.
func best(hits []router.Hit) float64 {
	if len(hits) == 0 {
		return 0
	}
	return hits[0].Score
}

// braid merges hits of a and b alternately, each agent once.
func braid(a, b []router.Hit, limit int) []router.Hit {
	var out []router.Hit
	for i := 0; i < max(len(a), len(b)); i++ {
		for _, from := range [][]router.Hit{a, b} {
			if i < len(from) && len(out) < limit && !slices.ContainsFunc(out, func(h router.Hit) bool { return h.ID == from[i].ID }) {
				out = append(out, from[i])
			}
		}
	}
	return out
}

// score returns a score for the log: JSON has no NaN.
func score(s float64) float64 {
	if !(s > 0) {
		return 0
	}
	return math.Round(min(s, 1)*1000) / 1000
}

func first[T any](n int, all []T) []T { return all[:min(n, len(all))] }
