package fake

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	shortestTypo = 4  // letters of a word that is taken for another one, in which two changed places
	shortestSlip = 5  // letters of one with any slip
	longestTypo  = 24 // and at most
	maxTypos     = 8  // words that are examined
)

// mended corrects typing errors: it replaces each word that is on no card, but one slip away from a word of a card. A slip is one letter too many,
// too few or wrong, or two letters exchanged, except the first one. Names and quotations are not corrected. It reports whether there were any errors.
func (m *matcher) mended(text string) (string, bool) {
	if len(text) > maxRead {
		return text, false
	}
	var b strings.Builder
	tried, found := 0, false
	quoted := quotations(text)
	for i := 0; i < len(text); {
		if len(quoted) > 0 && quoted[0][0] == i {
			b.WriteString(text[i:quoted[0][1]])
			i, quoted = quoted[0][1], quoted[1:]
			continue
		}
		n := wordAt(text[i:])
		if n == 0 {
			_, n = utf8.DecodeRuneInString(text[i:])
			b.WriteString(text[i : i+n])
			i += n
			continue
		}
		word := text[i : i+n]
		if tried < maxTypos && m.mayBeTypo(word, i == 0) {
			tried++
			if meant := nearest(strings.ToLower(word), m.cards...); meant != "" {
				word, found = meant, true
			}
		}
		b.WriteString(word)
		i += n
	}
	return b.String(), found
}

// wordAt returns the length of the run of letters, digits and characters of ids at the start of s.
func wordAt(s string) int {
	i := strings.IndexFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_@'’", r)
	})
	if i < 0 {
		return len(s)
	}
	return i
}

// mayBeTypo reports whether a word may have a typing error: it is no name, not insignificant, and on no card.
func (m *matcher) mayBeTypo(word string, first bool) bool {
	if n := utf8.RuneCountInString(word); n < shortestTypo || n > longestTypo {
		return false
	}
	for i, r := range word {
		if !unicode.IsLetter(r) || unicode.IsUpper(r) && (i > 0 || !first) {
			return false
		}
	}
	word = strings.ToLower(word)
	if stop[word] || greetings[word] || questions[word] {
		return false
	}
	term := []byte(stem(word))
	return !slices.ContainsFunc(m.cards, func(v *vocabulary) bool { return v.has(term) })
}

// mendVerb corrects the first word of a piece, if the agent's card begins with a word one slip away: small agents read it as a command.
func (m *matcher) mendVerb(p *piece) {
	n := wordAt(p.task)
	if p.unknown != "" || p.agent >= len(m.cards) || p.task != p.about || !m.mayBeTypo(p.task[:n], true) {
		return
	}
	card := m.cards[p.agent]
	if verb := nearest(strings.ToLower(p.task[:n]), card); verb != "" && card.begins(stem(verb)) {
		p.task = verb + p.task[n:]
	}
}

// nearest returns the word of some cards that is one slip away from word; "" when there is none, or several with different meanings.
func nearest(word string, cards ...*vocabulary) string {
	best, meant := "", []rune(word)
	for _, v := range cards {
		for w := range v.words {
			switch {
			case w[0] != word[0] || max(len(w), len(word))-min(len(w), len(word)) > utf8.UTFMax || !oneSlip(meant, []rune(w)):
			case best == "" || stem(best) == stem(w) && w < best:
				best = w
			case stem(best) != stem(w):
				return ""
			}
		}
	}
	return best
}

// oneSlip reports whether a and b begin with the same letter and differ by one letter, or by two exchanged letters.
func oneSlip(a, b []rune) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > 1 || len(a) < shortestTypo || a[0] != b[0] {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	if len(a) < len(b) {
		return len(a) >= shortestSlip && string(a[i:]) == string(b[i+1:])
	}
	if i == len(a) {
		return false // the same
	}
	swapped := i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && string(a[i+2:]) == string(b[i+2:])
	return swapped || len(a) >= shortestSlip && string(a[i+1:]) == string(b[i+1:])
}
