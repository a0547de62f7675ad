package router

import (
	"cmp"
	"slices"
)

// maxCandidates bounds the agents that are compared in detail; up to half as many more are found by evidence alone.
const maxCandidates = 64

// candidate is an agent that may fit a request.
type candidate struct {
	a    *agent
	late bool // found by evidence alone

	age  float64 // the remaining share of the weight of its evidence
	fits int32   // the skill with the text that is most similar to the request; -1: none
	most float64 // the similarity of that text

	claim float64 // likelihood by the card alone

	signals
	rank  float64 // determines its rank
	score float64
	best  [3]liked
}

// candidates returns the agents that have most in common with a request, the best first, and those that it names.
func (x *Index) candidates(q *query, sc *scratch, keep func(string) bool, named []string) []candidate {
	if n := len(x.slots); len(sc.sums) < n {
		sc.sums = make([]float32, n+n/4)
	}
	left := maxPostings
	for i := range q.terms {
		if t := &q.terms[i]; t.known && left > 0 {
			posts := x.vocab.entries[t.id].posts
			left -= len(posts)
			w := t.rarity
			if t.kind == gram {
				w *= gramWeight
			}
			sc.sum(posts, float32(w))
		}
	}
	cands := x.take(sc, sc.cands[:0], maxCandidates, keep)
	if len(x.vocab.learned) > 0 {
		cands = x.experienced(q, sc, keep, cands)
	}
	for _, id := range named {
		i := slices.IndexFunc(cands, func(c candidate) bool { return c.a.id == id })
		if i < 0 {
			if keep != nil && !keep(id) {
				continue
			}
			i = len(cands)
			cands = append(cands, candidate{a: x.agents[id], late: true})
		}
		cands[i].named = true
	}
	sc.cands = cands
	return cands
}

// experienced appends agents that are not among cands, but have evidence with the request's terms.
func (x *Index) experienced(q *query, sc *scratch, keep func(string) bool, cands []candidate) []candidate {
	left := maxPostings
	for i := range q.terms {
		if t := &q.terms[i]; t.known && t.kind == word && left > 0 {
			posts := x.vocab.learned[t.id]
			left -= len(posts)
			sc.sum(posts, float32(t.rarity))
		}
	}
	n := len(cands)
	cands = x.take(sc, cands, maxCandidates/2, func(id string) bool {
		return (keep == nil || keep(id)) && !slices.ContainsFunc(cands[:n], func(c candidate) bool { return c.a.id == id })
	})
	for i := n; i < len(cands); i++ {
		cands[i].late = true
	}
	return cands
}

// sum adds the weight of a term to each agent that has it.
func (sc *scratch) sum(posts []posting, weight float32) {
	for _, p := range posts {
		if sc.sums[p.slot] == 0 {
			sc.found = append(sc.found, p.slot)
		}
		sc.sums[p.slot] += weight * p.weight
	}
}

// take appends the n agents with the highest sums to cands, the best first, and clears the sums.
func (x *Index) take(sc *scratch, cands []candidate, n int, keep func(string) bool) []candidate {
	top := x.highest(sc, n, nil)
	if keep != nil && slices.ContainsFunc(top, func(f found) bool { return !keep(f.a.id) }) { // usually all are kept, and calling keep takes time
		top = x.highest(sc, n, keep)
	}
	for _, slot := range sc.found {
		sc.sums[slot] = 0
	}
	sc.found = sc.found[:0]
	slices.SortFunc(top, found.compare)
	for _, f := range top {
		cands = append(cands, candidate{a: f.a})
	}
	return cands
}

// highest returns the n agents with the highest sums among those for which keep is true.
func (x *Index) highest(sc *scratch, n int, keep func(string) bool) []found {
	top := sc.top[:0]
	for _, slot := range sc.found {
		sum := sc.sums[slot]
		if len(top) == n && sum < top[0].sum { // true for nearly all
			continue
		}
		if f := (found{x.slots[slot], sum}); keep == nil || keep(f.a.id) {
			top = offer(top, n, f)
		}
	}
	sc.top = top
	return top
}

// found is an agent with rare terms of the request.
type found struct {
	a   *agent
	sum float32
}

// compare orders by decreasing sum, then by id.
func (f found) compare(g found) int {
	if f.sum != g.sum {
		return cmp.Compare(g.sum, f.sum)
	}
	return cmp.Compare(f.a.id, g.a.id)
}
