package router

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Evidence is a request that an agent answered well.
type Evidence struct {
	ID    string    `json:"id"`              // of the task: the same evidence counts once
	Skill string    `json:"skill,omitempty"` // of the agent
	Text  string    `json:"text"`            // what was asked
	From  string    `json:"from,omitempty"`  // who asked
	Time  time.Time `json:"time"`
	// Conversation says which conversation it is of, in any way that suits whoever keeps evidence. The Index does not look at it.
	Conversation string `json:"conversation,omitempty"`
}

// MaxEvidence is how many items of evidence an agent has at most.
const MaxEvidence = 512

// Bounds of what is learned.
const (
	maxOfSkill      = 64                  // items of one skill: the newest
	maxItems        = 1 << 20             // of all agents
	maxEvidenceText = 1 << 10             // bytes
	halfLife        = 30 * 24 * time.Hour // after which evidence counts half
)

// Learn sets what is known of an agent from experience, in the place of what was known before; nothing forgets it. The agent
// need not be there. Texts that were among what was known are not read again.
func (x *Index) Learn(id string, evidence []Evidence) {
	items := Newest(evidence, MaxEvidence)
	x.writing.Lock()
	defer x.writing.Unlock()
	before := x.learned[id]
	more := len(items) - len(before)
	if slices.Equal(before, items) || more > 0 && x.items+more > maxItems {
		return
	}
	a := x.agents[id]
	var ls []lesson
	if a != nil {
		ls = x.lessons(a, a.skills, items)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.items += more
	if len(items) == 0 {
		delete(x.learned, id)
	} else {
		x.learned[id] = items
	}
	if a != nil {
		x.hold(ls)
		x.forget(a)
		x.recall(a, ls)
	}
}

// Newest returns what an Index would learn of evidence if an agent could have that many items: the newest first, each but once and
// cut to its bound, at most 64 of a skill. When they are too many, each skill has the same number at most, so that what is asked
// often leaves room for what is asked seldom. The order in which they come does not matter.
func Newest(evidence []Evidence, most int) []Evidence {
	items := slices.Clone(evidence)
	slices.SortStableFunc(items, func(a, b Evidence) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Text, b.Text))
	})
	seen := map[string]bool{}
	items = slices.DeleteFunc(items, func(e Evidence) bool {
		again := e.ID != "" && seen[e.ID]
		seen[e.ID] = true
		return again
	})
	of := map[string]int{}
	for _, e := range items {
		of[e.Skill]++
	}
	each, had := equally(of, most), map[string]int{}
	items = slices.DeleteFunc(items, func(e Evidence) bool {
		had[e.Skill]++
		return had[e.Skill] > each
	})
	items = slices.Clone(items[:min(len(items), most)])
	for i := range items {
		items[i].Text = items[i].Text[:min(len(items[i].Text), maxEvidenceText)]
	}
	return items
}

// equally returns how many items each skill can have, if it has that many, for them to be at most so many together.
func equally(of map[string]int, most int) int {
	for each := maxOfSkill; each > 1; each-- {
		all := 0
		for _, n := range of {
			all += min(n, each)
		}
		if all <= most {
			return each
		}
	}
	return 1
}

// lesson is an item of evidence whose text was read.
type lesson struct {
	of    *Evidence
	item  int32    // its place in what was learned
	skill int32    // of the agent
	fresh []term   // what the text has, in the order of the hashes
	terms []uint32 // the same by their numbers; known before hold when the agent has the text already
}

// lessons reads items of evidence as far as an agent with these skills can use them. It is called with writing held and mu free,
// since reading takes long. What was, which may be nil, is the agent as it is in the index.
func (x *Index) lessons(was *agent, skills []string, items []Evidence) []lesson {
	had := map[string][]uint32{}
	if was != nil {
		before := x.learned[was.id]
		for i := range was.learned {
			t := &was.learned[i]
			had[before[t.item].Text] = t.terms
		}
	}
	var ls []lesson
	for i := range items {
		e := &items[i]
		l := lesson{of: e, item: int32(i), skill: int32(slices.Index(skills, e.Skill))}
		if e.Skill != "" && l.skill < 0 {
			continue
		}
		if l.terms = had[e.Text]; l.terms == nil {
			for _, t := range x.reader.read(e.Text) {
				if t.kind != gram {
					l.fresh = append(l.fresh, t)
				}
			}
			l.fresh = distinct(l.fresh)
		}
		ls = append(ls, l)
	}
	return ls
}

// hold numbers the terms of lessons, and keeps them from being released with what an agent had before.
func (x *Index) hold(ls []lesson) {
	for i := range ls {
		l := &ls[i]
		if l.terms == nil {
			l.terms = x.intern(l.fresh)
			continue
		}
		for _, id := range l.terms {
			x.vocab.entries[id].refs++
		}
	}
}

// recall gives an agent, of which nothing is learned yet, lessons that are held.
func (x *Index) recall(a *agent, ls []lesson) {
	if len(ls) == 0 {
		return
	}
	a.newest = ls[0].of.Time
	a.asked = make([]float64, len(a.skills)+1)
	ages := make([]float64, len(ls))
	askers := map[string]float64{}
	total := 0.0
	for i := range ls {
		e := ls[i].of
		ages[i] = decay(a.newest.Sub(e.Time))
		askers[e.From] += ages[i]
		total += ages[i]
	}
	words := map[uint32]float64{}
	for i := range ls {
		l := &ls[i]
		if len(l.terms) == 0 {
			continue
		}
		w := ages[i]
		if by := askers[l.of.From]; len(askers) > 1 && by > total/4 {
			w *= total / 4 / by // one of several askers has at most a quarter
		}
		for _, id := range l.terms {
			if x.vocab.entries[id].kind == word {
				words[id] += w
			}
		}
		a.learned = append(a.learned, text{terms: l.terms, item: l.item, skill: l.skill, from: evidence, weight: float32(w)})
		a.asked[l.skill+1] += w
		a.weight += w
	}
	for id, n := range words {
		x.vocab.learned[id] = append(x.vocab.learned[id], posting{a.slot, float32(n / (n + saturation))})
		a.words = append(a.words, id)
	}
}

// forget takes from an agent what was learned of it.
func (x *Index) forget(a *agent) {
	for _, id := range a.words {
		if ps := without(x.vocab.learned[id], a.slot); len(ps) > 0 {
			x.vocab.learned[id] = ps
		} else {
			delete(x.vocab.learned, id)
		}
	}
	for i := range a.learned {
		x.vocab.release(a.learned[i].terms)
	}
	a.words, a.learned, a.asked, a.weight = nil, nil, nil, 0
}

// decay returns how much of its weight evidence of some age has left.
func decay(age time.Duration) float64 { return math.Exp2(-max(0, float64(age)/float64(halfLife))) }
