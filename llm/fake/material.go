package fake

import (
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Read only. filler are words of an instruction that say nothing of its material, and leading those that may lead to it: "the words that are in".
var (
	filler  = set(`the teh hte a an many much how number amount total all of`)
	leading = set(`that which there are is in of for has have`)
)

// instructionAt returns where the material begins in a text that tells an agent in plain words, without a colon, to do what an example on its card
// shows with one: "count words to be or not to be", where the card has "count the words: …". It returns len(text) when there is no material, and 0
// when the text is none of these, or when what would be the material refers to some other text. Agents that read a whole sentence have no such example.
func (m *matcher) instructionAt(text string, agent int) int {
	a := &m.agents[agent]
	if a.Card == nil || agent >= len(m.cards) || len(text) > llm.MaxTask || contentAt(text) > 0 {
		return 0
	}
	begin := len(text) - len(skipWords(text, polite))
	for i := range a.Card.Skills {
		for _, example := range a.Card.Skills[i].Examples {
			at := contentAt(example)
			if at == 0 || !m.onlyNames(agent, example[:at]) {
				continue
			}
			if n := m.instruction(text[begin:], example[:at]); n > 0 {
				return begin + n
			}
		}
	}
	return 0
}

// instruction returns the length of the instruction that text begins with, when it has all significant words of an example's; "how many" stands for the
// first of them, which is a verb.
func (m *matcher) instruction(text, example string) int {
	missing := map[string]bool{}
	verb := ""
	m.scan.scan(example, func(term []byte, first bool) {
		missing[string(term)] = true
		if first {
			verb = string(term)
		}
	})
	if len(missing) == 0 {
		return 0
	}
	wanted := len(missing)
	known := make(map[string]bool, wanted)
	for term := range missing {
		known[term] = true
	}
	end, counts := 0, false
	for at := 0; at < len(text); {
		at = len(text) - len(strings.TrimLeft(text[at:], " \t\r\n"))
		word, _ := nextWord(text[at:min(len(text), at+longestTypo+1)])
		if word == "" || len(word) > longestTypo {
			break
		}
		plain := strings.ToLower(strings.TrimRight(word, ",;.?!"))
		term := stem(plain)
		if !known[term] && !filler[plain] {
			break
		}
		counts = counts || plain == "many"
		delete(missing, term)
		at += len(word)
		if known[term] {
			end = at
		}
	}
	if counts {
		delete(missing, verb)
	}
	if end == 0 || len(missing) > 0 && end < len(strings.TrimRight(text, "?!. ")) || len(missing) == wanted {
		return 0
	}
	for {
		rest := strings.TrimLeft(text[end:], " \t\r\n")
		word, after := nextWord(rest[:min(len(rest), longestTypo+1)])
		if !leading[strings.ToLower(word)] || after == "" {
			break
		}
		end = len(text) - len(rest) + len(word)
	}
	content := strings.TrimSpace(text[end:])
	if strings.Trim(content, "?!. ") == "" {
		return len(text)
	}
	first := plainWords(head(content)[:min(len(content), 60)])
	if len(first) == 0 || refersTo[first[0]] || pronouns[first[0]] || first[0] == "the" && len(first) > 1 && deictic[stem(first[len(first)-1])] {
		return 0
	}
	return end
}

// onlyNames reports whether an instruction only names the agent's work, also as a question of how many there are of what the agent counts.
func (m *matcher) onlyNames(agent int, instruction string) bool {
	ws := plainWords(instruction)
	counts := len(ws) > 2 && ws[0] == "how" && ws[1] == "many" && !m.has(agent, []byte(numberTerm)) && m.speaksOf(agent, instruction)
	return counts || m.says(instruction, agent)
}

// bare takes the instruction from a piece whose agent gets material, and reports whether there is no material.
func (m *matcher) bare(p *piece, files []prompt.File) (nothing bool) {
	if p.unknown != "" || p.called || p.content != "" || p.alone {
		return false
	}
	switch at := m.instructionAt(p.task, p.agent); {
	case at == 0:
	case at < len(p.task):
		p.task = strings.TrimSpace(p.task[at:])
		if questions[firstOf(p.about)] {
			p.task = strings.TrimRight(p.task, "? ")
		}
	default:
		return len(files) == 0
	}
	return false
}

// firstOf returns the first word of a text, in lower case.
func firstOf(text string) string {
	word, _ := nextWord(head(text))
	return strings.ToLower(word)
}
