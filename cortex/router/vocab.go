package router

import (
	"math"
	"slices"
)

// background is how many texts, besides the agents' cards, the rarity of a term is reckoned among: texts about anything, in
// which common words are common. With it, words weigh about the same among three agents as among a thousand.
const background = 20

// posting says how much of a term an agent has.
type posting struct {
	slot   int32
	weight float32
}

// entry is a term in use.
type entry struct {
	hash  uint64
	posts []posting // of cards, in no order
	refs  int32     // texts that have it
	df    int32     // agents that have it on their cards
	prior float32
	kind  kind
}

// vocab numbers the terms in use. What it says of a term depends on the agents that are there, not on those that were.
type vocab struct {
	ids     map[uint64]uint32
	entries []entry
	log     []float32            // of how many texts have the term, by its number
	learned map[uint32][]posting // of evidence
	free    []uint32
}

// intern returns the number of a term and holds it until release.
func (v *vocab) intern(t *term) uint32 {
	id, ok := v.ids[t.hash]
	if !ok {
		e := entry{hash: t.hash, prior: t.prior, kind: t.kind}
		if n := len(v.free); n > 0 {
			id = v.free[n-1]
			v.free = v.free[:n-1]
			v.entries[id] = e
		} else {
			id = uint32(len(v.entries))
			v.entries = append(v.entries, e)
			v.log = append(v.log, 0)
		}
		v.ids[t.hash] = id
		v.log[id] = logTexts(0, t.prior)
	}
	v.entries[id].refs++
	return id
}

// release undoes intern for each of the terms.
func (v *vocab) release(ids []uint32) {
	for _, id := range ids {
		e := &v.entries[id]
		e.refs--
		if e.refs == 0 {
			delete(v.ids, e.hash)
			*e = entry{}
			v.free = append(v.free, id)
		}
	}
}

// post adds an agent to those that have a term on their cards.
func (v *vocab) post(id uint32, slot int32, weight float32) {
	e := &v.entries[id]
	e.posts = append(e.posts, posting{slot, weight})
	e.df++
	v.log[id] = logTexts(e.df, e.prior)
}

// unpost undoes post.
func (v *vocab) unpost(id uint32, slot int32) {
	e := &v.entries[id]
	e.posts = without(e.posts, slot)
	e.df--
	v.log[id] = logTexts(e.df, e.prior)
}

// rarity is how much a term says among agents: the fewer texts have it, the more.
func rarity(logAll float64, logTexts float32) float64 { return logAll - float64(logTexts) }

func logTexts(df int32, prior float32) float32 {
	return float32(math.Log(float64(df) + float64(prior)*background + 1))
}

func logAll(agents int) float64 { return math.Log(float64(agents) + background + 1) }

// without takes a slot's posting out of a list, whose order does not matter.
func without(ps []posting, slot int32) []posting {
	i := slices.IndexFunc(ps, func(p posting) bool { return p.slot == slot })
	if i < 0 {
		return ps
	}
	ps[i] = ps[len(ps)-1]
	return ps[:len(ps)-1]
}
