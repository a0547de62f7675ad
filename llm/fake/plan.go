package fake

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/agents/calc"
	"github.com/cortex-orchestrator/cortex/agents/clock"
)

// ofQuoted matches the end of an instruction for a quotation that follows: "count the words of".
var ofQuoted = regexp.MustCompile(`(?i)\b(?:of|in|has|have|does|do|(?:the )?(?:following|text|sentence|phrase|string)) $`)

// piece is a part of the request that one agent gets.
type piece struct {
	agent   int
	skill   string
	task    string
	content string // what stood behind a colon
	about   string // the words that chose the agent
	reason  string
	called  bool   // by "@agent" or "agent:"
	named   bool   // the skill, too
	alone   bool   // with nothing to do
	empty   bool   // an instruction for some material, without any
	unknown string // the agent that was asked for by name, when there is none; nothing else is set then
}

// plan splits a request and finds an agent for each part. It returns nil when no agent fits any.
func (m *matcher) plan(text string) []piece {
	text = strings.TrimSpace(text)
	if p := m.paragraph(text); p != nil {
		return []piece{*p}
	}
	if at := contentAt(text); at > 0 {
		if ps, ok := m.planContent(text, at); ok {
			return ps
		}
		if _, called := m.addressed(text); called {
			return m.whole(text)
		}
		if c := m.best(text); c.score < certain && !m.isBuiltIn(c.agent) || m.foreign(skipWords(text[:at], polite)) {
			return nil // no agent fits the instruction; the content does not matter
		}
		return m.whole(text)
	}
	if at := quotedLast(text); at > 0 && at <= maxRead && ofQuoted.MatchString(text[:at]) {
		if c := m.best(text[:at]); c.agent >= 0 && len(m.split(text[:at], false)) == 1 && m.says(text[:at]+"this", c.agent) {
			return []piece{{agent: c.agent, skill: c.skill, task: text[at : at+quotedAt(text[at:])], about: text[:at], reason: c.reason}}
		}
	}
	if len(text) > maxRead { // a long text: material after an instruction
		if _, ok := m.addressed(text); ok {
			return m.whole(text)
		}
		begin := m.split(head(text), false)[0]
		if c := m.best(text[:begin.end]); c.agent >= 0 {
			return []piece{{agent: c.agent, skill: c.skill, task: text, about: text[:begin.end], reason: c.reason}}
		}
		return m.whole(text)
	}
	return m.join(text, m.split(text, false))
}

// planContent plans "INSTRUCTION: CONTENT", where at is the index of the colon. It ignores the content, except for another obvious request after it.
// It returns false when no agent fits the instruction.
func (m *matcher) planContent(text string, at int) ([]piece, bool) {
	spans := m.split(text[:at], false)
	last := spans[len(spans)-1]
	instruction := strings.TrimSpace(text[last.start:at])
	if announces(instruction) {
		return m.plan(text[at+1:]), true
	}
	if _, ok := m.addressed(instruction); !ok && m.best(instruction).agent < 0 {
		return nil, false
	}
	ps := m.join(text[:at], spans)
	if len(ps) == 0 {
		return nil, false
	}
	p := &ps[len(ps)-1]
	if p.unknown != "" {
		return ps, true
	}
	content, rest := text[at+1:], ""
	if _, ok := m.addressed(text[last.start:]); !ok && len(content) <= maxRead {
		for _, s := range m.split(content, true)[1:] {
			if c := m.best(content[s.start:s.end]); c.agent >= 0 && c.agent != p.agent && c.score >= certain {
				content, rest = content[:s.from], content[s.start:]
				break
			}
		}
	}
	p.content, p.alone = tidy(content), false
	meant, _ := m.mended(instruction)
	if m.onlyNames(p.agent, instruction) || m.onlyNames(p.agent, meant) {
		p.task = tidy(content)
	} else {
		p.task = tidy(p.task + ":" + content)
	}
	if rest != "" {
		ps = append(ps, m.plan(rest)...)
	}
	return ps, true
}

// whole assigns all of text to one agent, if one fits.
func (m *matcher) whole(text string) []piece {
	return m.join(text, []span{{end: len(text)}})
}

// join finds agents for the spans of text. A span without an agent is joined to its neighbour; one after an agent that was addressed by name belongs
// to that agent, unless it addresses another one.
func (m *matcher) join(text string, spans []span) []piece {
	var ps []piece
	var strange []string
	called := false
	begin := -1 // the start of spans before the first agent
	for _, s := range spans {
		part := text[s.start:s.end]
		if isPolite(part) && len(spans) > 1 && !says.MatchString(part) {
			continue
		}
		if begin < 0 {
			begin = s.start
		}
		a, ok := m.addressed(part)
		switch {
		case ok && a.agent < 0:
			ps = append(ps, piece{unknown: a.name})
			called = true
		case ok:
			ps = append(ps, piece{
				agent: a.agent, skill: a.skill, task: tidy(a.rest), about: a.rest, called: !a.asked, named: a.skill != "", alone: a.alone,
				reason: m.agents[a.agent].ID + ": called by name",
			})
			called = true
		case called && len(ps) > 0:
			extend(&ps[len(ps)-1], text, s)
		default:
			c := m.best(part)
			switch {
			case c.agent >= 0 && (!s.weak || len(ps) == 0 || ps[len(ps)-1].agent != c.agent):
				p := piece{agent: c.agent, skill: c.skill, task: tidy(text[begin:s.end]), about: part, reason: c.reason}
				if begin < s.start && !m.readable([]piece{p}) {
					p.task = tidy(part) // what stands before it asks for nothing: "let's see... 2 + 2"
				}
				ps = append(ps, p)
			case c.agent < 0 && len(spans) > 1 && m.isStrange(part, ps):
				strange = append(strange, tidy(part))
			case len(ps) > 0:
				extend(&ps[len(ps)-1], text, s)
			default:
				continue // begin stays: the next piece gets the span
			}
		}
		begin = -1
	}
	if len(ps) > 0 {
		m.strange = append(m.strange, strange...)
	}
	return ps
}

// isStrange reports whether a part that fits no agent is a question of its own, and not about what was asked before it: it has a word that the agent
// that was asked last does not know, and that is no name and no place. Behind an instruction such as "echo" it may be material.
func (m *matcher) isStrange(part string, before []piece) bool {
	words := strings.Fields(skipWords(part, polite))
	if len(words) == 0 || !asksFor(words[0]) || len(words) > 1 && strings.EqualFold(words[1], "about") {
		return false
	}
	last := -1
	if len(before) > 0 {
		p := before[len(before)-1]
		last = p.agent
		word, _ := nextWord(skipWords(p.about, polite))
		switch id := m.agents[last].ID; {
		case id == calculator:
			return !calc.Reads(part)
		case id == clockID:
			return !clock.Reads(part)
		case !asksFor(word):
			return false
		}
	}
	strange, place := false, false
	who := strings.HasPrefix(strings.ToLower(words[0]), "who") // a name is what it is about
	for _, w := range words[1:] {
		lower := strings.ToLower(strings.Trim(w, ",;.?!"))
		if r, _ := utf8.DecodeRuneInString(w); place || unicode.IsUpper(r) && !who {
			place = false
			continue
		}
		place = places[lower]
		m.scan.scan(lower, func(term []byte, _ bool) {
			known := m.has(last, term)
			if last < 0 {
				known = slices.ContainsFunc(m.cards, func(v *vocabulary) bool { return v.has(term) })
			}
			strange = strange || string(term) != numberTerm && string(term) != calcTerm && !known
		})
	}
	return strange
}

// asksFor reports whether a word begins a question, or asks to be told something.
func asksFor(word string) bool {
	word = strings.ToLower(word)
	return questions[word] || requests[word] && word != "ask" && word != "use"
}

// blankLine ends a paragraph.
var blankLine = regexp.MustCompile(`\r?\n[ \t]*\r?\n`)

// paragraphAt returns the ranges of an instruction and of the material that follows it behind a blank line, as when a text is piped into a question;
// nil when there is none.
func paragraphAt(text string) []int {
	begin := text[:min(len(text), maxInstruction)]
	if !strings.Contains(begin, "\n") {
		return nil
	}
	at := blankLine.FindStringIndex(begin)
	if at == nil || strings.TrimSpace(text[:at[0]]) == "" || contentAt(text[:at[1]]) > 0 {
		return nil
	}
	return at
}

const maxInstruction = 200 // bytes of one before a blank line

// paragraph returns the piece for an instruction and material behind a blank line, when an agent does what it says; nil for other texts.
func (m *matcher) paragraph(text string) *piece {
	at := paragraphAt(text)
	if at == nil {
		return nil
	}
	instruction, content := strings.TrimSpace(text[:at[0]]), strings.TrimSpace(text[at[1]:])
	ws := plainWords(instruction)
	if _, called := m.addressed(instruction); called || content == "" || len(ws) == 0 || stop[ws[len(ws)-1]] && !refers(instruction) || len(m.split(instruction, false)) > 1 {
		return nil
	}
	c := m.best(instruction)
	if c.agent < 0 {
		return nil
	}
	if !m.onlyNames(c.agent, instruction) {
		return nil
	}
	return &piece{agent: c.agent, skill: c.skill, task: content, content: content, about: instruction, reason: c.reason}
}

// extend appends a span to the piece before it, with the text between them.
func extend(p *piece, text string, s span) {
	p.task, p.alone = tidy(p.task+text[s.from:s.end]), false
}

// tidy removes the joining punctuation of a part.
func tidy(s string) string {
	return strings.TrimSpace(strings.TrimRight(strings.TrimSpace(s), ",;"))
}

// announces reports whether s only announces requests: "two questions".
func announces(s string) bool {
	ws := plainWords(s)
	known := 0
	for _, w := range ws {
		switch {
		case announcing[stem(w)]:
			known++
		case !stop[w]:
			return false
		}
	}
	return known > 0
}

// refers reports whether an instruction ends with a reference to the text after it: "how many words are in this".
func refers(instruction string) bool {
	ws := plainWords(instruction)
	if len(ws) == 0 {
		return false
	}
	last := ws[len(ws)-1]
	return deictic[stem(last)] || last == "this" || last == "that" || last == "these"
}

// says reports whether an instruction only names the agent's work, so that the content alone is the task: "count the words", but not "translate to
// French" and not a question.
func (m *matcher) says(instruction string, agent int) bool {
	if a, ok := m.addressed(instruction); ok {
		if a.alone {
			return true
		}
		instruction = a.rest
	}
	ws := plainWords(skipWords(instruction, polite))
	if len(ws) == 0 || questions[ws[0]] && !refers(instruction) {
		return false
	}
	for i, w := range ws {
		if !prepositions[w] {
			continue
		}
		for _, next := range ws[i+1:] {
			if !stop[next] && !deictic[stem(next)] {
				return false
			}
		}
	}
	return m.speaksOf(agent, strings.Join(ws, " "))
}
