package fake

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/prompt"
)

const (
	threshold = 0.45    // an agent scoring less does not fit
	certain   = 0.6     // an agent scoring this fits without doubt
	maxRead   = 8 << 10 // bytes of a request that are looked at
	maxTerms  = 512     // different terms of a request
)

// matcher scores the agents for parts of one request. Each card is read once, and of what it says only the request's own
// terms are kept, so that the work grows with the cards' texts and not with agents times parts.
type matcher struct {
	agents []prompt.Agent
	terms  map[string]int // the request's
	idf    []float64      // by term; 0: on no card
	cards  []cardMatch    // of the agents that share a term with the request
	names  map[string]int // agents by what they may be called, made when asked for
	scan   scanner
}

// cardMatch is what the request and one card have in common.
type cardMatch struct {
	agent    int
	weights  map[int]float64 // by term: how much it says about this agent, up to 1
	starts   map[int]begin
	examples []exampleMatch
}

// begin says what a term begins on a card: it is likely to be what the agent is told to do.
type begin int

const (
	beginsName begin = iota + 1
	beginsText       // a description or an example
)

type exampleMatch struct {
	terms []int
	other int // terms that the request does not have
}

func newMatcher(agents []prompt.Agent, request string) *matcher {
	m := &matcher{agents: agents, terms: make(map[string]int)}
	m.scan.scan(head(request), func(term []byte, _ bool) {
		if _, ok := m.terms[string(term)]; !ok && len(m.terms) < maxTerms {
			m.terms[string(term)] = len(m.terms)
		}
	})
	if len(m.terms) == 0 {
		return m
	}
	df := make([]int, len(m.terms))
	for i := range agents {
		if c := m.read(i); c != nil {
			m.cards = append(m.cards, *c)
			for term := range c.weights {
				df[term]++
			}
		}
	}
	m.idf = make([]float64, len(df))
	for term, n := range df {
		if n > 0 {
			m.idf[term] = 1 - 0.5*math.Log(float64(n))/math.Log(float64(len(agents)+1))
		}
	}
	for term, i := range m.terms {
		if term == numberTerm || generic[term] {
			m.idf[i] *= 0.4
		}
	}
	return m
}

// read returns what the request and the card of agent i have in common; nil for nothing.
func (m *matcher) read(i int) *cardMatch {
	a := &m.agents[i]
	var c *cardMatch
	match := func() *cardMatch {
		if c == nil {
			c = &cardMatch{agent: i, weights: make(map[int]float64), starts: make(map[int]begin)}
		}
		return c
	}
	field := func(s string, weight float64, start begin) {
		m.scan.scan(s, func(term []byte, first bool) {
			if id, ok := m.terms[string(term)]; ok {
				c := match()
				c.weights[id] = max(c.weights[id], weight)
				if first && start > 0 {
					c.starts[id] = max(c.starts[id], start)
				}
			}
		})
	}
	field(a.ID, 1, 0)
	if a.Card == nil {
		return c
	}
	if a.Card.Name != a.ID {
		field(a.Card.Name, 1, 0)
	}
	field(a.Card.Description, 0.8, beginsText)
	var inExamples map[int]int
	for j := range a.Card.Skills {
		s := &a.Card.Skills[j]
		field(s.ID, 1, beginsName)
		field(s.Name, 1, beginsName)
		field(s.Description, 0.8, beginsText)
		for _, tag := range s.Tags {
			field(tag, 1, 0)
		}
		for _, example := range s.Examples {
			e := exampleMatch{}
			m.scan.scan(example, func(term []byte, first bool) {
				id, ok := m.terms[string(term)]
				switch {
				case !ok:
					e.other++
				case !slices.Contains(e.terms, id):
					e.terms = append(e.terms, id)
					if inExamples == nil {
						inExamples = make(map[int]int)
					}
					inExamples[id]++
					if first {
						match().starts[id] = beginsText
					}
				}
			})
			if len(e.terms) > 0 {
				c := match()
				c.examples = append(c.examples, e)
			}
		}
	}
	for id, n := range inExamples {
		weight := 0.5 // one example's "Tokyo" says little, what they all have says much
		if n > 1 {
			weight = 0.8
		}
		c.weights[id] = max(c.weights[id], weight)
	}
	return c
}

// query is a part of the request, as the terms that count in it.
type query struct {
	terms   []int
	weights []float64
	total   float64
	head    int // the term of its first word, what is to be done; -1: none
}

// query reads a part of the request. Quoted words are material to work on, not what is asked for, unless there is nothing
// else. It returns nil when nothing in it speaks for any agent.
func (m *matcher) query(text string) *query {
	text = head(text)
	q, evidence := m.weigh(unquoted(text))
	if len(q.terms) == 0 {
		q, evidence = m.weigh(text)
	}
	if !evidence {
		return nil
	}
	return q
}

func (m *matcher) weigh(text string) (_ *query, evidence bool) {
	q := &query{head: -1}
	text = skipWords(text, polite)
	unknown := 0.0
	m.scan.scan(text, func(term []byte, first bool) {
		id, ok := m.terms[string(term)]
		if !ok || slices.Contains(q.terms, id) {
			return
		}
		w := m.idf[id]
		evidence = evidence || (w > 0 && string(term) != numberTerm)
		switch {
		case w == 0 && first && string(term) != numberTerm: // most likely the verb, of something nobody does
			w = 1
		case w == 0:
			w = min(0.4, 1.2-unknown)
			unknown += w
		}
		if first {
			q.head = id
		}
		q.terms = append(q.terms, id)
		q.weights = append(q.weights, w)
		q.total += w
	})
	return q, evidence
}

// score says from 0 to 1 how well an agent fits: how much of what the request says is on its card, or how much the
// request looks like one of its examples, whichever is more.
func (c *cardMatch) score(q *query) float64 {
	covered := 0.0
	for i, term := range q.terms {
		covered += q.weights[i] * c.weights[term]
	}
	s := covered / q.total
	for _, e := range c.examples {
		shared, size := 0.0, 0.7*float64(e.other)
		for _, term := range e.terms {
			if i := slices.Index(q.terms, term); i >= 0 {
				shared += q.weights[i]
				size += q.weights[i]
			} else {
				size += 0.7
			}
		}
		like := 2 * shared / (q.total + size)
		s = max(s, like*like)
	}
	if q.head >= 0 && c.starts[q.head] > 0 {
		s += (1 - s) / 2
	}
	return s
}

// choice is the agent for a part of the request.
type choice struct {
	agent  int // -1: none fits
	score  float64
	reason string
}

// best returns the agent that fits text best. Among equals the one that was seen running wins, then the order of ids.
func (m *matcher) best(text string) choice {
	first, second := choice{agent: -1}, choice{agent: -1}
	q := m.query(text)
	if q == nil {
		first.reason = "no word of it is on a card"
		return first
	}
	var match *cardMatch
	for i := range m.cards {
		c := &m.cards[i]
		s := c.score(q)
		better := func(than choice) bool {
			return s > 0 && (than.agent < 0 || s > than.score || (s == than.score && m.agents[c.agent].Seen && !m.agents[than.agent].Seen))
		}
		switch {
		case better(first):
			first, second, match = choice{agent: c.agent, score: s}, first, c
		case better(second):
			second = choice{agent: c.agent, score: s}
		}
	}
	if first.agent < 0 {
		first.reason = "no word of it is on a card"
		return first
	}
	first.reason = fmt.Sprintf("%s %.2f: %s", m.agents[first.agent].ID, first.score, strings.Join(m.shared(q, match), ", "))
	if second.agent >= 0 {
		first.reason += fmt.Sprintf("; next %s %.2f", m.agents[second.agent].ID, second.score)
	}
	if first.score < threshold {
		first.agent = -1
	}
	return first
}

// closest says why no agent got the request.
func (m *matcher) closest(text string) string {
	return fmt.Sprintf("no agent reaches %.2f; %s", threshold, m.best(text).reason)
}

// shared returns the terms that speak for an agent.
func (m *matcher) shared(q *query, c *cardMatch) []string {
	names := make(map[int]string, len(m.terms))
	for term, id := range m.terms {
		names[id] = term
	}
	var out []string
	for _, id := range q.terms {
		if c.weights[id] > 0 && len(out) < 5 {
			switch name := names[id]; name {
			case numberTerm:
				out = append(out, "a number")
			case calcTerm:
				out = append(out, "a calculation")
			default:
				out = append(out, prompt.Clean(name, 32))
			}
		}
	}
	return out
}

// skill returns the skill of agent a that has most in common with the task: its only one, or none if nothing tells.
func (m *matcher) skill(a *prompt.Agent, task string) string {
	if a.Card == nil || len(a.Card.Skills) == 0 {
		return ""
	}
	if len(a.Card.Skills) == 1 {
		return skillID(&a.Card.Skills[0])
	}
	q := m.query(task)
	best, most := "", 0.0
	for i := range a.Card.Skills {
		s := &a.Card.Skills[i]
		one := matcher{agents: []prompt.Agent{{Card: &a2a.AgentCard{Skills: []a2a.AgentSkill{*s}}}}, terms: m.terms}
		c := one.read(0)
		if q == nil || c == nil {
			continue
		}
		if score := c.score(q); score > most {
			best, most = skillID(s), score
		}
	}
	return best
}
