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
