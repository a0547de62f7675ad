// Package token recognises numbers, dates and other tokens at the beginning of a text that are not plain words. The router and the fake decider
// both use it for requests and cards, so that they see the same words.
package token

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Suffix returns the length in bytes of a contraction at the start of s, an apostrophe and at most two letters as in what's; or 0.
func Suffix(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if r != '\'' && r != '’' {
		return 0
	}
	letters := strings.IndexFunc(s[n:], func(r rune) bool { return !unicode.IsLetter(r) })
	if letters < 0 {
		letters = len(s) - n
	}
	if letters > 2 { // o'clock
		return 0
	}
	return n + letters
}

// Number returns the length in bytes of a number at the start of s, with decimal points and commas; or 0.
func Number(s string) int {
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if !unicode.IsDigit(r) && ((r != '.' && r != ',') || i+1 >= len(s) || s[i+1] < '0' || s[i+1] > '9') {
			return i
		}
		i += size
	}
	return len(s)
}

// Date returns the length in bytes of a date, or another group of three numbers, at the start of s: 2026-11-20, 20/11/2026; or 0.
func Date(s string) int {
	i := 0
	var sep byte
	for group := range 3 {
		start := i
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		if i == start || i-start > 4 {
			return 0
		}
		if group == 2 {
			return i
		}
		if i == len(s) || (s[i] != '-' && s[i] != '/' && s[i] != '.') || (sep != 0 && s[i] != sep) {
			return 0
		}
		sep = s[i]
		i++
	}
	return 0
}
