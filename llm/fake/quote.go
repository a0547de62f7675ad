package fake

import (
	"strings"
	"unicode/utf8"
)

// head returns the part of a request that is read.
func head(s string) string { return s[:min(len(s), maxRead)] }

// unquoted returns s without the text in double quotes.
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

// quotedAt returns the length of the quotation at the start of s, including the quotes; 0 when there is none, or it has no end.
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

// quotedLast returns the index of the only quotation of s, if nothing follows it; otherwise 0.
func quotedLast(s string) int {
	all := quotations(s)
	if len(all) != 1 || strings.Trim(s[all[0][1]:], "?!. ") != "" {
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
	for at := 0; ; {
		i := strings.IndexAny(s[at:], "\"“")
		if i < 0 {
			return all
		}
		n := quotedAt(s[at+i:])
		if n == 0 {
			return all // later ones have no end either
		}
		all = append(all, []int{at + i, at + i + n})
		at += i + n
	}
}
