package router

import (
	"cmp"
	"math"
	"slices"
)

// How much the texts are trusted to distinguish agents: more noise is less trust. See README.md.
const (
	noise         = 0.3 // of an example
	aboutNoise    = 0.6 // of a name with its description, which say what an agent does, not how users ask for it
	gain          = 3.0 // factor for what evidence adds: as if the card said it, which would raise the other signals as well
	firstEvidence = 4.0 // items of evidence that are trusted half as much as an example
	leastTrust    = 0.002

	// Among many requests some are similar by chance: what evidence adds counts only above this, times the logarithm of their number; for ranking, and
	// for saying that an agent fits.
	rankChance = 0.01
	chance     = 0.06

	maxRows = 160
	rounds  = 8 // of conjugate gradients; more have no visible effect
)

// row is a text of a candidate.
type row struct {
	cand  int32 // index of the candidate
	nr    int32 // of the text
	text  *text
	alike float64 // cosine of text and request
	norm  float64
	trust float64
}

// compare orders by decreasing similarity.
func (r row) compare(s row) int {
	switch {
	case r.alike != s.alike:
		return cmp.Compare(s.alike, r.alike)
	case r.cand != s.cand:
		return cmp.Compare(r.cand, s.cand)
	}
	return cmp.Compare(r.nr, s.nr)
}

// system is a ridge regression over the texts: (X Xᵀ + N) b = X q, where X has the texts as rows of length one, N the noise, and q the request. The
// sum of b over an agent's texts is the result of a linear classifier trained on all the texts; it is computed without training, from the agents
// present.
type system struct {
	starts     []int32
	columns    []int32
	values     []float32
	noise, rhs []float64
	cands      []int32
	width      int32

	b, r, p, ap, u []float64
}

// solve makes the candidates' texts compete for the request: once with their cards alone, and once with evidence. An agent gets the better result of
// both, so that evidence of one agent never reduces the score of another.
func (x *Index) solve(cands []candidate, sc *scratch) {
	slices.SortFunc(sc.rows, row.compare)
	x.gather(sc)
	for i, b := range sc.system.solve() {
		cands[sc.system.cands[i]].won += b
	}
	if len(sc.learned) == 0 {
		return
	}
	sc.rows = append(sc.rows, sc.learned...)
	slices.SortFunc(sc.rows, row.compare)
	sc.rows = sc.rows[:min(len(sc.rows), maxRows)]
	x.gather(sc)
	var won [maxCandidates + maxCandidates/2 + maxNamed]float64
	for i, b := range sc.system.solve() {
		won[sc.system.cands[i]] += b
	}
	for i := range cands {
		c := &cands[i]
		gained := max(0, won[i]-c.won)
		many := math.Log1p(c.a.experience(-1, c.age))
		c.gained, c.sure = max(0, gained-rankChance*many), max(0, gained-chance*many)
	}
}

// experience returns the weight of an agent's evidence, or of that for the skill with this index.
func (a *agent) experience(skill int32, age float64) float64 {
	switch {
	case a.weight == 0:
		return 0
	case skill < 0:
		return a.weight * age
	}
	return (a.asked[skill+1] + a.asked[0]) * age
}

// trust returns the inverse of the noise of one of the agent's texts.
func (c *candidate) trust(t *text) float64 {
	switch t.from {
	case about:
		return 1 / aboutNoise
	case example:
		return 1 / noise
	}
	return 1 / noise * float64(t.weight) * c.age * trust(c.a.experience(t.skill, c.age))
}

// trust converts the weight of evidence to trust, which approaches 1 as evidence grows.
func trust(experience float64) float64 { return experience / (experience + firstEvidence) }

// gather builds the system for sc.rows.
func (x *Index) gather(sc *scratch) {
	s := &sc.system
	s.starts, s.columns, s.values = append(s.starts[:0], 0), s.columns[:0], s.values[:0]
	s.noise, s.rhs, s.cands, s.width = s.noise[:0], s.rhs[:0], s.cands[:0], 0
	all := logAll(len(x.agents))
	for i := range sc.rows {
		r := &sc.rows[i]
		for _, id := range r.text.terms {
			if sc.column[id] == 0 {
				s.width++
				sc.column[id] = s.width
			}
			s.columns = append(s.columns, sc.column[id]-1)
			s.values = append(s.values, float32(rarity(all, x.vocab.log[id])/r.norm))
		}
		s.starts = append(s.starts, int32(len(s.columns)))
		s.noise = append(s.noise, 1/r.trust)
		s.rhs = append(s.rhs, r.alike)
		s.cands = append(s.cands, r.cand)
	}
	for i := range sc.rows {
		for _, id := range sc.rows[i].text.terms {
			sc.column[id] = 0
		}
	}
}

// solve returns b, computed by conjugate gradients.
func (s *system) solve() []float64 {
	n := len(s.rhs)
	for _, v := range []*[]float64{&s.b, &s.r, &s.p, &s.ap} {
		*v = append((*v)[:0], s.rhs...)
	}
	clear(s.b)
	s.u = slices.Grow(s.u[:0], int(s.width))[:s.width]
	rr := dot(s.r, s.r)
	for range rounds {
		if rr < 1e-9 {
			break
		}
		s.multiply()
		alpha := rr / dot(s.p, s.ap)
		for i := range n {
			s.b[i] += alpha * s.p[i]
			s.r[i] -= alpha * s.ap[i]
		}
		next := dot(s.r, s.r)
		for i := range n {
			s.p[i] = s.r[i] + next/rr*s.p[i]
		}
		rr = next
	}
	return s.b
}

// multiply sets ap to (X Xᵀ + N) p.
func (s *system) multiply() {
	clear(s.u)
	for i, p := range s.p {
		for j := s.starts[i]; j < s.starts[i+1]; j++ {
			s.u[s.columns[j]] += p * float64(s.values[j])
		}
	}
	for i, p := range s.p {
		sum := s.noise[i] * p
		for j := s.starts[i]; j < s.starts[i+1]; j++ {
			sum += s.u[s.columns[j]] * float64(s.values[j])
		}
		s.ap[i] = sum
	}
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
