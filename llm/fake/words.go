package fake

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"

	"github.com/cortex-orchestrator/cortex/internal/token"
)

// The terms that stand for any number and any calculation: "17*23" on a card is evidence for "4 + 5" in a request.
const (
	numberTerm = "#"
	calcTerm   = "#calc"
)

const maxStems = 1 << 14 // cached

// scanner splits texts into terms: stems of words in lower case, and numbers and calculations as classes. It leaves out insignificant words. It is
// reused, since thousands of cards are read for a request.
type scanner struct {
	buf     []byte
	stemmed []byte
	stems   map[string]string // cache, by word
	held    []byte            // an operator written as a word, kept until a number follows or not
}

// scan calls emit for each term of s; the bytes are valid during the call. first is true for the term of the first word.
func (c *scanner) scan(s string, emit func(term []byte, first bool)) {
	first := true
	number, operator := false, false // what was read last, ignoring spaces and parentheses
	c.held = c.held[:0]
	drop := func() {
		if len(c.held) > 0 && !stop[string(c.held)] {
			c.stem(c.held, false, emit)
		}
		c.held = c.held[:0]
		number, operator = false, false
	}
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case unicode.IsDigit(r):
			n := token.Date(s[i:])
			if n > 0 {
				drop()
			} else {
				n = token.Number(s[i:])
			}
			if operator {
				c.held = c.held[:0]
				emit(append(c.buf[:0], calcTerm...), false)
			}
			emit(append(c.buf[:0], numberTerm...), first)
			number, operator, first = true, false, false
			i += n
			continue
		case unicode.IsLetter(r):
			i += c.word(s[i:], r)
			i += token.Suffix(s[i:])
			w := c.buf
			switch {
			case number && len(c.held) == 0 && operators[string(w)]:
				c.held = append(c.held, w...)
				operator = true
			case operator && (string(w) == "by" || string(w) == "of"):
			default:
				drop()
				if !stop[string(w)] {
					c.stem(w, first, emit)
				}
			}
			first = false
			continue
		case strings.ContainsRune("+-*/^%×÷−·", r):
			operator = operator || number
		case !unicode.IsSpace(r) && r != '(' && r != ')':
			drop()
		}
		i += size
	}
	drop()
}

// word reads the word at the start of s into buf, in lower case, and returns its length. In scripts without spaces it reads one character.
func (c *scanner) word(s string, r rune) int {
	c.buf = c.buf[:0]
	if isSpaceless(r) {
		c.buf = utf8.AppendRune(c.buf, r)
		return len(c.buf)
	}
	for i, r := range s {
		if !unicode.IsLetter(r) && !unicode.Is(unicode.Mn, r) || isSpaceless(r) {
			return i
		}
		c.buf = utf8.AppendRune(c.buf, unicode.ToLower(r))
	}
	return len(s)
}

// isSpaceless reports whether a letter belongs to a script without spaces between words. All of these have high code points.
func isSpaceless(r rune) bool {
	return r >= 0x2e80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
}

// stem calls emit for the stem of a word: "converting" on a card is evidence for "convert" in a request.
func (c *scanner) stem(w []byte, first bool, emit func(term []byte, first bool)) {
	s, known := c.stems[string(w)]
	if !known {
		s = stem(string(w))
		if c.stems == nil || len(c.stems) >= maxStems {
			c.stems = map[string]string{}
		}
		c.stems[string(w)] = s
	}
	c.stemmed = append(c.stemmed[:0], s...)
	emit(c.stemmed, first)
}

// stem returns the stem of an English word. It returns words of other scripts unchanged.
func stem(w string) string {
	for i := range len(w) {
		if w[i] < 'a' || w[i] > 'z' {
			return w
		}
	}
	return english.Stem(w, true)
}

// stems returns the stems of words as a set.
func stems(words string) wordSet {
	m := make(wordSet)
	for w := range strings.FieldsSeq(words) {
		m[stem(w)] = true
	}
	return m
}

func set(words string) wordSet { return setOf(strings.Fields(words)) }

// phrases returns the phrases of a text that has commas between them.
func phrases(text string) wordSet {
	return setOf(strings.Split(strings.Join(strings.Fields(text), " "), ", "))
}

func setOf(words []string) wordSet {
	m := make(wordSet)
	for _, w := range words {
		m[w] = true
	}
	return m
}

// wordSet is a set of words or phrases.
type wordSet map[string]bool

func (s wordSet) has(word string) bool { return s[word] }

// some reports whether one of the words is in s.
func (s wordSet) some(words []string) bool { return slices.ContainsFunc(words, s.has) }

// all reports whether none of the words is outside s.
func (s wordSet) all(words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !s[w] })
}

// Read-only.
var (
	stop = set(`a about after again agent all also am an and any are as at be been but by can cannot could did do does
		each for from give had has have he hello help her here hey hi him how i if in into is it its just kindly know let
		like ll many may me might more much must my need no not now of off ok okay on one or our out over please re say shall
		she should show so some tell than thank thanks that the their them then there these they this those to too up us use
		adn hte taht pls plz plese pleas teh using ve very want was we were what when where which who whom whose why will with would you your`)
	// Nouns that nearly every card has, which are no evidence alone.
	generic = stems(`agent answer data example file information input line message name output question request result sentence
		service simple string task test text thing tool user value`)
	operators = set(`plus minus times x divided multiplied mod modulo`)
	questions = set(`what whats what's when when's where where's which who who's whom whose why how is are`)
	// Words that a request can begin with, besides questions and words on the cards.
	requests = set(`can could do does did will would should tell give show please ask use`)
	polite   = set(`please pls plz plese pleas can could would will you kindly hey hi hello ok okay so and then also now cortex just`)
	// What a question may stand behind, besides a question word.
	leadsIn = set(`please pls plz plese pleas can could would will you kindly hey hi hello ok okay so and then also now cortex just tell give show me us`)
	// References to the text after a colon: "count the words of the following sentence: …".
	deictic = stems(`text sentence line following message phrase string paragraph input word list item`)
	// Words followed by something that the agent has to know: "translate to French: …".
	prepositions = set(`to into in from as with at by for using`)
	announcing   = stems(`two three four five few couple question task thing request following both`)
)

var abouts = phrases(`help, i am new, i am new here, i'm new, i'm new here, this is my first time, this is my first time here, what are you able to do,
	what are you able to do for me, what are you able to do here, what can you help with, what can you help me with, what could you help me with,
	what is this program, what is this tool, what is this thing, what is this chat, what is this for, what is this good for, what are you good for,
	what is this program for, what does this do, what does this program do, how do i get started, how do i start, where do i start, how do i begin,
	where do i begin, list your agents, show your agents, show me your agents, what are your agents, who are your agents, what are your capabilities,
	what are your skills, what are your abilities, who am i talking to, who am i talking with, what am i talking to, i don't understand,
	i do not understand, i'm lost, what are you for, what are you good at, who are you, what are you, what is your name, are you there, are you a bot,
	are you a robot, are you an ai, are you human, are you a human, who made you, who built you, who created you, are you real, can you help me,
	could you help me, help me, i need help, do i need an account, do i need a key, do i need an api key, what can i ask, what can i ask you,
	what can i say, what should i ask, what should i say, what now, what is up, how is it going, tell me about yourself, tell me something about yourself,
	introduce yourself, can you introduce yourself, which agents can i use, what agents can i use, how does this work, how do i use this, how do i use it,
	what is this, what is cortex, how are you, how are you doing, how are you today, how is your day, how is your day going, how was your day,
	how do you work, what can you do, what can i do, what can i do here, what do you do, what can you do for me, who is online, who is there,
	what is online, agents, list agents, list the agents, list all agents, show agents, show me the agents, which agents are online,
	which agents are there, which agents do you know, what agents are online, what agents are there, what agents do you have`)

// leaving are words of the questions about Cortex that ask how to leave.
var leaving = set(`stop leave quit exit out close logout q`)

// asksWho reports whether the words of a question about Cortex ask for the agents.
func asksWho(words []string) bool {
	return !isPolite(strings.Join(words, " ")) && !slices.Contains(words, "how") && set(`agents online can there do`).some(words)
}

var greetings = set(`hi hello hey hiya howdy there thanks thank you thx ty cheers please good morning afternoon evening day cortex
	say bye goodbye a lot very much so ok okay great`)

// interjections may stand before what is said.
var interjections = set(`ok okay cool nice great well hm hmm hmmm wow oh ah aha awesome alright so and but wait huh um uh eh yeah yes no right`)

// greets are those of greetings that stand for themselves, of the words that say nothing.
var greets = set(`hi hello hey thanks thank please say ok okay`)

// plainWords returns the words of a short s in lower case; nil for a long one.
func plainWords(s string) []string {
	if len(s) > 100 {
		return nil
	}
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\'' })
}

// Read only: words of thanks, and what is said of what they are for.
var (
	thanking = set(`thanks thank thx ty cheers tks thanx`)
	praise   = set(`many kindly mate man dude buddy pal friend sir that that's thats this was is it it's works worked really just again all for of your the help answer answers bunch million tons
		perfect awesome wonderful excellent amazing super nice cool lovely brilliant helpful quick kind fine well today now i need needed wanted`)
)

// complimented is what says that something is good.
var complimented = regexp.MustCompile(`^(?:you(?: are|'re)|(?:that|this|it)(?: is|'s| was)) (?:(?:really|very|so|pretty|quite|just|such|an?) )*(?:help|useful|helpful|good|great|nice|cool|fun|neat|handy|smart|clever|fast|quick|amazing|awesome|impressive|brilliant|perfect|wonderful|excellent)$`)

// praises are whole texts that are answered as thanks are.
var praises = phrases(`much appreciated, you are the best, you're the best, you rock, well done, good job, good work, nice job, nice work, great job, great work,
	i appreciate it, i appreciate that, very helpful, that was helpful, that helps, that helped, love it, i like it`)

// farewells are whole texts.
var farewells = phrases(`good night, see you, see you later, see you soon, see you tomorrow, have a nice day, have a good day, gotta go, gotta go now, i gotta go,
	i gotta go now, i have to go, i have to go now, i need to go, i need to go now, i am done, i'm done, that is all, that's all, that was all, that's it,
	that's all for today, that was all for today, that's all for now, that was all for now, nothing else, nothing more`)

// complaints are whole texts of who got something else than what they wanted.
var complaints = phrases(`wrong, that is wrong, this is wrong, it is wrong, wrong answer, that is not right, that is not correct, that is incorrect, not what i meant,
	that is not what i meant, that is not what i asked, that is not what i wanted, not what i asked, not what i wanted, you are wrong, you misunderstood,
	you misunderstood me`)

// sayAgain answers them.
const sayAgain = "Then say it in other words, or only what was meant, behind \"no, I meant\". In the chat, `/why` says how the last answer came about."

// courtesies are answers to texts that request nothing: texts with at least one of words, or with nothing else.
var courtesies = []struct {
	words wordSet
	only  bool
	say   string
}{
	{set(`thanks thank thx cheers ty`), false, "You are welcome."},
	{set(`bye goodbye`), false, "Goodbye."},
	{set(`why`), true, howToWhy},
	{set(`ok okay alright great cool nice fine good well very perfect awesome wonderful excellent amazing wow lol haha done`), true, "All right."},
	{set(`never mind nevermind sorry oops my bad mistake`), true, "All right."},
	{set(`yes y yep yeah yup sure no n nope nah please`), true, "There is nothing to say yes or no to."},
	{set(`no nope nah not now thanks thank you thx`), true, "All right."},
}

// Read only: what a text begins with that wants something stopped, and what may follow.
var (
	stopping = set(`stop cancel abort halt`)
	stopped  = set(`it that this them everything all of now please immediately the my task tasks job jobs work working running doing request requests here what you you're are`)
)

// howToStop answers who wants everything stopped.
const howToStop = "In a chat, Ctrl-C stops what is running, and `/cancel` what is open in its conversation; elsewhere, `cortex tasks` lists it, and `cortex tasks cancel ID` stops it."

// stops reports whether a text wants what is being done to be stopped, and is not for an agent whose card has that word.
func (m *matcher) stops(s string) bool {
	ws := plainWords(skipWords(s, polite))
	for len(ws) > 1 && interjections[ws[0]] {
		ws = ws[1:]
	}
	if len(ws) == 0 || !stopping[ws[0]] || !stopped.all(ws[1:]) {
		return false
	}
	return !slices.ContainsFunc(m.cards, func(v *vocabulary) bool { return v.has([]byte(stem(ws[0]))) })
}

// courtesy answers thanks, farewells, complaints, and a yes or no without a question; "" when s is anything else.
func courtesy(s string) string {
	ws := plainWords(s)
	if len(ws) == 0 || len(ws) > 10 {
		return ""
	}
	if thanking.some(ws) && !slices.ContainsFunc(ws, func(w string) bool { return !greetings[w] && !praise[w] }) {
		return "You are welcome."
	}
	said := strings.Join(ws, " ")
	if said == "forget it" || said == "forget that" || said == "forget about it" {
		return "All right."
	}
	if praises[said] || complimented.MatchString(said) {
		return "You are welcome."
	}
	rest := ws
	for len(rest) > 1 && interjections[rest[0]] {
		rest = rest[1:]
	}
	if farewells[strings.Join(rest, " ")] {
		return "Goodbye."
	}
	if said := strings.NewReplacer("'s", " is", "'re", " are", "thats", "that is").Replace(strings.Join(rest, " ")); complaints[said] {
		return sayAgain
	}
	for _, c := range courtesies {
		if !c.only && isPolite(s) && c.words.some(ws) || c.only && (c.words.all(ws) || c.words.all(rest)) {
			return c.say
		}
	}
	return ""
}

// isPolite reports whether s only consists of greetings or thanks.
func isPolite(s string) bool {
	ws := plainWords(s)
	if len(ws) > 1 && ws[len(ws)-1] == "again" && slices.Contains(hellos, ws[0]) {
		ws = ws[:len(ws)-1]
	}
	return greetings.all(ws) && slices.ContainsFunc(ws, func(w string) bool { return !stop[w] || greets[w] })
}

// isAbout reports whether s greets, or asks about Cortex or its agents.
func isAbout(s string) bool {
	if isPolite(s) {
		return true
	}
	ws := plainWords(s)
	return asksForModel(ws) || abouts[phraseAbout(ws)] || abouts[strings.Join(ws, " ")]
}

// phraseAbout returns the words of a question about Cortex as they are in abouts, without what is polite.
func phraseAbout(ws []string) string {
	for len(ws) > 1 && (greetings[ws[0]] || interjections[ws[0]]) {
		ws = ws[1:]
	}
	ws = slices.DeleteFunc(slices.Clone(ws), set(`exactly actually really anyway again`).has)
	phrase := strings.ReplaceAll(strings.Join(ws, " "), "'s", " is")
	if after, ok := strings.CutPrefix(phrase, "whats "); ok {
		phrase = "what is " + after
	}
	return strings.TrimSuffix(phrase, " please")
}
