package router

import (
	"cmp"
	"slices"
)

// wanted is a term of a request.
type wanted struct {
	id     uint32
	known  bool // some text of the index contains it
	kind   kind
	hash   uint64
	rarity float64
}

// query is a request as its terms, the rarest first.
type query struct {
	terms  []wanted
	words  float64 // sum of the rarity of all words
	best   float64 // the best possible BM25 score of a card
	length float64 // of the vector of words and pairs
}

// maxPostings bounds the postings that are read to find candidates: terms that many agents have select none.
const maxPostings = 40_000

// gramWeight is the weight of a part of a word relative to the whole.
const gramWeight = 0.7

// bonus is the weight of a kind of term in BM25. Pairs of words count only in the cosines, parts of words only in BM25.
func (k kind) bonus() float64 {
	switch k {
	case word:
		return 1
	case gram:
		return gramWeight
	}
	return 0
}

// query parses a request.
func (x *Index) query(r *reader, text string) *query {
	q := &query{}
	all := logAll(len(x.agents))
	for _, t := range r.read(text) {
		w := wanted{hash: t.hash, kind: t.kind}
		w.id, w.known = x.vocab.ids[t.hash]
		if w.known {
			w.rarity = rarity(all, x.vocab.log[w.id])
		} else {
			w.rarity = rarity(all, logTexts(0, t.prior))
		}
		q.terms = append(q.terms, w)
	}
	slices.SortFunc(q.terms, func(a, b wanted) int {
		return cmp.Or(cmp.Compare(b.rarity, a.rarity), cmp.Compare(a.hash, b.hash))
	})
	for i := range q.terms {
		t := &q.terms[i]
		q.best += t.rarity * t.kind.bonus()
		if t.kind == word {
			q.words += t.rarity
		}
		if t.kind != gram {
			q.length += t.rarity * t.rarity
		}
	}
	return q
}
