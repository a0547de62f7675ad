package router

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// Bounds of a card: what exceeds them is not looked at.
const (
	maxFeatures = 8000 // terms of all texts
	maxSkills   = 256
	maxTags     = 64   // of a skill
	maxExamples = 64   // of a skill
	maxName     = 1024 // bytes
)

// How much a word counts by where it stands, and how BM25 counts it.
const (
	nameWeight = 4.5
	cardWeight = 1.5 // descriptions, skills' names, tags
	textWeight = 1   // examples

	saturation   = 2.5 // the higher, the more a repeated word counts
	lengthWeight = 0.8 // how far a long card dilutes its words
	usualLength  = 40  // words of a card, weighted: fixed, so that no card's figures depend on another's
)

// source says where a text stands.
type source uint8

const (
	about    source = iota // the agent's name and description; a skill's name, description and tags
	example                // a skill's example
	evidence               // a request that the agent answered well
)

// text is a text of a card, or of what was learned, as its different words and pairs in the order of their hashes.
type text struct {
	terms  []uint32
	skill  int32 // -1 for the agent's own
	from   source
	weight float32 // of evidence
	item   int32   // of evidence: its place in what was learned
}

// agent is what the index knows of an agent.
type agent struct {
	id     string
	print  uint64 // of its card
	slot   int32
	skills []string
	texts  []text
	titles []title
	// All words and pairs of the card, then all parts of words, each in the order of their hashes; and how much of each it has.
	terms, grams             []uint32
	termWeights, gramWeights []float32

	learned []text    // what was learned of it
	newest  time.Time // of that
	asked   []float64 // the weight of that when the newest was new, by skill; that of no skill comes first
	weight  float64   // of all of that
	words   []uint32  // with postings in what is learned
}

// card is a card as it was read.
type card struct {
	skills []string
	texts  []cardText
	titles [][]term
	all    []counted // in the order of their hashes
	length float64   // weighted words that say something
	left   int
}

type cardText struct {
	terms []term
	skill int32
	from  source
}

// title is the words of a name, of the agent or of a skill.
type title []uint32

type counted struct {
	term
	n float64
}

type part struct {
	text   string
	weight float64
}

func readCard(r *reader, from *a2a.AgentCard) *card {
	c := &card{left: maxFeatures}
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
		if len(skills) == 1 { // what is said twice counts once
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

// add reads one text of the card, which may have several parts.
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

// title reads a name once more, for how much of it a request has.
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

// distinct puts terms in the order of their hashes and leaves each but once.
func distinct(ts []term) []term {
	slices.SortFunc(ts, func(a, b term) int { return cmp.Compare(a.hash, b.hash) })
	return slices.CompactFunc(ts, func(a, b term) bool { return a.hash == b.hash })
}

// fill puts a card's terms into the index.
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

// spread sets the words of a name apart, as in getWeather; the name as it is stands in front of them.
func spread(s string) string {
	s = unnumbered(s[:min(len(s), maxName)])
	if h := humps(s); len(h) > len(s) {
		return s + ". " + h
	}
	return s
}

// unnumbered leaves numbers out of a name, as in "weather-2": who asks for a number does not mean it. A digit in a word stays.
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

// humps puts a space before each capital that follows a small letter.
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
