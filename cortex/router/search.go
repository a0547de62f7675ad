package router

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// SearchOptions are the options of a search.
type SearchOptions struct {
	Limit int                  // maximum number of hits; 0 is 20
	Keep  func(id string) bool // reports whether to consider an agent; nil considers all. It must not call the Index
}

// Hit is an agent that may fit a request.
type Hit struct {
	ID    string
	Score float64 // the likelihood that the agent fits, from 0 to 1; see Fits
	// Skills are the ids of the agent's skills that fit best, the best first, at most 3; a skill without an id is given by its name.
	Skills []string
}

const usualLimit = 20

// scratch is memory that searches reuse. Its tables are zero between searches.
type scratch struct {
	reader  *reader
	sums    []float32 // by slot
	found   []int32   // slots with a sum
	top     []found
	cands   []candidate
	want    []float32 // rarity of the request's terms, by their numbers
	bonus   []float32 // their BM25 weights
	column  []int32   // of the system, by term, counted from 1
	rows    []row     // of cards
	learned []row     // of evidence, and of the cards of agents that were found by evidence
	system  system
}

// Search returns the agents that fit text best, the best first, equal ones ordered by id. The result depends only on the agents, the evidence and
// text, not on the order in which agents were added. o may be nil.
func (x *Index) Search(text string, o *SearchOptions) []Hit {
	o = cmp.Or(o, &SearchOptions{})
	sc := x.pool.Get().(*scratch)
	defer x.pool.Put(sc)
	now := x.now()
	x.mu.RLock()
	defer x.mu.RUnlock()
	q := x.query(sc.reader, text)
	cands := x.candidates(q, sc, o.Keep, x.addressed(text))
	x.compare(q, cands, sc, now)
	x.solve(cands, sc)
	compensateExamples(cands)
	compensateEvidence(cands)
	x.rank(q, cands)
	hits := make([]Hit, min(len(cands), cmp.Or(max(0, o.Limit), usualLimit)))
	for i := range hits {
		c := &cands[i]
		hits[i] = Hit{ID: c.a.id, Score: c.score, Skills: c.skills()}
	}
	clear(sc.cands)
	clear(sc.top)
	clear(sc.rows[:cap(sc.rows)])
	clear(sc.learned)
	return hits
}

// rank scores the candidates and sorts them, the best first. The scores do not increase.
func (x *Index) rank(q *query, cands []candidate) {
	all := logAll(len(x.agents))
	for i := range cands {
		c := &cands[i]
		c.rank = round(c.sum(c.gained))
	}
	slices.SortFunc(cands, func(a, b candidate) int {
		switch {
		case a.named != b.named && a.named:
			return -1
		case a.named != b.named:
			return 1
		}
		return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.a.id, b.a.id))
	})
	least, fits := 0.0, bar(ratio(q.words, all), all)
	for i := len(cands) - 1; i >= 0; i-- {
		c := &cands[i]
		least = max(least, c.signals.score(c.sum(c.sure)-fits))
		c.score = least
	}
}

// compare measures the similarity of the request and each candidate.
func (x *Index) compare(q *query, cands []candidate, sc *scratch, now time.Time) {
	if n := len(x.vocab.entries); len(sc.want) < n {
		sc.want, sc.bonus, sc.column = make([]float32, n+n/4), make([]float32, n+n/4), make([]int32, n+n/4)
	}
	for i := range q.terms {
		if t := &q.terms[i]; t.known {
			sc.want[t.id] = float32(t.rarity)
			sc.bonus[t.id] = float32(t.rarity * t.kind.bonus())
		}
	}
	all := logAll(len(x.agents))
	length := math.Sqrt(q.length + unsaidLength*all*all)
	sc.rows, sc.learned = sc.rows[:0], sc.learned[:0]
	for i := range cands {
		c := &cands[i]
		var dot, norm, bm float64
		for j, id := range c.a.terms {
			have := float64(c.a.termWeights[j])
			w := rarity(all, x.vocab.log[id]) * have
			norm += w * w
			if v := sc.want[id]; v != 0 {
				dot += w * float64(v)
				bm += have * float64(sc.bonus[id])
			}
		}
		for j, id := range c.a.grams {
			if v := sc.bonus[id]; v != 0 {
				bm += float64(c.a.gramWeights[j]) * float64(v)
			}
		}
		c.whole = ratio(dot, math.Sqrt(norm)*length)
		c.bm = ratio(bm, q.best+unsaid*all)
		c.name = x.titled(c.a, sc, all)
		c.age, c.fits = decay(now.Sub(c.a.newest)), -1
		for j := range len(c.a.texts) + len(c.a.learned) {
			t := c.a.text(j)
			dot, norm := 0.0, 0.0
			for _, id := range t.terms {
				w := rarity(all, x.vocab.log[id])
				norm += w * w
				dot += w * float64(sc.want[id])
			}
			if dot > 0 {
				norm = math.Sqrt(norm)
				r := row{cand: int32(i), nr: int32(j), text: t, alike: dot / (norm * length), norm: norm, trust: c.trust(t)}
				c.like(t, r.alike)
				switch {
				case r.trust < leastTrust:
				case t.from == evidence || c.late:
					sc.learned = offer(sc.learned, maxRows, r)
				default:
					sc.rows = offer(sc.rows, maxRows, r)
				}
			}
		}
	}
	for i := range q.terms {
		if t := &q.terms[i]; t.known {
			sc.want[t.id], sc.bonus[t.id] = 0, 0
		}
	}
}

// titled returns how much of the agent's name, or of a skill's, the request contains, whichever is most. It is less than 1, and lower for names of
// one word.
func (x *Index) titled(a *agent, sc *scratch, all float64) float64 {
	most := 0.0
	for _, t := range a.titles {
		has, of := 0.0, unsaid*all
		for _, id := range t {
			w := rarity(all, x.vocab.log[id])
			of += w
			if sc.want[id] != 0 {
				has += w
			}
		}
		most = max(most, has/of)
	}
	return most
}

// like records the similarity of the request to one of the agent's texts.
func (c *candidate) like(t *text, alike float64) {
	if t.from != evidence && t.skill >= 0 && alike > c.most {
		c.fits, c.most = t.skill, alike
	}
	switch t.from {
	case about:
		c.about = max(c.about, alike)
	case example:
		c.example = max(c.example, alike)
	}
	if t.skill < 0 {
		return
	}
	l := liked{t.skill, alike}
	for i := range c.best {
		b := &c.best[i]
		if b.skill == t.skill && b.alike >= l.alike {
			return
		}
		if l.alike > b.alike {
			l, *b = *b, l
			if l.skill == t.skill {
				return
			}
		}
	}
}

// liked is a skill with the similarity of its best text to the request.
type liked struct {
	skill int32
	alike float64
}

// skills returns the ids of the skills with the texts most similar to the request.
func (c *candidate) skills() []string {
	var ids []string
	for _, s := range c.best {
		if s.alike > 0 {
			ids = append(ids, c.a.skills[s.skill])
		}
	}
	return ids
}

// text returns the text with index j: first those of the card, then those of evidence.
func (a *agent) text(j int) *text {
	if j < len(a.texts) {
		return &a.texts[j]
	}
	return &a.learned[j-len(a.texts)]
}

func ratio(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
}

// compensateExamples compensates for missing examples on an agent's card when other candidates have some: the agent is treated as if it had one as similar to the
// request as its description suggests, but at most as similar as the best of the others.
func compensateExamples(cands []candidate) {
	best := 0.0
	for i := range cands {
		if !cands[i].late {
			best = max(best, cands[i].example)
		}
	}
	for i := range cands {
		c := &cands[i]
		if !slices.ContainsFunc(c.a.texts, func(t text) bool { return t.from == example }) {
			c.lent = min(best, 2*c.about)
		}
	}
}

// compensateEvidence compensates for missing evidence of an agent when other candidates have some: requests that it never got must not count against it. It is
// treated as if it gained what an agent that fits gains, times its likelihood by the cards alone, but at most as much as the best of the others; the
// more evidence the skill in question has, the less.
func compensateEvidence(cands []candidate) {
	most, all := 0.0, 0.0
	for i := range cands {
		most = max(most, cands[i].gained)
	}
	if most == 0 {
		return
	}
	for i := range cands {
		c := &cands[i]
		c.claim = math.Exp(sharpness * c.sum(0))
		all += c.claim
	}
	for i := range cands {
		c := &cands[i]
		unknown := 1 - trust(c.a.experience(c.fits, c.age))
		c.gained = min(most, c.gained+usualGain*c.claim/all*unknown)
	}
}
