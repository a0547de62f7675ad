package fake

import (
	"slices"
	"strings"
	"unicode"

	"github.com/agnivade/levenshtein"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// address is a request that names its agent: "@agent_echo hello", "@agent_echo/echo hello", "agent_echo: hello", "ask agent_echo to say hello".
type address struct {
	agent int    // -1: no such agent
	name  string // as written
	skill string // that is named, too
	rest  string // what is asked of the agent
	asked bool   // in a sentence
	alone bool   // nothing is asked of the agent; rest is all of the text
}

// wholly sets what is asked of the agent: rest, or all of text when that says nothing.
func (a address) wholly(rest, text string) address {
	if a.rest, a.alone = rest, tidy(rest) == ""; a.alone {
		a.rest = text
	}
	return a
}

// addressed parses the address at the start of text.
func (m *matcher) addressed(text string) (address, bool) {
	text = strings.TrimSpace(text)
	word, rest := nextWord(text)
	if name, ok := strings.CutPrefix(word, "@"); ok && name != "" {
		a := address{agent: m.named(name), name: name}
		if a.agent < 0 {
			a.name = strings.TrimRightFunc(name, unicode.IsPunct)
			a.agent = m.named(a.name)
		}
		if agent, skill, ok := strings.Cut(a.name, "/"); ok && a.agent < 0 {
			if at := m.named(agent); at >= 0 {
				a.agent, a.name, a.skill = at, agent, skill
			}
		}
		return a.wholly(rest, text), true
	}
	// An id may contain colons.
	for i := strings.LastIndexByte(word, ':'); i > 0; i = strings.LastIndexByte(word[:i], ':') {
		if at := m.named(word[:i]); at >= 0 {
			return address{agent: at, name: word[:i]}.wholly(strings.TrimSpace(text[i+1:]), text), true
		}
	}
	return m.asked(text)
}

// asked parses "ask NAME to …" and "use the NAME to …", with or without polite words, with a name of up to three words.
func (m *matcher) asked(text string) (address, bool) {
	verb, rest := nextWord(skipWords(text, polite))
	verb = strings.ToLower(verb)
	if verb != "ask" && verb != "use" && verb != "tell" && verb != "let" && verb != "have" {
		return address{}, false
	}
	the := false
	if word, after := nextWord(rest); strings.EqualFold(word, "the") {
		the, rest = true, after
	}
	var name string
	for n, after := 1, rest; n <= 3 && after != ""; n++ {
		var word string
		word, after = nextWord(after)
		name = strings.TrimSpace(name + " " + strings.TrimRight(strings.TrimPrefix(word, "@"), ",:"))
		if at := m.named(name); at >= 0 {
			return address{agent: at, name: name, asked: true}.wholly(behind(after), text), true
		}
		// No agent has that name. Is it meant as a name at all?
		to, _ := nextWord(after)
		to = strings.ToLower(to)
		wants := to == "to" || to == "for" || strings.HasSuffix(word, ":")
		if (verb != "ask" && verb != "use") || !wants && !(verb == "ask" && the && asksWhat[to]) {
			continue
		}
		role := strings.TrimSuffix(strings.ToLower(name), " agent")
		if !the && role == strings.ToLower(name) && !strings.ContainsAny(name, "_-0123456789") {
			continue
		}
		at := -1
		if the || role != strings.ToLower(name) { // "the calculator" may be agent_calc
			m.naming = true
			at = m.best(role).agent
			m.naming = false
		}
		if at < 0 && !wants {
			continue // "ask the neighbour what he does" is about no agent
		}
		return address{agent: at, name: name, asked: true}.wholly(behind(after), text), true
	}
	return address{}, false
}

// asksWhat are words that begin what an agent is asked in a sentence: "ask the calculator what 3+4 is". Read only.
var asksWhat = set(`what when where which who how why if whether`)

// behind returns the text after a name, without the joining word.
func behind(s string) string {
	if word, rest := nextWord(s); strings.EqualFold(strings.TrimRight(word, ",:"), "agent") {
		s = rest
	}
	if word, rest := nextWord(s); strings.EqualFold(word, "to") || strings.EqualFold(word, "for") {
		s = rest
	}
	return strings.TrimLeft(s, ":, \t\r\n")
}

// nextWord returns the first word of s and what follows it.
func nextWord(s string) (word, rest string) {
	s = strings.TrimSpace(s)
	i := strings.IndexFunc(s, unicode.IsSpace)
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimSpace(s[i:])
}

// find returns the index of the agent with this id, or -1.
func (m *matcher) find(id string) int {
	return slices.IndexFunc(m.agents, func(a prompt.Agent) bool { return a.ID == id })
}

// named returns the index of the agent with this name, or -1. A name is the agent's id, the name on its card, or either without "agent", ignoring
// case.
func (m *matcher) named(name string) int {
	if len(name) > 256 || name == "" {
		return -1
	}
	if i := m.find(name); i >= 0 {
		return i
	}
	if m.lookup != nil {
		if a, ok := m.lookup(name); ok {
			return m.place(a)
		}
	}
	if m.names == nil {
		m.names = make(map[string]int, 2*len(m.agents))
		add := func(name string, i int) {
			if _, taken := m.names[name]; name != "" && !taken {
				m.names[name] = i
			}
		}
		for _, short := range []bool{false, true} { // full names take precedence over short ones
			for i := range m.agents {
				add(called(m.agents[i].ID, short), i)
				if c := m.agents[i].Card; c != nil {
					add(called(c.Name, short), i)
				}
			}
		}
	}
	for _, short := range []bool{false, true} {
		if i, ok := m.names[called(name, short)]; ok {
			return i
		}
	}
	return -1
}

// maxSlips bounds the edit distance between a name and the one that was meant.
const maxSlips = 2

// meant returns a hint about an agent whose name is similar to name.
func (m *matcher) meant(name string) string {
	best, slips := "", maxSlips+1
	for i := range m.agents {
		id := m.agents[i].ID
		for _, short := range []bool{false, true} {
			if n := levenshtein.ComputeDistance(called(name, short), called(id, short)); n < slips && n < len(called(id, true))/2 {
				best, slips = id, n
			}
		}
	}
	if best == "" {
		return ""
	}
	return " Did you mean @" + best + "?"
}

func called(name string, short bool) string {
	if len(name) > 256 {
		return ""
	}
	name = strings.ToLower(strings.Join(strings.Fields(strings.NewReplacer("_", " ", "-", " ").Replace(name)), " "))
	if short {
		name = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(name, "agent "), " agent"))
		if name == "agent" {
			return ""
		}
	}
	return name
}
