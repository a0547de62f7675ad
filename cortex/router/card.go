package router

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// Bounds of a card; what exceeds them is ignored.
const (
	maxFeatures = 8000 // terms of all texts
	maxSkills   = 256
	maxTags     = 64   // of a skill
	maxExamples = 64   // of a skill
	maxName     = 1024 // bytes
)

// Weights of words by their place, and parameters of BM25.
const (
	nameWeight = 4.5
	cardWeight = 1.5 // descriptions, skills' names, tags
	textWeight = 1   // examples

	saturation   = 2.5 // higher values give repeated words more weight
	lengthWeight = 0.8 // how much a long card reduces the weight of its words
	usualLength  = 40  // weighted words of a card; constant, so that cards do not affect each other's scores
)

// source is the place of a text.
type source uint8

const (
	about    source = iota // the agent's name and description; a skill's name, description and tags
	example                // a skill's example
	evidence               // a request that the agent answered well
)

// text is a text of a card or of evidence: its distinct words and pairs, ordered by their hashes.
type text struct {
	terms  []uint32
	skill  int32 // -1 for the agent's own
	from   source
	weight float32 // of evidence
	item   int32   // of evidence: its index in the agent's evidence
}

// agent is the index's data about an agent.
type agent struct {
	id     string
	print  uint64 // fingerprint of its card
	slot   int32
	skills []string
	texts  []text
	titles []title
	room   int // how many terms its card may have, and how many of them are left
	left   int
	// All words and pairs of the card, then all parts of words, each ordered by their hashes, with their weights.
	terms, grams             []uint32
	termWeights, gramWeights []float32

	learned []text    // evidence
	newest  time.Time // the time of the latest evidence
	asked   []float64 // the weight of the evidence at newest, by skill; evidence without a skill comes first
	weight  float64   // the sum of asked
	words   []uint32  // with postings in vocab.learned
}

// card is a parsed card.
type card struct {
	skills []string
	texts  []cardText
	titles [][]term
	all    []counted // ordered by their hashes
	length float64   // sum of the weights of significant words
	left   int
}

type cardText struct {
	terms []term
	skill int32
	from  source
}

// title has the words of a name of an agent or a skill.
type title []uint32

type counted struct {
	term
	n float64
}

type part struct {
	text   string
	weight float64
}

// readCard parses a card, up to so many terms.
func readCard(r *reader, from *a2a.AgentCard, room int) *card {
	c := &card{left: room}
	if from == nil {
		return c
	}
	c.add(r, about, -1, part{spread(from.Name), nameWeight}, part{from.Description, cardWeight})
	c.title(r, from.Name)
	skills := from.Skills[:min(len(from.Skills), maxSkills)]
	for i := range skills {
		s := &skills[i]
		c.skills = append(c.skills, cmp.Or(s.ID, s.Name))
		name, nameOf, descriptionOf := cmp.Or(s.Name, s.ID), cardWeight, cardWeight
		if len(skills) == 1 { // repeated text counts once
			if s.Name == from.Name {
				nameOf = 0
			}
			if s.Description == from.Description {
				descriptionOf = 0
			}
		}
		tags := strings.Join(s.Tags[:min(len(s.Tags), maxTags)], ". ")
		c.title(r, name)
		c.add(r, about, int32(i), part{spread(name), nameOf}, part{s.Description, descriptionOf}, part{tags, cardWeight})
	}
	for j, some := 0, true; some && j < maxExamples; j++ {
		some = false
		for i := range skills {
			if examples := skills[i].Examples; j < len(examples) {
				some = true
				c.add(r, example, int32(i), part{examples[j], textWeight})
			}
		}
	}
	slices.SortFunc(c.all, func(a, b counted) int { return cmp.Compare(a.hash, b.hash) })
	n := 0
	for _, t := range c.all {
		if n > 0 && c.all[n-1].hash == t.hash {
			c.all[n-1].n += t.n
			continue
		}
		c.all[n] = t
		n++
	}
	c.all = c.all[:n]
	return c
}

// add parses a text of the card, which may have several parts.
func (c *card) add(r *reader, from source, skill int32, parts ...part) {
	var terms []term
	for _, p := range parts {
		for _, t := range r.read(p.text) {
			if c.left == 0 {
				break
			}
			c.left--
			if p.weight > 0 {
				c.all = append(c.all, counted{t, p.weight * float64(t.count)})
			}
			if t.kind == word && t.prior < commonPrior {
				c.length += p.weight * float64(t.count)
			}
			if t.kind != gram {
				terms = append(terms, t)
			}
		}
	}
	if len(terms) > 0 {
		c.texts = append(c.texts, cardText{distinct(terms), skill, from})
	}
}

// title parses a name separately, to measure how much of it a request contains.
func (c *card) title(r *reader, name string) {
	var words []term
	for _, t := range r.read(humps(unnumbered(name))) {
		if t.kind == word && c.left > 0 {
			c.left--
			words = append(words, t)
		}
	}
	if len(words) > 0 {
		c.titles = append(c.titles, distinct(words))
	}
}

// distinct sorts terms by their hashes and removes duplicates.
func distinct(ts []term) []term {
	slices.SortFunc(ts, func(a, b term) int { return cmp.Compare(a.hash, b.hash) })
	return slices.CompactFunc(ts, func(a, b term) bool { return a.hash == b.hash })
}

// fill adds a card's terms to the index.
func (x *Index) fill(a *agent, c *card) {
	for _, t := range c.texts {
		a.texts = append(a.texts, text{terms: x.intern(t.terms), skill: t.skill, from: t.from})
	}
	for _, t := range c.titles {
		a.titles = append(a.titles, x.intern(t))
	}
	grams := 0
	for i := range c.all {
		if c.all[i].kind == gram {
			grams++
		}
	}
	a.terms, a.termWeights = make([]uint32, 0, len(c.all)-grams), make([]float32, 0, len(c.all)-grams)
	a.grams, a.gramWeights = make([]uint32, 0, grams), make([]float32, 0, grams)
	dilution := saturation * (1 - lengthWeight + lengthWeight*c.length/usualLength)
	for i := range c.all {
		t := &c.all[i]
		id := x.vocab.intern(&t.term)
		w := float32(t.n / (t.n + dilution))
		x.vocab.post(id, a.slot, w)
		if t.kind == gram {
			a.grams, a.gramWeights = append(a.grams, id), append(a.gramWeights, w)
		} else {
			a.terms, a.termWeights = append(a.terms, id), append(a.termWeights, w)
		}
	}
}

// empty undoes fill.
func (x *Index) empty(a *agent) {
	for _, ids := range [][]uint32{a.terms, a.grams} {
		for _, id := range ids {
			x.vocab.unpost(id, a.slot)
		}
		x.vocab.release(ids)
	}
	for _, t := range a.titles {
		x.vocab.release(t)
	}
	for i := range a.texts {
		x.vocab.release(a.texts[i].terms)
	}
}

func (x *Index) intern(ts []term) []uint32 {
	ids := make([]uint32, len(ts))
	for i := range ts {
		ids[i] = x.vocab.intern(&ts[i])
	}
	return ids
}

// spread splits the words of a name such as getWeather, and puts the unchanged name before them.
func spread(s string) string {
	s = unnumbered(s[:min(len(s), maxName)])
	if h := humps(s); len(h) > len(s) {
		return s + ". " + h
	}
	return s
}

// unnumbered removes numbers from a name such as "weather-2", which a request with that number does not mean. Digits within words stay.
func unnumbered(s string) string {
	inWord := false
	return strings.Map(func(c rune) rune {
		if unicode.IsDigit(c) && !inWord {
			return ' '
		}
		inWord = unicode.IsLetter(c) || (inWord && unicode.IsDigit(c))
		return c
	}, s[:min(len(s), maxName)])
}

// humps puts a space before each capital that follows a lower-case letter.
func humps(s string) string {
	var b strings.Builder
	low := false
	for _, c := range s[:min(len(s), maxName)] {
		if low && unicode.IsUpper(c) {
			b.WriteByte(' ')
		}
		low = unicode.IsLower(c)
		b.WriteRune(c)
	}
	return b.String()
}
