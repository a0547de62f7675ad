package fake

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents/clock"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

const (
	certain = 0.95    // the score from which an agent certainly fits
	likely  = 0.75    // the required score when no card has the request's verb
	asleep  = 0.1     // how much better an agent that does not run has to fit
	maxRead = 8 << 10 // bytes of a request that are read
)

// matcher finds the agents for parts of one request. It compares the request with the cards itself, to see where a part may begin; the router
// determines which agent fits.
type matcher struct {
	request string         // the part that is read
	agents  []prompt.Agent // those of the turn, followed by found ones
	cards   []*vocabulary  // of the agents of the turn
	lookup  func(id string) (prompt.Agent, bool)
	search  func(words string) []llm.Found
	names   map[string]int // agents by their possible names; built on demand
	scan    scanner
	unsure  string   // complete forms of an ambiguous request
	strange []string // questions in the request that fit no agent
	nearest string   // the built-in agent whose work it is about, and that cannot read it
	naming  bool     // a text only names an agent
}

func (d *Decider) newMatcher(t *llm.Turn) *matcher {
	m := &matcher{request: head(t.User), agents: t.Agents[:len(t.Agents):len(t.Agents)], lookup: t.Lookup, search: d.finder.search(t)}
	m.cards = d.vocabularies.of(m.agents, &m.scan)
	return m
}

// cardOf returns the vocabulary of an agent of the turn; nil for other agents, and for those that share no word with the request.
func (m *matcher) cardOf(agent string) *vocabulary {
	i := slices.IndexFunc(m.agents[:len(m.cards)], func(a prompt.Agent) bool { return a.ID == agent })
	if i < 0 {
		return nil
	}
	common := false
	m.scan.scan(m.request, func(term []byte, _ bool) { common = common || m.cards[i].has(term) })
	if !common {
		return nil
	}
	return m.cards[i]
}

// choice is the agent for a part of the request.
type choice struct {
	agent  int // -1: none fits
	score  float64
	skill  string
	reason string
}

// best returns the agent that fits text best. It ignores quoted words, which are material, unless there is nothing else.
func (m *matcher) best(text string) choice {
	text = head(text)
	words := unquoted(text)
	if len(plainWords(words)) == 0 {
		words = text
	}
	words = skipWords(words, polite)
	sum := understood(words)
	if !m.asks(words) && sum == "" { // "5!" asks
		return choice{agent: -1, reason: "it asks for nothing"}
	}
	found := m.search(words)
	m.told(found, words)
	found = slices.DeleteFunc(found, func(f llm.Found) bool { return !m.reads(&f, words) })
	if m.elsewhere(words) && sum == "" && !clock.Understands(words) {
		return choice{agent: -1, reason: "it asks for something that is on no card"}
	}
	if c, ok := m.calculation(sum); ok && (len(found) == 0 || !m.calculates(&found[0]) || !m.takes(&found[0], words)) {
		return c
	}
	ofTime := func() (choice, bool) {
		at := m.running(clockID)
		return choice{agent: at, score: 1, reason: clockID + ": it asks for a day"}, at >= 0 && clock.Understands(words)
	}
	if c, ok := ofTime(); ok && (isIt.MatchString(words) || sum == "" && len(found) > 0 && found[0].ID == calculator) { // days are units, too
		return c
	}
	if len(found) == 0 {
		if c, ok := ofTime(); ok {
			return c
		}
		if c, ok := m.saying(words); ok {
			return c
		}
		return choice{agent: -1, reason: "it has nothing in common with any card"}
	}
	first := &found[0]
	c := choice{agent: -1, score: first.Score, reason: fmt.Sprintf("%s fits best (%.2f)", first.ID, first.Score)}
	if len(found) > 1 {
		c.reason += fmt.Sprintf(", then %s (%.2f)", found[1].ID, found[1].Score)
	}
	if m.fits(first, words) {
		c.agent, c.skill = m.place(first.Agent), skillOf(first)
	} else if c, ok := ofTime(); ok {
		return c
	} else if c, ok := m.saying(words); ok {
		return c
	}
	return c
}

// fits reports whether an agent that was found fits these words.
func (m *matcher) fits(f *llm.Found, words string) bool {
	return f.Fits && m.sure(f, words) && (f.Score >= likely || !m.foreign(words))
}

// takes reports whether an agent that was found is one for these words.
func (m *matcher) takes(f *llm.Found, words string) bool {
	return m.fits(f, words) && !needsMore(&f.Agent, skillOf(f))
}

// sure reports whether an agent gets what fits it: without doubt, or by a word that says something. One that does not run gets nothing but
// what it has both for, since whoever asked would wait for it.
func (m *matcher) sure(f *llm.Found, words string) bool {
	if !f.Seen {
		return f.Score >= likely && m.evidence(f.ID, words)
	}
	return f.Score >= certain || f.ID == calculator || m.evidence(f.ID, words) // a calculation is one in any words
}

// asks reports whether a text has any significant words, besides numbers.
func (m *matcher) asks(text string) bool {
	something := false
	m.scan.scan(text, func(term []byte, _ bool) { something = something || string(term) != numberTerm })
	return something
}

// evidence reports whether a text shares a significant word with an agent's card, and not only with what its examples are about.
func (m *matcher) evidence(agent, text string) bool {
	card := m.cardOf(agent)
	shared := card == nil // it was found by something that is not on its card
	m.scan.scan(text, func(term []byte, _ bool) {
		shared = shared || card.about[string(term)] && !generic[string(term)] && string(term) != numberTerm
	})
	return shared
}

// foreign reports whether a text begins with a verb that no card has: "translate hello world into French".
func (m *matcher) foreign(text string) bool {
	verb := m.first(text)
	return verb != "" && verb != numberTerm && !slices.ContainsFunc(m.cards, func(v *vocabulary) bool { return v.has([]byte(verb)) })
}

// isIt begins a question about how things are.
var isIt = regexp.MustCompile(`(?i)^(?:is|was|will|does|did|has|can|could|should) (?:it|there) (.*)`)

// elsewhere reports whether a text is a question such as "is it crowded in London?", about something that no card has: names say nothing.
func (m *matcher) elsewhere(text string) bool {
	asked := isIt.FindStringSubmatch(text)
	if asked == nil {
		return false
	}
	names := func(r rune) bool { return unicode.IsUpper(r) }
	words := slices.DeleteFunc(strings.Fields(asked[1]), func(w string) bool { return strings.IndexFunc(w, names) == 0 })
	about, known := false, false
	m.scan.scan(strings.Join(words, " "), func(term []byte, _ bool) {
		about = true
		known = known || slices.ContainsFunc(m.cards, func(v *vocabulary) bool { return v.has(term) })
	})
	return about && !known
}

// first returns the term of the first word of a text, or "" if that is insignificant.
func (m *matcher) first(text string) (word string) {
	m.scan.scan(text, func(term []byte, first bool) {
		if first {
			word = string(term)
		}
	})
	return word
}

// told moves an agent to the front whose card begins with the same word as the text, "echo salt, pepper and time", if it fits nearly as well as the
// first, and agents that run before those that do not.
func (m *matcher) told(found []llm.Found, text string) {
	if len(found) < 2 {
		return
	}
	word := m.first(text)
	rank := func(f *llm.Found) float64 {
		score := f.Score
		if !f.Seen {
			score -= asleep
		}
		i := slices.IndexFunc(m.agents[:len(m.cards)], func(a prompt.Agent) bool { return a.ID == f.ID })
		if i >= 0 && m.cards[i].begins(word) {
			return math.Round(50 * (1 + score))
		}
		return math.Round(100 * score) // smaller differences do not count
	}
	slices.SortStableFunc(found, func(a, b llm.Found) int {
		return cmp.Compare(rank(&b), rank(&a))
	})
}

// skillOf returns the skill that fits best, if it is known.
func skillOf(f *llm.Found) string {
	if len(f.Skills) > 0 {
		return f.Skills[0]
	}
	return onlySkill(&f.Agent)
}

// place returns the index of a found agent in m.agents.
func (m *matcher) place(a prompt.Agent) int {
	if i := m.find(a.ID); i >= 0 {
		return i
	}
	m.agents = append(m.agents, a)
	return len(m.agents) - 1
}

// skill returns the skill of an agent that was addressed by name: its only one, or the one that fits, or "" if neither exists.
func (m *matcher) skill(a *prompt.Agent, task string) string {
	if s := onlySkill(a); s != "" || a.Card == nil || len(a.Card.Skills) == 0 {
		return s
	}
	abilities := agentcard.SpecOf(a.Card).Abilities
	if strings.HasPrefix(strings.TrimSpace(task), "{") { // input for one of them, if it can be for no other
		var fit []string
		for i := range a.Card.Skills {
			id := skillID(&a.Card.Skills[i])
			if meantFor(abilities[id].InputSchema, task) {
				fit = append(fit, id)
			}
		}
		if len(fit) == 1 {
			return fit[0]
		}
		if len(fit) > 1 {
			return ""
		}
	}
	for _, f := range m.search(head(task)) {
		if f.ID == a.ID {
			return skillOf(&f)
		}
	}
	for i := range a.Card.Skills { // one that takes what is asked for in any words
		if id := skillID(&a.Card.Skills[i]); asking[onlyRequired(abilities[id].InputSchema)] && !abilities[id].Once {
			return id
		}
	}
	return ""
}

func onlySkill(a *prompt.Agent) string {
	if a.Card == nil || len(a.Card.Skills) != 1 {
		return ""
	}
	return skillID(&a.Card.Skills[0])
}

// speaksOf reports whether every term of s is on the agent's card, or refers to the text that follows.
func (m *matcher) speaksOf(agent int, s string) bool {
	known := true
	m.scan.scan(s, func(term []byte, _ bool) {
		known = known && (deictic[string(term)] || m.has(agent, term))
	})
	return known
}

// has reports whether the card of an agent of the turn has a term.
func (m *matcher) has(agent int, term []byte) bool {
	return agent >= 0 && agent < len(m.cards) && m.cards[agent].has(term)
}

// begin reports whether a description or an example begins with the first word of s.
func (m *matcher) begin(s string) bool {
	word := m.first(s)
	return slices.ContainsFunc(m.cards, func(v *vocabulary) bool { return v.begins(word) })
}
