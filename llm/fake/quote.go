package fake

import (
	"strings"
	"unicode/utf8"
)

// head returns the beginning of a request, which is all that is looked at.
func head(s string) string { return s[:min(len(s), maxRead)] }

// unquoted returns s without what stands in double quotes.
func unquoted(s string) string {
	var b strings.Builder
	for {
		start := strings.IndexAny(s, "\"“")
		if start < 0 {
			return b.String() + s
		}
		end := quotedAt(s[start:])
		if end == 0 {
			return b.String() + s
		}
		b.WriteString(s[:start])
		b.WriteByte(' ')
		s = s[start+end:]
	}
}

// quotedAt returns the length of the quotation at the start of s, marks included; 0 when there is none, or it has no end.
func quotedAt(s string) int {
	mark, size := utf8.DecodeRuneInString(s)
	if mark != '"' && mark != '“' {
		return 0
	}
	i := strings.IndexAny(s[size:], "\"”")
	if i < 0 {
		return 0
	}
	_, last := utf8.DecodeRuneInString(s[size+i:])
	return size + i + last
}

// skipWords returns s from its first word that is not in set on.
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

// masked returns s with one word of the same length in the place of each quotation.
func masked(s string) string {
	if !strings.ContainsAny(s, "\"“") {
		return s
	}
	b := []byte(s)
	for i := 0; i < len(b); i++ {
		if n := quotedAt(s[i:]); n > 0 {
			copy(b[i:], strings.Repeat("x", n))
			i += n - 1
		}
	}
	return string(b)
}

// quotedLast returns where the only quotation of s begins, if nothing is behind it; else 0.
func quotedLast(s string) int {
	at := lastQuoted(s)
	if at == nil || strings.Trim(s[at[1]:], "?!. ") != "" || lastQuoted(s[:at[0]]) != nil {
		return 0
	}
	return at[0]
}

// lastQuoted returns where the last quotation of s is; nil when it has none.
func lastQuoted(s string) (at []int) {
	for i := 0; i < len(s); i++ {
		if n := quotedAt(s[i:]); n > 0 {
			at = []int{i, i + n}
			i += n - 1
		}
	}
	return at
}
