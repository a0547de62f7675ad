package fake

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/cortex-orchestrator/cortex/agents/calc"
	"github.com/cortex-orchestrator/cortex/agents/clock"
	"github.com/cortex-orchestrator/cortex/internal/token"
	"github.com/cortex-orchestrator/cortex/llm"
)

// The built-in agents that read what they are asked with a grammar of their own.
const (
	calculator = "agent_calc"
	clockID    = "agent_clock"
	echoID     = "agent_echo"
)

var builtIn = []string{calculator, clockID, echoID} // read only

var (
	// echoes is what tells who echoes what to say. It is no more than that before what refers to something else: "echo this", "repeat it once more".
	echoes = regexp.MustCompile(`(?is)^(?:echo|repeat)\s+(.*\S)`)
	// says begins what the built-in agent says when no other fits; other words than these may follow, and no language.
	says     = regexp.MustCompile(`(?is)^say(?:\s*:\s*|\s+)(\S.*)`)
	notSaid  = set(`it them again once twice more something anything nothing why how what when where who which if whether`)
	inWords  = regexp.MustCompile(`(?i)\b(?:backwards|in(?:to)? (?:all |big )?(?:caps|capitals|capital letters|(?:upper|lower) ?case|english|german|french|italian|spanish|portuguese|dutch|swedish|danish|norwegian|finnish|polish|czech|greek|turkish|russian|ukrainian|arabic|hebrew|hindi|chinese|japanese|korean|latin))[.!?]*\s*$`)
	refersTo = set(`this that these those me us back after what whatever my your`)
	pronouns = set(`it them all everything again once twice more back please`)
)

// echoed returns what the built-in agent is to say, of a task such as "echo hello world": that without "echo", as "hello world" is of "echo this: hello world".
func (m *matcher) echoed(p *piece) string {
	if said := says.FindStringSubmatch(skipWords(p.task, polite)); said != nil && p.reason == toSay && len(p.task) <= llm.MaxTask {
		return strings.TrimSpace(said[1])
	}
	found := echoes.FindStringSubmatch(skipWords(p.task, polite))
	if p.unknown != "" || p.called || p.content != "" || m.agents[p.agent].ID != echoID || found == nil || len(p.task) > llm.MaxTask {
		return p.task
	}
	words := plainWords(head(found[1])[:min(len(found[1]), 100)])
	if len(words) > 0 && (refersTo[words[0]] || pronouns.all(words)) {
		return p.task
	}
	return found[1]
}

// reads reports whether an agent that was found can read a text. Of the built-in ones that is known: who calculates and who tells the time have grammars,
// and who echoes is told to. All others are taken to read what fits their cards.
func (m *matcher) reads(f *llm.Found, text string) bool {
	reads := true
	switch {
	case m.naming:
	case f.ID == calculator:
		reads = calc.Reads(text)
	case f.ID == clockID:
		reads = clock.Reads(text)
	case f.ID == echoID:
		reads = m.echoes(text)
	}
	if !reads && m.nearest == "" && len(text) <= maxFollow && m.fits(f, text) && !m.foreign(text) {
		if card := m.cardOf(f.ID); card != nil && card.speaksOf(text, &m.scan) && (f.ID != echoID || card.begins(m.first(text))) {
			m.nearest = f.ID
		}
	}
	return reads
}

// readable reports whether the built-in agents with a grammar can read what they would get.
func (m *matcher) readable(pieces []piece) bool {
	return !slices.ContainsFunc(pieces, func(p piece) bool {
		id := m.agents[p.agent].ID
		return id == calculator && !calc.Reads(p.task) || id == clockID && !clock.Reads(p.task)
	})
}

// isBuiltIn reports whether an agent is one of the built-in ones.
func (m *matcher) isBuiltIn(agent int) bool {
	return agent >= 0 && slices.Contains(builtIn, m.agents[agent].ID)
}

// ofTalk is what was said before, which who echoes does not know.
var ofTalk = regexp.MustCompile(`(?i)^(?:(?:what|the thing|everything)\b.*\b(?:said|wrote|typed|asked|told)|(?:that|it) .*\btimes|(?:the|my|your) (?:last|first|previous) (?:thing|message|line|question|answer|one|sentence))\b`)

// changed is what was said before in another form, which who echoes does not know.
var changed = regexp.MustCompile(`(?i)^(?:that|it|this)\b.*\b(?:louder|backwards?|caps|capitals?|(?:upper|lower) ?case|capital letters|reversed?)[.?! ]*$`)

// echoes reports whether a text begins with a word for echoing, and is about no words that were said before.
func (m *matcher) echoes(text string) bool {
	word, rest := nextWord(skipWords(text, polite))
	at := m.find(echoID)
	return (at < 0 || at >= len(m.cards) || m.cards[at].begins(m.first(word))) && !changed.MatchString(rest) && (strings.EqualFold(word, "echo") || !ofTalk.MatchString(rest))
}

const toSay = echoID + ": it is to say something"

// saying returns the choice of the built-in agent for "say hello world"; false for other texts, and when it does not run.
func (m *matcher) saying(text string) (choice, bool) {
	found := says.FindStringSubmatch(text)
	if found == nil || inWords.MatchString(text) {
		return choice{}, false
	}
	if words := plainWords(found[1][:min(len(found[1]), 100)]); len(words) == 0 || refersTo[words[0]] || notSaid[words[0]] {
		return choice{}, false
	}
	at := m.running(echoID)
	return choice{agent: at, score: 1, reason: toSay}, at >= 0
}

// running returns the place of an agent that runs; -1 when it does not.
func (m *matcher) running(id string) int {
	at := m.find(id)
	if at < 0 && m.lookup != nil {
		if a, ok := m.lookup(id); ok {
			at = m.place(a)
		}
	}
	if at >= 0 && !m.agents[at].Seen {
		return -1
	}
	return at
}

// calculation returns the choice of who calculates, for a text that is understood to be for a skill of it: a calculation or a conversion and nothing
// more, in any words that the built-in agent itself understands; no words of its card have to be in it. It reports false for other texts, and when the
// agent does not run.
func (m *matcher) calculation(skill string) (choice, bool) {
	if skill == "" {
		return choice{}, false
	}
	at := m.running(calculator)
	if at < 0 {
		return choice{}, false
	}
	if !hasSkill(&m.agents[at], skill) {
		skill = ""
	}
	return choice{agent: at, score: 1, skill: skill, reason: calculator + ": it is a calculation"}, true
}

// understood returns which skill of who calculates a text is for; "" for none. A date is no subtraction.
func understood(text string) string {
	for i, r := range text {
		if unicode.IsDigit(r) && token.Date(text[i:]) > 0 {
			return ""
		}
	}
	return calc.Understands(text)
}

// calculates reports whether an agent that was found may be one that calculates: it is the built-in one, or its card shows numbers.
func (m *matcher) calculates(f *llm.Found) bool {
	at := m.find(f.ID)
	return f.ID == calculator || m.has(at, []byte(calcTerm)) || m.has(at, []byte(numberTerm))
}

// maxJoined bounds the spans that are tried to be one calculation.
const maxJoined = 6

// joinCalculations joins spans that are one calculation together, and not each for itself: "3 + 4" and "times 5", "add 5" and "7".
func joinCalculations(text string, spans []span) []span {
	known := make(map[span]bool) // each of which takes long
	single := func(s span) bool {
		is, ok := known[s]
		if !ok {
			is = understood(text[s.start:s.end]) != ""
			known[s] = is
		}
		return is
	}
	for i := 0; i < len(spans); i++ {
		for j := min(len(spans), i+maxJoined) - 1; j > i; j-- {
			if !slices.ContainsFunc(spans[i:j+1], func(s span) bool { return !single(s) }) {
				continue
			}
			if understood(text[spans[i].start:spans[j].end]) != "" {
				spans[i].end = spans[j].end
				spans = slices.Delete(spans, i+1, j+1)
				break
			}
		}
	}
	return spans
}
