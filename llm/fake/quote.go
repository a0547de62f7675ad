package fake

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// head returns the part of a request that is read.
func head(s string) string { return s[:min(len(s), maxRead)] }

// unquoted returns s without the text in quotes.
func unquoted(s string) string {
	var b strings.Builder
	end := 0
	for _, at := range quotations(s) {
		b.WriteString(s[end:at[0]])
		b.WriteByte(' ')
		end = at[1]
	}
	return b.String() + s[end:]
}

// quotedAt returns the length of the quotation at the start of s, including the quotes; 0 when there is none, or it has no end. A single quote ends one
// only behind a word: "isn't" has none.
func quotedAt(s string) int {
	mark, size := utf8.DecodeRuneInString(s)
	switch mark {
	case '"', '“':
		i := strings.IndexAny(s[size:], "\"”")
		if i < 0 {
			return 0
		}
		_, last := utf8.DecodeRuneInString(s[size+i:])
		return size + i + last
	case '\'', '‘':
		for i := size; ; {
			n := strings.IndexAny(s[i:], "'’")
			if n < 0 {
				return 0
			}
			_, last := utf8.DecodeRuneInString(s[i+n:])
			end := i + n + last
			if next, _ := utf8.DecodeRuneInString(s[end:]); n > 0 && !unicode.IsSpace(rune(s[i+n-1])) && (end == len(s) || !unicode.IsLetter(next) && !unicode.IsDigit(next)) {
				return end
			}
			i = end
		}
	}
	return 0
}

// quotedIn returns the length of the quotation at s[i]; 0 when there is none.
func quotedIn(s string, i int) int {
	if !opensAt(s, i) {
		return 0
	}
	return quotedAt(s[i:])
}

// opensAt reports whether a quotation may begin at s[i]: a single quote begins none within or behind a word.
func opensAt(s string, i int) bool {
	switch mark, _ := utf8.DecodeRuneInString(s[i:]); mark {
	case '"', '“':
		return true
	case '\'', '‘':
		before, _ := utf8.DecodeLastRuneInString(s[:i])
		return i == 0 || !unicode.IsLetter(before) && !unicode.IsDigit(before)
	}
	return false
}

// skipWords returns s from its first word on that is not in words.
func skipWords(s string, words map[string]bool) string {
	for {
		s = strings.TrimLeft(s, " \t\r\n,;.!")
		word := s
		if i := strings.IndexAny(s, " \t\r\n,;.!"); i >= 0 {
			word = s[:i]
		}
		if word == "" || !words[strings.ToLower(word)] {
			return s
		}
		s = s[len(word):]
	}
}

// masked replaces each quotation in s by a word of the same length.
func masked(s string) string {
	all := quotations(s)
	if len(all) == 0 {
		return s
	}
	b := []byte(s)
	for _, at := range all {
		copy(b[at[0]:], strings.Repeat("x", at[1]-at[0]))
	}
	return string(b)
}

// endsQuestion matches what may follow the quotation in a question about it: "does '…' have?".
var endsQuestion = regexp.MustCompile(`^(?: (?:have|has|contain|contains|got))?(?: in it)?[?!. ]*$`)

// quotedLast returns the index of the only quotation of s, if nothing follows it but the end of a question; otherwise 0.
func quotedLast(s string) int {
	all := quotations(s)
	if len(all) != 1 || !endsQuestion.MatchString(s[all[0][1]:]) {
		return 0
	}
	return all[0][0]
}

// lastQuoted returns the range of the last quotation of s; nil when there is none.
func lastQuoted(s string) []int {
	all := quotations(s)
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// quotations returns the ranges of the quotations of s.
func quotations(s string) (all [][]int) {
	const double, single = "\"“", "'‘"
	if strings.IndexByte(s, '"') < 0 && strings.IndexByte(s, '\'') < 0 && strings.IndexByte(s, "“"[0]) < 0 {
		return nil // nearly always, and far faster
	}
	marks := double + single
	for at := 0; ; {
		i := strings.IndexAny(s[at:], marks)
		if i < 0 {
			return all
		}
		at += i
		mark, size := utf8.DecodeRuneInString(s[at:])
		if !opensAt(s, at) {
			at += size
			continue
		}
		n := quotedAt(s[at:])
		if n > 0 {
			all = append(all, []int{at, at + n})
		} else { // later ones of the kind have no end either
			kind := double
			if strings.ContainsRune(single, mark) {
				kind = single
			}
			if marks = strings.ReplaceAll(marks, kind, ""); marks == "" {
				return all
			}
		}
		at += max(n, size)
	}
}
