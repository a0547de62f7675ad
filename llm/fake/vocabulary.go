package fake

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
	"weak"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/recent"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// vocabulary has the terms of an agent's id and card. It is read-only.
type vocabulary struct {
	card  weak.Pointer[a2a.AgentCard] // the card that it was made from, which is not kept; cards are immutable
	size  int                         // memory that it uses, and the card's texts, in bytes
	terms map[string]bool             // true: a description or an example begins with it, so it is likely a command for the agent
	about map[string]bool             // the terms that are not only in examples, which mention places and people as often as the work
	words map[string]bool             // words that may be mistyped, in lower case
}

func (v *vocabulary) has(term []byte) bool {
	_, ok := v.terms[string(term)]
	return ok
}

// speaksOf reports whether the agent's work is about one of the words of a text.
func (v *vocabulary) speaksOf(text string, scan *scanner) bool {
	found := false
	scan.scan(text, func(term []byte, _ bool) { found = found || v.about[string(term)] && !generic[string(term)] })
	return found
}

func (v *vocabulary) begins(term string) bool { return v.terms[term] }

// maxWords bounds the words of a card that typing errors are compared with.
const maxWords = 2000

const (
	maxVocabularies = 32 << 20              // bytes of all vocabularies in the cache
	maxVocabulary   = maxVocabularies / 256 // bytes of a vocabulary in the cache; larger ones are made again each time
	termSize        = 64                    // bytes of a map entry, besides the letters
	cardSize        = 1 << 10               // bytes of a card besides its texts, approximately
)

// vocabularies caches the vocabularies of agents: cards rarely change, and each is used for every request. It is safe for concurrent use.
type vocabularies struct {
	mu   sync.Mutex
	kept recent.Cache[string, *vocabulary] // by agent
}

// of returns the vocabularies of agents, in their order.
func (c *vocabularies) of(agents []prompt.Agent, scan *scanner) []*vocabulary {
	all := make([]*vocabulary, len(agents))
	c.mu.Lock()
	for i := range agents {
		if v, ok := c.kept.Get(agents[i].ID); ok && v.card == weak.Make(agents[i].Card) {
			all[i] = v
		}
	}
	c.mu.Unlock()
	for i := range agents {
		if all[i] == nil {
			all[i] = readVocabulary(&agents[i], scan)
			c.keep(agents[i].ID, all[i])
		}
	}
	return all
}

// keep caches a vocabulary in place of the agent's previous one, and removes the least recently used.
func (c *vocabularies) keep(agent string, v *vocabulary) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.size > maxVocabulary {
		c.kept.Take(agent)
		return
	}
	for c.kept.Put(agent, v, v.size); c.kept.Size() > maxVocabularies; c.kept.Drop() {
	}
}

func readVocabulary(a *prompt.Agent, scan *scanner) *vocabulary {
	v := &vocabulary{card: weak.Make(a.Card), size: cardSize, terms: map[string]bool{}, about: map[string]bool{}, words: map[string]bool{}}
	example := false
	field := func(s string, told bool) {
		v.size += len(s)
		for w := range strings.FieldsFuncSeq(strings.ToLower(head(s)), func(r rune) bool { return !unicode.IsLetter(r) }) {
			if n := utf8.RuneCountInString(w); n >= shortestTypo && n <= longestTypo && !stop[w] && !v.words[w] && len(v.words) < maxWords {
				v.words[w] = true
				v.size += termSize + len(w)
			}
		}
		scan.scan(s, func(term []byte, first bool) {
			if _, known := v.terms[string(term)]; !known {
				v.size += 2*termSize + len(term)
			}
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
