package router

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Evidence is a request that an agent answered well.
type Evidence struct {
	ID    string    `json:"id"`              // of the task; evidence with equal ids counts once
	Skill string    `json:"skill,omitempty"` // of the agent
	Text  string    `json:"text"`            // the request
	From  string    `json:"from,omitempty"`  // the user
	Time  time.Time `json:"time"`
	// Conversation identifies the conversation, in a form that the caller chooses. The Index ignores it.
	Conversation string `json:"conversation,omitempty"`
}

// MaxEvidence is the maximum number of items of evidence of an agent.
const MaxEvidence = 512

// Bounds of evidence.
const (
	maxOfSkill      = 64                  // items of one skill: the latest
	maxItems        = 1 << 20             // of all agents
	maxEvidenceText = 1 << 10             // bytes
	halfLife        = 30 * 24 * time.Hour // after which evidence has half its weight
)

// Learn replaces the evidence of an agent; no evidence removes it. The agent need not be in the index. Texts that the agent had already are not
// parsed again. It reports whether there was room for all of it; otherwise the newest is used.
func (x *Index) Learn(id string, evidence []Evidence) (whole bool) {
	items := Newest(evidence, MaxEvidence)
	x.writing.Lock()
	defer x.writing.Unlock()
	before := x.learned[id]
	room := max(x.maxItems-x.items+len(before), 0)
	whole = len(items) <= room
	items = items[:min(len(items), room)]
	more := len(items) - len(before)
	if slices.Equal(before, items) {
		return whole
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
	return whole
}

// Newest returns the evidence that an Index would use if an agent could have at most most items: the newest first, without duplicates, with shortened
// texts, and at most 64 of a skill. When there are too many, all skills get the same limit, so that frequent requests leave room for rare ones. The
// order of the argument does not matter.
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

// equally returns the largest limit per skill for which all skills together have at most most items.
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

// lesson is a parsed item of evidence.
type lesson struct {
	of    *Evidence
	item  int32    // its index in the agent's evidence
	skill int32    // of the agent
	fresh []term   // its terms, ordered by their hashes
	terms []uint32 // the numbers of fresh; set before hold when the agent has the text already
}

// lessons parses items of evidence, as far as an agent with these skills can use them. It is called with writing held and mu free, since parsing
// takes long. was is the agent in the index; it may be nil.
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

// hold assigns numbers to the terms of lessons, and prevents their release with the agent's previous evidence.
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

// recall adds lessons, whose terms are held, to an agent without evidence.
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
			w *= total / 4 / by // of several users, one has at most a quarter of the weight
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

// forget removes an agent's evidence.
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

// decay returns the remaining share of the weight of evidence of this age.
func decay(age time.Duration) float64 { return math.Exp2(-max(0, float64(age)/float64(halfLife))) }
