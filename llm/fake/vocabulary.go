package fake

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// vocabulary is the terms of one agent's id and card. It is read only.
type vocabulary struct {
	terms map[string]bool // true: a description or an example begins with it, so it is likely what the agent is told to do
	about map[string]bool // the terms that are not only in examples, which are of places and people as often as of the work
	words map[string]bool // those that can be mistyped, in lower case
}

func (v *vocabulary) has(term []byte) bool {
	_, ok := v.terms[string(term)]
	return ok
}

// speaksOf reports whether the work is about one of the words of a text.
func (v *vocabulary) speaksOf(text string, scan *scanner) bool {
	found := false
	scan.scan(text, func(term []byte, _ bool) { found = found || v.about[string(term)] && !generic[string(term)] })
	return found
}

func (v *vocabulary) begins(term string) bool { return v.terms[term] }

// maxWords bounds the words of one card that typing errors are compared with.
const maxWords = 2000

// maxVocabulary bounds how many terms are kept of all cards together: some 20 MB.
const maxVocabulary = 200_000

// vocabularies keeps what was read of cards: they change rarely, and each is wanted for every request. It is safe for concurrent use.
type vocabularies struct {
	mu   sync.Mutex
	kept map[vocabularyKey]*vocabulary
	size int // terms of all of them
}

// vocabularyKey names a card as it is: one that changes is another one.
type vocabularyKey struct {
	agent string
	card  *a2a.AgentCard
}

// of returns the vocabularies of agents, in their order.
func (c *vocabularies) of(agents []prompt.Agent, scan *scanner) []*vocabulary {
	all := make([]*vocabulary, len(agents))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range agents {
		key := vocabularyKey{agents[i].ID, agents[i].Card}
		v := c.kept[key]
		if v == nil {
			v = readVocabulary(&agents[i], scan)
			if c.size += len(v.terms) + len(v.words); c.size > maxVocabulary || c.kept == nil {
				c.kept, c.size = map[vocabularyKey]*vocabulary{}, len(v.terms)+len(v.words)
			}
			c.kept[key] = v
		}
		all[i] = v
	}
	return all
}

func readVocabulary(a *prompt.Agent, scan *scanner) *vocabulary {
	v := &vocabulary{terms: map[string]bool{}, about: map[string]bool{}, words: map[string]bool{}}
	example := false
	field := func(s string, told bool) {
		for w := range strings.FieldsFuncSeq(strings.ToLower(head(s)), func(r rune) bool { return !unicode.IsLetter(r) }) {
			if n := utf8.RuneCountInString(w); n >= shortestTypo && n <= longestTypo && !stop[w] && len(v.words) < maxWords {
				v.words[w] = true
			}
		}
		scan.scan(s, func(term []byte, first bool) {
			v.terms[string(term)] = v.terms[string(term)] || first && told
			if !example || first {
				v.about[string(term)] = true
			}
		})
	}
	field(a.ID, false)
	if a.Card == nil {
		return v
	}
	field(a.Card.Name, false)
	field(a.Card.Description, true)
	for i := range a.Card.Skills {
		s := &a.Card.Skills[i]
		field(s.ID, false)
		field(s.Name, false)
		field(s.Description, true)
		for _, tag := range s.Tags {
			field(tag, false)
		}
		example = true
		for _, e := range s.Examples {
			field(e, true)
		}
		example = false
	}
	return v
}
