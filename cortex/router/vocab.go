package router

import (
	"math"
	"slices"
)

// background is a number of texts that are added to the agents' cards when computing the rarity of a term: texts on any subject, in which common
// words are common. So words weigh about the same among three agents as among a thousand.
const background = 20

// posting is the weight of a term for an agent.
type posting struct {
	slot   int32
	weight float32
}

// entry is a term in use.
type entry struct {
	hash  uint64
	posts []posting // of cards, unordered
	refs  int32     // texts that contain it
	df    int32     // agents whose cards contain it
	prior float32
	kind  kind
}

// vocab assigns numbers to the terms in use. Its statistics depend on the present agents only, not on earlier ones.
type vocab struct {
	ids     map[uint64]uint32
	entries []entry
	log     []float32            // logarithm of how many texts contain the term, by its number
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

// post adds a posting of a term for an agent's card.
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

// rarity returns the significance of a term: the fewer texts contain it, the higher.
func rarity(logAll float64, logTexts float32) float64 { return logAll - float64(logTexts) }

func logTexts(df int32, prior float32) float32 {
	return float32(math.Log(float64(df) + float64(prior)*background + 1))
}

func logAll(agents int) float64 { return math.Log(float64(agents) + background + 1) }

// without removes a slot's posting from an unordered list.
func without(ps []posting, slot int32) []posting {
	i := slices.IndexFunc(ps, func(p posting) bool { return p.slot == slot })
	if i < 0 {
		return ps
	}
	ps[i] = ps[len(ps)-1]
	return ps[:len(ps)-1]
}
