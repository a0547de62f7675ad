package fake

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// span is a part of a text.
type span struct {
	from       int // end of the previous part; the text up to start joins the two
	start, end int
	weak       bool // a separate request only if it is for another agent
}

// maxSpans bounds the parts of a request.
const maxSpans = 32

// split splits text where a new request may begin: at the end of a line or a sentence, at a comma, a semicolon, "and", "then", if a word follows that
// can begin a request. narrow splits only at a comma with "and", and at "then". There is at least one span.
func (m *matcher) split(text string, narrow bool) []span {
	spans := []span{{}}
	quoted := quotations(text)
	for i := 0; i < len(text) && len(spans) < maxSpans; {
		if len(quoted) > 0 && quoted[0][0] <= i {
			i, quoted = max(i, quoted[0][1]), quoted[1:]
			continue
		}
		if !mayJoin(text[i:]) {
			i++
			continue
		}
		n := joint(text[i:], narrow)
		weak := n > 0 && slices.ContainsFunc(spans, func(s span) bool { return asksOn(text[s.start:i], text[i+n:]) })
		if i == 0 || n == 0 || (!weak && !m.begins(text[i+n:])) {
			_, size := utf8.DecodeRuneInString(text[i:])
			i += size
			continue
		}
		end := i
		if strings.ContainsRune(".?!", rune(text[i])) {
			end++ // the mark belongs to the sentence
		}
		spans[len(spans)-1].end = end
		spans = append(spans, span{from: end, start: i + n, weak: weak})
		i += n
	}
	spans[len(spans)-1].end = len(text)
	return joinCalculations(text, spans)
}

// bullet matches the beginning of a list item.
var bullet = regexp.MustCompile(`^([-*•]|\d{1,2}[.)])\s+`)

// asksOn reports whether next continues the question before it: "what is the time in Rome", "the weather in Oslo"; also behind "please tell me".
func asksOn(before, next string) bool {
	first, _ := nextWord(skipWords(before[:min(len(before), 60)], leadsIn))
	word, _ := nextWord(next[:min(len(next), 20)])
	return questions[strings.ToLower(first)] && (strings.EqualFold(word, "the") || strings.EqualFold(word, "my")) || theTime.MatchString(next)
}

// theTime matches what asks for the time without a question, behind anything: "17*23 and the time in Rome".
var theTime = regexp.MustCompile(`(?i)^the (?:current |local |exact )?(?:time|date)\b`)

// mayJoin reports whether joint may return more than 0 for s, from its first two bytes: for most characters it is enough to look at one.
func mayJoin(s string) bool {
	switch c := s[0]; {
	case c == ' ':
		return len(s) > 1 && strings.IndexByte("aAtT& \t\n\v\f\r", s[1]) >= 0 || len(s) > 1 && s[1] >= utf8.RuneSelf
	case c >= utf8.RuneSelf:
		return utf8.RuneStart(c)
	default:
		return strings.IndexByte(".?!\n\r;,\t\v\f", c) >= 0
	}
}

// joint returns the length of what joins two requests at the start of s, including words and spaces; 0 for nothing.
func joint(s string, narrow bool) int {
	s = s[:min(len(s), 200)] // it is called for every character
	rest := s
	mark, size := utf8.DecodeRuneInString(s)
	space := func() bool {
		before := len(rest)
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		return len(rest) < before
	}
	switch {
	case mark == '.' || mark == '?' || mark == '!':
		if rest = strings.TrimLeft(rest, ".?!"); !space() {
			return 0
		}
	case mark == '\n' || mark == '\r':
		space()
	case mark == ';':
		rest = rest[size:]
		space()
	case mark == ',':
		if rest = rest[size:]; !space() {
			return 0
		}
	case unicode.IsSpace(mark):
		space()
	default:
		return 0
	}
	if strings.Contains(s[:len(s)-len(rest)], "\n") {
		rest = rest[len(bullet.FindString(rest)):]
	}
	connected := ""
	for range 4 { // "and then also"
		word, _ := nextWord(rest)
		if lower := strings.ToLower(word); lower != "and" && lower != "&" && lower != "then" && lower != "also" {
			break
		} else if connected == "" || lower == "then" {
			connected = lower
		}
		rest = rest[len(word):]
		if !space() {
			return 0
		}
	}
	switch {
	case narrow && connected != "then" && (mark != ',' || connected == ""):
		return 0
	case connected == "" && mark != '\n' && mark != '\r' && unicode.IsSpace(mark):
		return 0 // only a space between words
	}
	return len(s) - len(rest)
}

// begins reports whether a request can begin with s: with a question, a name, a number, thanks, or a word with which a card's text begins.
func (m *matcher) begins(s string) bool {
	if isPolite(s) {
		return true
	}
	s = s[:min(len(s), 200)] // enough for an address; it is called for every joint
	word, _ := nextWord(s)
	lower := strings.TrimRight(strings.ToLower(word), ",.?!:;")
	if r, _ := utf8.DecodeRuneInString(word); r == '@' || r == '(' || unicode.IsDigit(r) || questions[lower] || requests[lower] {
		return true
	}
	if m.begin(word) {
		return true
	}
	_, called := m.addressed(s)
	return called
}

// contentAt returns the index of the colon that separates an instruction from its material; 0 for none. Colons in times, URLs and names are not
// followed by a space.
func contentAt(text string) int {
	if strings.IndexByte(text[:min(len(text), 200)], ':') < 0 {
		return 0
	}
	for i := 1; i < len(text)-1 && i < 200; i++ {
		if end := quotedIn(head(text), i); end > 0 {
			i += end - 1
			continue
		}
		if text[i] != ':' || !unicode.IsSpace(rune(text[i+1])) {
			continue
		}
		rest := strings.TrimSpace(text[i+1:])
		if rest == "" || (isDigit(text[i-1]) && isDigit(rest[0])) {
			continue
		}
		return i
	}
	return 0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
